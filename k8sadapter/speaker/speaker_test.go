package speaker

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/source/sourcetest"
	"github.com/heraldlb/herald/membership"
)

// board is an Announcer that notes what it is told.
type board struct {
	mu      sync.Mutex
	ads     []announce.Advertisement
	links   []announce.Link
	changed chan struct{}
	again   int
}

func newBoard(links ...string) *board {
	b := &board{changed: make(chan struct{}, 1)}
	for _, l := range links {
		b.links = append(b.links, announce.Link{Name: l})
	}
	return b
}

func (b *board) SetAddrs(ads []announce.Advertisement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ads = ads
	return nil
}

func (b *board) Reannounce() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again++
}

func (b *board) Links() []announce.Link        { return b.links }
func (b *board) LinksChanged() <-chan struct{} { return b.changed }

func (b *board) shows() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, a := range b.ads {
		out = append(out, a.Addr.String())
	}
	return out
}

// cluster is a membership whose eligibility is set from both sides.
type cluster struct {
	*membership.Static
	mu       sync.Mutex
	eligible []bool
	drained  bool
	rejoins  int
}

func (c *cluster) SetEligible(e bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eligible = append(c.eligible, e)
}

func (c *cluster) SetLinks([]string) {}

func (c *cluster) Rejoin() { c.rejoins++ }

func (c *cluster) Drain(context.Context) error {
	c.drained = true
	return nil
}

func members(names ...string) []membership.Member {
	var out []membership.Member
	for _, n := range names {
		out = append(out, membership.Member{Name: n, Eligible: true})
	}
	return out
}

func seed(src *sourcetest.Memory) {
	src.Set(source.IPAddressPools, &v1beta1.IPAddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "P", Namespace: "metallb-system"},
		Spec:       v1beta1.IPAddressPoolSpec{Addresses: []string{"198.51.100.0/24"}},
	})
	src.Set(source.L2Advertisements, ad("all"))
	for _, n := range []string{"kw-01", "kw-02"} {
		src.Set(source.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	for name, ip := range map[string]string{"seven": dot7, "nine": dot9} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		src.Set(source.Services, svc)
		src.Set(source.EndpointSlices, slice(name, "kw-01"))
	}
}

func slice(service, node string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if node != "" {
		s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, NodeName: &node}}
	}
	return s
}

// running runs a speaker in virtual time while f runs. Everything with a channel is made in the bubble.
func running(t *testing.T, cfg Config, f func(s *Speaker, settle func())) {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	settle := func() {
		time.Sleep(3 * time.Second)
		synctest.Wait()
	}
	settle()
	f(s, settle)
	cancel()
	require.NoError(t, <-ended)
}

func TestRunFollowsMembersAndObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, b := &sourcetest.Memory{}, newBoard("eth0")
		seed(src)
		c := &cluster{Static: membership.NewStatic(members("kw-01", "kw-02"))}
		announced := map[types.NamespacedName][]string{}
		running(t, Config{
			Node: "kw-01", Source: src, Membership: c, Announcer: b,
			OnAnnounced: func(l map[types.NamespacedName][]string) { announced = l },
		}, func(s *Speaker, settle func()) {
			assert.True(t, s.Ready())
			assert.Equal(t, []bool{true}, c.eligible, "eligible once it has decided, not before")
			assert.Equal(t, []string{dot9}, b.shows())
			assert.Len(t, announced, 1)
			assert.Equal(t, 1, len(s.Announced()))

			c.Set(members("kw-01"))
			settle()
			assert.ElementsMatch(t, []string{dot7, dot9}, b.shows(), "took over")
			assert.Zero(t, b.again)
			c.Set(members("kw-01", "kw-02"))
			settle()
			assert.Equal(t, []string{dot9}, b.shows())
			assert.Equal(t, 1, b.again, "who comes back may have claimed what this node holds")
			var assigned int
			for _, e := range src.Events() {
				if e.Reason == "nodeAssigned" {
					assigned++
					assert.Equal(t, `announcing from node "kw-01" with protocol "layer2"`, e.Message)
				}
			}
			assert.Equal(t, 2, assigned, "on transitions only (metallb#978)")

			for range 20 { // rewritten slices and heartbeats change nothing
				src.Set(source.EndpointSlices, slice("nine", "kw-01"))
				src.Set(source.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kw-01", Annotations: map[string]string{"beat": "1"}}})
				settle()
			}
			assert.Len(t, src.Events(), assigned)
			assert.Zero(t, src.Writes())

			src.Set(source.EndpointSlices, slice("nine", ""))
			settle()
			assert.Empty(t, b.shows(), "nothing serves it")
			assert.EqualValues(t, 1, s.Stats().Orphans)
			last := src.Events()[len(src.Events())-1]
			assert.Equal(t, "noCandidate", last.Reason)
			assert.Contains(t, last.Message, "noEndpoints: kw-01, kw-02")

			rejoins := c.rejoins
			b.links = append(b.links, announce.Link{Name: "eth1"})
			b.changed <- struct{}{}
			settle()
			assert.Equal(t, rejoins+1, c.rejoins, "a link that comes up may have been the way to the others")

			src.Delete(source.Services, "shop", "nine")
			settle()
			assert.Zero(t, s.Stats().Orphans)
		})
		assert.Empty(t, b.shows(), "nothing is announced after Run")
	})
}

func TestDrainKeepsAnnouncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, b := &sourcetest.Memory{}, newBoard("eth0")
		seed(src)
		c := &cluster{Static: membership.NewStatic(members("kw-01", "kw-02"))}
		running(t, Config{Node: "kw-01", Source: src, Membership: c, Announcer: b}, func(s *Speaker, settle func()) {
			s.Drain(t.Context())
			assert.True(t, c.drained)
			c.Set([]membership.Member{{Name: "kw-01", Described: true}, {Name: "kw-02", Eligible: true}})
			settle()
			assert.Equal(t, []string{dot9}, b.shows(), "until the others have taken over")
		})
	})
}

func TestAnnounceFailedNamesTheLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, b := &sourcetest.Memory{}, newBoard("eth0")
		seed(src)
		src.Set(source.L2Advertisements, ad("all", links("nope0")))
		running(t, Config{Node: "kw-01", Source: src, Membership: membership.NewStatic(members("kw-01", "kw-02")), Announcer: b}, func(*Speaker, func()) {
			events := src.Events()
			require.Len(t, events, 1)
			assert.Equal(t, "announceFailed", events[0].Reason)
			assert.Contains(t, events[0].Message, "nope0")
		})
	})
}

func TestNodesAreTheMembersWithoutGossip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, b := &sourcetest.Memory{}, newBoard("eth0")
		seed(src)
		running(t, Config{Node: "kw-01", Source: src, Announcer: b}, func(_ *Speaker, settle func()) {
			assert.Equal(t, []string{dot9}, b.shows())
			src.Set(source.Nodes, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "kw-02"},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.Now(),
				}}},
			})
			settle()
			assert.Equal(t, []string{dot9}, b.shows(), "not for 40 s")
			time.Sleep(50 * time.Second)
			assert.ElementsMatch(t, []string{dot7, dot9}, b.shows())
			src.Set(source.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kw-02"}})
			settle()
			assert.Equal(t, []string{dot9}, b.shows())
			src.Set(source.Nodes, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "kw-02"},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}},
			})
			settle()
			assert.ElementsMatch(t, []string{dot7, dot9}, b.shows(), "out of service counts at once")
		})
	})
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, b := &sourcetest.Memory{}, newBoard("eth0")
		seed(src)
		running(t, Config{Node: "kw-01", Source: src, Membership: membership.NewStatic(members("kw-01", "kw-02")), Announcer: b}, func(s *Speaker, _ func()) {
			ask := func(query string) (int, []printed) {
				w := httptest.NewRecorder()
				s.Explain().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/explain"+query, nil))
				var out []printed
				if w.Code == http.StatusOK {
					require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
				}
				return w.Code, out
			}
			code, out := ask("?service=shop/seven")
			assert.Equal(t, http.StatusOK, code)
			require.Len(t, out, 2)
			assert.Equal(t, "kw-02", out[1].Announcer)
			_, out = ask("")
			assert.Len(t, out, 4)
			code, _ = ask("?service=nope")
			assert.Equal(t, http.StatusNotFound, code)
		})
	})
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Node")
	require.ErrorContains(t, err, "Source")
	require.ErrorContains(t, err, "Announcer")
}
