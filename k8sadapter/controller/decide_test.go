package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

// epoch is the creationTimestamp of the first object of a test; each later one is a second younger.
func epoch(n int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC))
}

func pool(name string, addresses ...string) *v1beta1.IPAddressPool {
	return &v1beta1.IPAddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metallb-system", UID: types.UID("pool-" + name)},
		Spec:       v1beta1.IPAddressPoolSpec{Addresses: addresses},
	}
}

type edit func(*corev1.Service)

// lb is a Service "shop/name" of type LoadBalancer with an IPv4 cluster IP and TCP port 80.
func lb(name string, edits ...edit) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("uid-" + name), CreationTimestamp: epoch(0)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func status(ips ...string) edit {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = nil
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func annotated(kv ...string) edit {
	return func(s *corev1.Service) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		for i := 0; i < len(kv); i += 2 {
			s.Annotations[kv[i]] = kv[i+1]
		}
	}
}

// held is a Service that we gave addresses to earlier.
func held(pool string, ips ...string) edit {
	return func(s *corev1.Service) {
		status(ips...)(s)
		annotated(config.AnnotationAllocatedFrom, pool)(s)
	}
}

func born(n int) edit { return func(s *corev1.Service) { s.CreationTimestamp = epoch(n) } }

func dualStack(policy corev1.IPFamilyPolicy, clusterIPs ...string) edit {
	return func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy, s.Spec.ClusterIPs, s.Spec.ClusterIP = &policy, clusterIPs, clusterIPs[0]
	}
}

// world is a decider with the objects that it decides on; what it decides is written to the objects at once.
type world struct {
	*testing.T
	dec    *decider
	pools  []*v1beta1.IPAddressPool
	svcs   map[string]*corev1.Service
	events []string
	writes int
}

func newWorld(t *testing.T, pools ...*v1beta1.IPAddressPool) *world {
	t.Helper()
	dec, err := newDecider("", silent())
	require.NoError(t, err)
	w := &world{T: t, dec: dec, svcs: map[string]*corev1.Service{}}
	w.configure(pools...)
	return w
}

func (w *world) configure(pools ...*v1beta1.IPAddressPool) {
	w.Helper()
	w.pools = pools
	_, err := w.dec.setConfig(config.Objects{Pools: pools})
	require.NoError(w, err)
}

// restart forgets everything but the objects, adopts in the order of a start, and decides on all in that order.
func (w *world) restart() {
	w.Helper()
	dec, err := newDecider("", silent())
	require.NoError(w, err)
	w.dec = dec
	w.configure(w.pools...)
	w.sync()
}

// sync adopts and decides on every Service as the controller's start does.
func (w *world) sync() {
	all := make([]*corev1.Service, 0, len(w.svcs))
	for _, s := range w.svcs {
		all = append(all, s)
	}
	sortForService(all)
	for _, s := range all {
		if _, holds := w.dec.alloc.Get(ownerOf(s)); !holds {
			w.dec.adopt(s)
		}
	}
	for _, s := range all {
		w.decide(s.Name)
	}
}

// put adds or replaces Services without deciding on them.
func (w *world) put(svcs ...*corev1.Service) {
	for _, s := range svcs {
		w.svcs[s.Name] = s
	}
}

// decide decides on one Service, and returns what was decided.
func (w *world) decide(name string) outcome {
	svc := w.svcs[name]
	out := w.dec.decide(svc)
	for _, e := range out.events {
		w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", name, e.kind, e.reason, e.message))
	}
	if changed(svc, out.next) {
		w.writes++
		w.svcs[name] = out.next
	}
	return out
}

// serve adds a Service and decides on it.
func (w *world) serve(svc *corev1.Service) outcome {
	w.put(svc)
	return w.decide(svc.Name)
}

func (w *world) ips(name string) string { return strings.Join(ips(w.svcs[name]), ",") }

// told returns the events since the last call, and forgets them.
func (w *world) told() []string {
	e := w.events
	w.events = nil
	return e
}

