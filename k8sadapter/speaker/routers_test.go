package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/source/sourcetest"
	"github.com/heraldlb/herald/membership"
)

// engine is Routers that note what they are told, and refuse a peer of the name refused.
type engine struct {
	mu     sync.Mutex
	peers  []bgp.Peer
	routes map[netip.Prefix][]bgp.Route
	calls  []string
}

func (e *engine) SetPeers(peers []bgp.Peer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.EqualFunc(e.peers, peers, func(a, b bgp.Peer) bool { return a.Equal(&b) }) {
		e.calls = append(e.calls, "peers")
	}
	e.peers = slices.Clone(peers)
	for _, p := range peers {
		if p.Name == "refused" {
			return &bgp.PeerError{Peer: p.Name, Field: "HoldTime", Value: "0s", Reason: "this engine cannot do without"}
		}
	}
	return nil
}

func (e *engine) SetRoutes(routes []bgp.Route) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, "routes")
	e.routes = make(map[netip.Prefix][]bgp.Route)
	for _, r := range routes {
		e.routes[r.Prefix] = append(e.routes[r.Prefix], r)
	}
	return nil
}

func (e *engine) Sessions() []bgp.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []bgp.Session{{Peer: "gone", State: bgp.Established}}
	for _, p := range e.peers {
		out = append(out, bgp.Session{Peer: p.Name, State: bgp.Established})
	}
	return out
}

// has are the routes in short, sorted.
func (e *engine) has() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []string{}
	for prefix, routes := range e.routes {
		for _, r := range routes {
			out = append(out, strings.TrimSpace(fmt.Sprint(prefix, " ", strings.Join(communityText(r), ","))))
		}
	}
	slices.Sort(out)
	return out
}

// incremental is an engine that takes changes.
type incremental struct{ engine }

func (e *incremental) UpdateRoutes(changes []bgp.Change) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, fmt.Sprint("update ", len(changes)))
	for _, c := range changes {
		delete(e.routes, c.Prefix)
		if len(c.Routes) > 0 {
			e.routes[c.Prefix] = c.Routes
		}
	}
	return nil
}

func peerNamed(name, addr string, edits ...func(*v1beta2.BGPPeerSpec)) *v1beta2.BGPPeer {
	p := &v1beta2.BGPPeer{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metallb-system"},
		Spec:       v1beta2.BGPPeerSpec{MyASN: 64512, ASN: 64513, Address: addr, Port: 179},
	}
	for _, e := range edits {
		e(&p.Spec)
	}
	return p
}

func TestRoutersAreToldOfAggregatesByNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, e := &sourcetest.Memory{}, &engine{}
		seed(src)
		src.Set(source.BGPPeers, peerNamed("tor", "192.0.2.1"))
		src.Set(source.BGPAdvertisements, bgpAd("all", within(28)))
		running(t, Config{Node: "kw-01", Source: src, Announcer: newBoard("eth0"), BGP: e}, func(s *Speaker, settle func()) {
			assert.Equal(t, []string{"198.51.100.0/28"}, e.has(), "both Services are in it")
			assert.Equal(t, []string{"routes", "peers"}, e.calls, "routes first: a session starts with all of them")
			assert.Equal(t, netip.MustParseAddr("192.0.2.1"), e.peers[0].Addr)

			src.Set(source.EndpointSlices, slice("seven", ""))
			settle()
			assert.Equal(t, []string{"198.51.100.0/28"}, e.has(), "the other one needs it")
			src.Set(source.EndpointSlices, slice("nine", ""))
			settle()
			assert.Empty(t, e.has())
			src.Set(source.EndpointSlices, slice("nine", "kw-02"))
			settle()
			assert.Equal(t, []string{"198.51.100.0/28"}, e.has())
			calls := len(e.calls)
			src.Set(source.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "shop"}})
			settle()
			assert.Len(t, e.calls, calls, "what changes nothing tells nothing")
		})
	})
}

// An engine that takes changes is told of those alone.
func TestRoutersAreToldOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, e := &sourcetest.Memory{}, &incremental{}
		seed(src)
		src.Set(source.BGPAdvertisements, bgpAd("all"))
		running(t, Config{Node: "kw-01", Source: src, Announcer: newBoard("eth0"), BGP: e}, func(s *Speaker, settle func()) {
			assert.Equal(t, []string{dot7 + "/32", dot9 + "/32"}, e.has())
			src.Set(source.EndpointSlices, slice("seven", ""))
			settle()
			assert.Equal(t, []string{dot9 + "/32"}, e.has())
			src.Set(source.BGPAdvertisements, bgpAd("all", within(28)))
			settle()
			assert.Equal(t, []string{"198.51.100.0/28"}, e.has())
			src.Set(source.BGPAdvertisements, bgpAd("all", within(28), tagged("64512:1")))
			src.Set(source.EndpointSlices, slice("seven", "kw-01"))
			settle()
			assert.Equal(t, []string{"198.51.100.0/28 64512:1"}, e.has())
			assert.Equal(t, []string{"routes", "update 1", "update 2", "update 1"}, e.calls)
		})
	})
}