func TestRestartAdoptsBeforeItAllocates(t *testing.T) { // metallb#2443
	names := []string{"a", "b", "c"}
	for _, order := range permutations([]int{0, 1, 2}) {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			w := newWorld(t, pool("p", "192.0.2.10-192.0.2.11"))
			for i, n := range names {
				svc := lb(n, born(order[i]))
				if n != "a" {
					held("p", map[string]string{"b": "192.0.2.10", "c": "192.0.2.11"}[n])(svc)
				}
				w.put(svc)
			}
			w.restart()
			assert.Equal(t, "192.0.2.10", w.ips("b"))
			assert.Equal(t, "192.0.2.11", w.ips("c"))
			assert.Empty(t, w.ips("a"))
			assert.Zero(t, w.writes)
			require.Len(t, w.events, 1)
			assert.Contains(t, w.events[0], "a Warning AllocationFailed")
			assert.Contains(t, w.events[0], `no free IPv4 address`)
		})
	}
}

func permutations(in []int) (out [][]int) {
	if len(in) < 2 {
		return [][]int{in}
	}
	for i := range in {
		rest := slices.Concat(in[:i], in[i+1:])
		for _, p := range permutations(rest) {
			out = append(out, append([]int{in[i]}, p...))
		}
	}
	return out
}

func TestTwoStatusesWithOneAddress(t *testing.T) { // metallb#1774
	w := newWorld(t, pool("p", "192.0.2.2/32"))
	w.put(lb("young", born(9), held("p", "192.0.2.2")), lb("old", born(1), held("p", "192.0.2.2")))
	w.restart()
	assert.Equal(t, "192.0.2.2", w.ips("old"))
	assert.Empty(t, w.ips("young"))
	assert.Equal(t, 1, w.writes)
	require.Len(t, w.events, 2)
	assert.Contains(t, w.events[0], "young Normal ClearAssignment")
	assert.Contains(t, w.events[0], "shop/old")
	assert.Contains(t, w.events[1], "young Warning AllocationFailed")
}

func TestSameAgeKeepsByName(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.2/31"))
	w.put(lb("b", held("p", "192.0.2.2")), lb("a", held("p", "192.0.2.2")))
	w.restart()
	assert.Equal(t, "192.0.2.2", w.ips("a"))
	assert.Equal(t, "192.0.2.3", w.ips("b"))
}

func TestResyncWritesNothing(t *testing.T) { // metallb#2723
	w := newWorld(t, pool("p", "192.0.2.0/28", "2001:db8::/124"))
	w.serve(lb("one", dualStack(corev1.IPFamilyPolicyPreferDualStack, "10.96.0.9")))
	w.serve(lb("other"))
	require.Equal(t, "192.0.2.0", w.ips("one"))
	w.dec.forget("shop/other")
	delete(w.svcs, "other")
	writes := w.writes
	w.told()
	for range 100 {
		w.sync()
	}
	assert.Equal(t, "192.0.2.0", w.ips("one"))
	assert.Equal(t, writes, w.writes)
	assert.Empty(t, w.told())
}

func TestPoolDeletedAndCreatedAgain(t *testing.T) { // metallb#1929
	p := pool("p", "192.0.2.0/30")
	w := newWorld(t, p, pool("q", "198.51.100.0/32"))
	w.serve(lb("s1", born(1)))
	require.Equal(t, "192.0.2.0", w.ips("s1"))
	w.configure(pool("q", "198.51.100.0/32"))
	w.serve(lb("s2", born(2)))
	assert.Equal(t, "198.51.100.0", w.ips("s2"), "nothing new from a deleted pool")
	w.configure(p, pool("q", "198.51.100.0/32")) // before s1 was looked at: it never lost its address
	w.restart()
	assert.Equal(t, "192.0.2.0", w.ips("s1"))
	assert.Equal(t, "198.51.100.0", w.ips("s2"))
}

func TestPoolMovedAway(t *testing.T) { // metallb#2449
	w := newWorld(t, pool("p", "192.0.2.5/32"))
	w.serve(lb("s"))
	w.told()
	w.configure(pool("p", "198.51.100.0/24"))
	w.decide("s")
	assert.Equal(t, "198.51.100.0", w.ips("s"))
	told := w.told()
	require.Len(t, told, 1, "one Event names old and new")
	assert.Contains(t, told[0], "192.0.2.5")
	assert.Contains(t, told[0], "198.51.100.0")
}

func TestPoolThatKeepsDisplaced(t *testing.T) {
	p := pool("p", "192.0.2.0/30")
	p.Annotations = map[string]string{config.AnnotationDisplaced: "keep"}
	w := newWorld(t, p)
	w.put(lb("a"))
	w.sync()
	require.Equal(t, "192.0.2.0", w.ips("a"))

	p = p.DeepCopy()
	p.Spec.Addresses = []string{"198.51.100.0/30"}
	w.configure(p)
	w.put(lb("b", born(1)))
	w.sync()
	assert.Equal(t, "192.0.2.0", w.ips("a"))
	assert.Equal(t, "198.51.100.0", w.ips("b"))
	w.restart()
	w.sync()
	assert.Equal(t, "192.0.2.0", w.ips("a"), "its annotation says where it is from")
	in, ok := w.dec.cfg.PoolOf([]netip.Addr{netip.MustParseAddr("192.0.2.0")}, config.PoolHint(w.svcs["a"]))
	assert.True(t, ok && in.Name == "p", "and so the speakers know")

	// With the pool go the advertisements for it: nobody would announce what it keeps.
	w.configure(pool("q", "203.0.113.0/30"))
	w.sync()
	assert.Equal(t, []string{"203.0.113.0", "203.0.113.1"}, []string{w.ips("a"), w.ips("b")})
}

func TestPoolRenamed(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/30"))
	w.serve(lb("s"))
	w.told()
	w.configure(pool("renamed", "192.0.2.0/30"))
	w.decide("s")
	assert.Equal(t, "192.0.2.0", w.ips("s"))
	assert.Equal(t, "renamed", w.svcs["s"].Annotations[config.AnnotationAllocatedFrom])
	assert.Empty(t, w.told())
}

func TestAllPoolsGone(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/30"))
	w.serve(lb("ours"))
	w.serve(lb("foreign", status("10.22.0.3")))
	w.configure()
	w.sync()
	assert.Empty(t, w.ips("ours"))
	assert.NotContains(t, w.svcs["ours"].Annotations, config.AnnotationAllocatedFrom)
	assert.Equal(t, "10.22.0.3", w.ips("foreign"))
}

func TestForeignStatusIsNotTouched(t *testing.T) { // metallb#2887
	for name, e := range map[string]edit{
		"address outside every pool": status("10.22.0.3"),
		"host name": func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p", "192.0.2.0/30"))
			w.serve(lb("s", e))
			assert.Zero(t, w.writes)
			assert.Empty(t, w.events)
		})
	}
}

func TestStatusNonsense(t *testing.T) { // metallb#1431
	const p = "192.0.2.0"
	tests := map[string]struct {
		edit  edit
		want  string
		event string
	}{
		"text":                  {held("p", "notanip"), p, "nolbIPsIPFamily"},
		"empty entry":           {held("p", ""), p, "nolbIPsIPFamily"},
		"two v4":                {held("p", "192.0.2.1", "192.0.2.2"), p, "nolbIPsIPFamily"},
		"three":                 {held("p", "192.0.2.1", "192.0.2.2", "2001:db8::1"), p, "nolbIPsIPFamily"},
		"outside every pool":    {held("p", "203.0.113.9"), p, "ClearAssignment"},
		"wrong family":          {held("p", "2001:db8::1"), p, "IPAllocated"},
		"other spelling of v4":  {held("p", "::ffff:192.0.2.1"), "192.0.2.1", ""},
		"unmarked, in our pool": {status("192.0.2.3"), "192.0.2.3", ""},
		"host name and address": {func(s *corev1.Service) {
			held("p", "192.0.2.1")(s)
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: "x.example"})
		}, "192.0.2.1", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p", "192.0.2.0/28", "2001:db8::/124"))
			w.put(lb("s", tt.edit))
			w.restart()
			assert.Equal(t, tt.want, w.ips("s"))
			if tt.event != "" {
				assert.Contains(t, strings.Join(w.told(), "\n"), tt.event)
			}
			writes := w.writes
			w.sync()
			assert.Equal(t, writes, w.writes, "no loop")
		})
	}
}

func TestStatusEntriesKeepWhatOthersPut(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/28"))
	mode := corev1.LoadBalancerIPModeVIP
	w.put(lb("s", held("p", "192.0.2.7"), func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = &mode }))
	w.restart()
	assert.Zero(t, w.writes)
	assert.Equal(t, &mode, w.svcs["s"].Status.LoadBalancer.Ingress[0].IPMode)
}