// A Secret that changes changes its peer; one that goes holds the peer back, with an Event that does not tell it.
func TestRotatedPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, e := &sourcetest.Memory{}, &engine{}
		seed(src)
		src.Set(source.BGPPeers, peerNamed("tor", "192.0.2.1", func(s *v1beta2.BGPPeerSpec) { s.PasswordSecret.Name = "key" }))
		secret := func(password string) *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "key", Namespace: "metallb-system"}, Type: corev1.SecretTypeBasicAuth,
				Data: map[string][]byte{"password": []byte(password)},
			}
		}
		src.Set(source.Secrets, secret("sesame"))
		var told []string
		cfg := Config{
			Node: "kw-01", Source: src, Announcer: newBoard("eth0"), BGP: e, Membership: membership.NewStatic(members("kw-01")),
			OnConfiguration: func(rejected []string) { told = rejected },
		}
		running(t, cfg, func(s *Speaker, settle func()) {
			require.Len(t, e.peers, 1)
			assert.Equal(t, bgp.Secret("sesame"), e.peers[0].Password)
			src.Set(source.Secrets, secret("open"))
			settle()
			assert.Equal(t, bgp.Secret("open"), e.peers[0].Password)
			assert.Empty(t, told)
			src.Delete(source.Secrets, "metallb-system", "key")
			settle()
			assert.Empty(t, e.peers)
			assert.True(t, s.Stats().ConfigStale)
			require.Len(t, told, 1)
			assert.Contains(t, told[0], "held back")
			src.Set(source.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			settle()
			var events []sourcetest.Event
			for _, ev := range src.Events() {
				if ev.Object == "metallb-system/tor" {
					events = append(events, ev)
				}
			}
			require.Len(t, events, 1, "once")
			assert.Equal(t, "ConfigurationError", events[0].Reason)
			src.Set(source.Secrets, secret("third"))
			settle()
			assert.Equal(t, bgp.Secret("third"), e.peers[0].Password)
			assert.False(t, s.Stats().ConfigStale)
		})
	})
}

func TestPeersThatTheEngineRefusesAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, e := &sourcetest.Memory{}, &engine{}
		seed(src)
		src.Set(source.BGPPeers, peerNamed("refused", "192.0.2.1"))
		src.Set(source.BGPPeers, peerNamed("tor", "192.0.2.2"))
		src.Set(source.BGPPeers, peerNamed("twin", "192.0.2.2"))
		running(t, Config{Node: "kw-01", Source: src, Announcer: newBoard("eth0"), BGP: e}, func(s *Speaker, settle func()) {
			var names []string
			for _, r := range s.State().Rejected {
				names = append(names, r.Name)
			}
			assert.Equal(t, []string{"refused", "twin"}, names)
			assert.Contains(t, s.State().Rejected[0].Error(), "spec.holdTime")
		})
	})
}

func TestEventsAndHooksOfRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, e := &sourcetest.Memory{}, &engine{}
		seed(src)
		src.Delete(source.L2Advertisements, "metallb-system", "all")
		src.Set(source.BGPPeers, peerNamed("tor-b", "192.0.2.1"))
		src.Set(source.BGPPeers, peerNamed("tor-a", "192.0.2.2", func(s *v1beta2.BGPPeerSpec) { s.VRFName, s.Port = "red", 1179 }))
		src.Set(source.BGPAdvertisements, bgpAd("all", toPeers("tor-a", "tor-b", "tor-c")))
		var told map[types.NamespacedName][]string
		cfg := Config{
			Node: "kw-01", Source: src, Announcer: newBoard("eth0"), BGP: e, Membership: membership.NewStatic(members("kw-01", "kw-02")),
			OnRoutes: func(peers map[types.NamespacedName][]string) { told = peers },
		}
		running(t, cfg, func(s *Speaker, settle func()) {
			seven, nine := types.NamespacedName{Namespace: "shop", Name: "seven"}, types.NamespacedName{Namespace: "shop", Name: "nine"}
			both := []string{"tor-a", "tor-b"}
			assert.Equal(t, map[types.NamespacedName][]string{seven: both, nine: both}, told, "only peers that are there")
			assert.Zero(t, s.Stats().Orphans, "announced to routers, if not on the LAN")
			for _, ev := range src.Events() {
				assert.Equal(t, `announcing from node "kw-01" with protocol "bgp"`, ev.Message)
				assert.Equal(t, "nodeAssigned", ev.Reason)
			}
			assert.Len(t, src.Events(), 2)
			var labels []string
			for _, m := range s.BGPSessions() {
				labels = append(labels, m.Peer+" "+m.VRF)
			}
			assert.Equal(t, []string{"192.0.2.2:1179 red", "192.0.2.1:179 "}, labels)
			assert.Len(t, s.Announced(), 2)

			src.Set(source.BGPAdvertisements, bgpAd("all", toPeers("tor-b")))
			settle()
			assert.Equal(t, []string{"tor-b"}, told[seven])
			src.Set(source.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kw-01", Labels: map[string]string{corev1.LabelNodeExcludeBalancers: ""}}})
			settle()
			assert.Empty(t, told)
			assert.Empty(t, e.has())
		})
	})
}

func TestContradictionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sourcetest.Memory{}
		seed(src)
		svc := src.Service("shop", "seven")
		svc.Labels = map[string]string{"app": "web"}
		src.Set(source.Services, svc)
		for _, a := range []*v1beta1.BGPAdvertisement{bgpAd("a", ofApps("web"), prefer(1)), bgpAd("b", ofApps("web"), prefer(2))} {
			src.Set(source.BGPAdvertisements, a)
		}
		running(t, Config{Node: "kw-01", Source: src, Announcer: newBoard("eth0"), BGP: &engine{}, Membership: membership.NewStatic(members("kw-01"))}, func(*Speaker, func()) {
			found := 0
			for _, ev := range src.Events() {
				if ev.Reason == string(ConflictingAdvertisements) {
					found++
					assert.Equal(t, "shop/seven", ev.Object)
				}
			}
			assert.Equal(t, 1, found)
		})
	})
}