func TestTypeChange(t *testing.T) { // metallb#190
	w := newWorld(t, pool("p", "192.0.2.7/32"))
	w.serve(lb("s"))
	w.serve(lb("waiting"))
	require.Empty(t, w.ips("waiting"))
	w.svcs["s"].Spec.Type = corev1.ServiceTypeNodePort
	out := w.decide("s")
	assert.True(t, out.freed)
	assert.Empty(t, w.ips("s"))
	assert.NotContains(t, w.svcs["s"].Annotations, config.AnnotationAllocatedFrom)
	w.decide("waiting")
	assert.Equal(t, "192.0.2.7", w.ips("waiting"))
}

func TestDisownLeavesForeignEntries(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/30"))
	w.put(lb("s", held("p", "192.0.2.1"), func(s *corev1.Service) {
		class := "other.example/lb"
		s.Spec.LoadBalancerClass = &class
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "203.0.113.5"})
	}))
	w.restart()
	assert.Equal(t, "203.0.113.5", w.ips("s"))
	assert.NotContains(t, w.svcs["s"].Annotations, config.AnnotationAllocatedFrom)
}

func TestExplicitWishes(t *testing.T) {
	pools := []*v1beta1.IPAddressPool{pool("p1", "192.0.2.240/29"), pool("p2", "198.51.100.0/31")}
	tests := map[string]struct { // the Service holds 192.0.2.240 of p1 before the edit
		edit  edit
		want  string
		event string
	}{
		"other pool": {annotated(config.AnnotationAddressPool, "p2"), "198.51.100.0", "IPAllocated"}, // metallb#448
		"address":    {annotated(config.AnnotationLoadBalancerIPs, "192.0.2.243"), "192.0.2.243", "IPAllocated"},
		"its own":    {annotated(config.AnnotationLoadBalancerIPs, "192.0.2.240"), "192.0.2.240", ""},
		"contradiction": { // metallb#1916
			annotated(config.AnnotationLoadBalancerIPs, "192.0.2.241", config.AnnotationAddressPool, "p2"), "", "AllocationFailed",
		},
		"foreign address":  {annotated(config.AnnotationLoadBalancerIPs, "203.0.113.9"), "", "AllocationFailed"},
		"no such pool":     {annotated(config.AnnotationAddressPool, "nope"), "", "AllocationFailed"},
		"garbage":          {annotated(config.AnnotationLoadBalancerIPs, "garbage"), "192.0.2.240", "LoadBalancerFailed"},
		"trailing comma":   {annotated(config.AnnotationLoadBalancerIPs, "192.0.2.241,"), "192.0.2.240", "LoadBalancerFailed"},
		"blank is absent":  {annotated(config.AnnotationLoadBalancerIPs, " "), "192.0.2.240", ""},
		"spec":             {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.244" }, "192.0.2.244", "IPAllocated"},
		"a busy one":       {annotated(config.AnnotationLoadBalancerIPs, "192.0.2.247"), "", "shop/holder"},
		"legacy is spoken": {annotated(config.LegacyAddressPool, "p2"), "198.51.100.0", "deprecatedAnnotation"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pools...)
			w.serve(lb("s"))
			require.Equal(t, "192.0.2.240", w.ips("s"))
			w.serve(lb("holder", annotated(config.AnnotationLoadBalancerIPs, "192.0.2.247")))
			w.told()
			tt.edit(w.svcs["s"])
			writes := w.writes
			w.decide("s")
			assert.Equal(t, tt.want, w.ips("s"))
			assert.LessOrEqual(t, w.writes-writes, 1, "one write")
			told := strings.Join(w.told(), "\n")
			if tt.event == "" {
				assert.Empty(t, told)
			}
			assert.Contains(t, told, tt.event)
			w.restart()
			assert.Equal(t, tt.want, w.ips("s"), "a restart changes nothing")
		})
	}
}

func TestClusterIPs(t *testing.T) {
	ips := func(list ...string) edit {
		return func(s *corev1.Service) {
			s.Spec.ClusterIPs, s.Spec.ClusterIP = list, ""
			if len(list) > 0 {
				s.Spec.ClusterIP = list[0]
			}
		}
	}
	tests := map[string]struct {
		edit  edit
		want  string // of a Service that holds 192.0.2.1
		event string
	}{
		"None, holding": {ips("None"), "192.0.2.1", "noclusterIPsIPFamily"},
		"none yet":      {ips(), "", ""},
		"RequireDualStack with one": {
			dualStack(corev1.IPFamilyPolicyRequireDualStack, "10.96.0.9"), "", "not enough clusterips",
		},
		"two of one family": {ips("10.96.0.9", "10.96.0.10"), "192.0.2.1", "noclusterIPsIPFamily"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p", "192.0.2.0/30"))
			w.put(lb("s", held("p", "192.0.2.1"), tt.edit))
			w.restart()
			assert.Equal(t, tt.want, w.ips("s"))
			told := w.told()
			if tt.event == "" {
				assert.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			assert.Contains(t, told[0], tt.event)
		})
	}
}

func TestCreatedAgainIsNew(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/31"))
	w.serve(lb("s"))
	w.serve(lb("s", func(s *corev1.Service) {
		s.UID = "another"
		annotated(config.AnnotationLoadBalancerIPs, "192.0.2.1")(s)
	}))
	assert.Equal(t, "192.0.2.1", w.ips("s"))
	w.serve(lb("t"))
	assert.Equal(t, "192.0.2.0", w.ips("t"))
}

func TestDeletingKeepsButGetsNothingNew(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/31"))
	now := epoch(5)
	dying := func(s *corev1.Service) { s.DeletionTimestamp = &now }
	w.put(lb("holder", held("p", "192.0.2.1"), dying), lb("waiting", dying))
	w.restart()
	assert.Equal(t, "192.0.2.1", w.ips("holder"))
	assert.Empty(t, w.ips("waiting"))
	assert.Zero(t, w.writes)
}

func TestStaleStatusDoesNotMoveAnAddress(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/30"))
	w.serve(lb("first"))
	w.serve(lb("s"))
	require.Equal(t, "192.0.2.1", w.ips("s"))
	w.dec.forget("shop/first") // a lower address is free now
	w.put(lb("s"))             // the cache has not seen our write yet
	w.decide("s")
	assert.Equal(t, "192.0.2.1", w.ips("s"))
}

func TestPreferDualStackCompletion(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/30"))
	svc := lb("s", dualStack(corev1.IPFamilyPolicyPreferDualStack, "10.96.0.9", "fd00::9"))
	w.serve(svc)
	assert.Equal(t, "192.0.2.0", w.ips("s"))
	assert.Contains(t, strings.Join(w.told(), "\n"), "AdditionalAssignFailed")
	w.configure(pool("p", "192.0.2.0/30", "2001:db8::/126"))
	w.decide("s")
	assert.Equal(t, "192.0.2.0,2001:db8::", w.ips("s"))
}

func TestRejectedPoolKeepsItsHolders(t *testing.T) {
	bad := pool("p", "192.0.2.300/32")
	t.Run("edited into a bad one", func(t *testing.T) {
		w := newWorld(t, pool("p", "192.0.2.0/30"))
		w.serve(lb("s"))
		w.configure(bad)
		w.serve(lb("next"))
		assert.Equal(t, "192.0.2.0", w.ips("s"))
		assert.Equal(t, "192.0.2.1", w.ips("next"), "the last good version stays in force")
	})
	t.Run("bad since the start", func(t *testing.T) {
		w := newWorld(t, bad)
		w.put(lb("s", held("p", "192.0.2.0")), lb("next"))
		w.restart()
		assert.Equal(t, "192.0.2.0", w.ips("s"))
		assert.Empty(t, w.ips("next"), "nothing new from it")
		assert.Zero(t, w.writes)
	})
}

func TestAddressesThatStayFitTheirPool(t *testing.T) {
	w := newWorld(t, pool("p", "192.0.2.0/24"))
	for i := range 50 {
		w.serve(lb(fmt.Sprintf("s%02d", i), born(i)))
	}
	seen := map[string]bool{}
	for n := range w.svcs {
		a := netip.MustParseAddr(w.ips(n))
		assert.True(t, netip.MustParsePrefix("192.0.2.0/24").Contains(a))
		assert.False(t, seen[a.String()])
		seen[a.String()] = true
	}
}
