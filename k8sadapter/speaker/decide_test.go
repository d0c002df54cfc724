package speaker

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/membership"
)

// The natural winner among kw-01 and kw-02 is kw-02 for .7 and kw-01 for .9.
const (
	dot7 = "198.51.100.7"
	dot9 = "198.51.100.9"
)

type scene struct {
	pools []*v1beta1.IPAddressPool
	ads   []*v1beta1.L2Advertisement
	snap  Snapshot
}

// newScene has pool P = 198.51.100.0/24, nodes kw-01 and kw-02 with live speakers, and one unrestricted advertisement.
func newScene() *scene {
	s := &scene{
		pools: []*v1beta1.IPAddressPool{{
			ObjectMeta: metav1.ObjectMeta{Name: "P", Namespace: "metallb-system"},
			Spec:       v1beta1.IPAddressPoolSpec{Addresses: []string{"198.51.100.0/24", "2001:db8::/64"}},
		}},
		ads:  []*v1beta1.L2Advertisement{ad("all")},
		snap: Snapshot{Nodes: map[string]*corev1.Node{}, Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{}},
	}
	s.node("kw-01")
	s.node("kw-02")
	return s
}

func (s *scene) node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	for _, e := range edits {
		e(n)
	}
	if s.snap.Nodes[name] == nil {
		s.snap.Members = append(s.snap.Members, membership.Member{Name: name, Eligible: true})
	}
	s.snap.Nodes[name] = n
	return n
}

func ad(name string, edits ...func(*v1beta1.L2AdvertisementSpec)) *v1beta1.L2Advertisement {
	a := &v1beta1.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metallb-system"}}
	for _, e := range edits {
		e(&a.Spec)
	}
	return a
}

func onNodes(names ...string) func(*v1beta1.L2AdvertisementSpec) {
	return func(s *v1beta1.L2AdvertisementSpec) {
		for _, n := range names {
			s.NodeSelectors = append(s.NodeSelectors, hostname(n))
		}
	}
}

func hostname(n string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": n}}
}

func forApps(apps ...string) func(*v1beta1.L2AdvertisementSpec) {
	return func(s *v1beta1.L2AdvertisementSpec) {
		for _, a := range apps {
			s.ServiceSelectors = append(s.ServiceSelectors, metav1.LabelSelector{MatchLabels: map[string]string{"app": a}})
		}
	}
}

func links(names ...string) func(*v1beta1.L2AdvertisementSpec) {
	return func(s *v1beta1.L2AdvertisementSpec) { s.Interfaces = names }
}

func prefers(weight int32, sel metav1.LabelSelector) func(*v1beta1.L2AdvertisementSpec) {
	return func(s *v1beta1.L2AdvertisementSpec) {
		s.PreferredNodeSelectors = append(s.PreferredNodeSelectors, v1beta1.PreferredNodeSelector{Weight: weight, Preference: sel})
	}
}

// endpoint is one on a node; its conditions are ready, serving.
type endpoint struct {
	node           string
	ready, serving *bool
}

func up(node string) endpoint { return endpoint{node: node, ready: new(true)} }

func (s *scene) service(name string, ip []string, eps []endpoint, edits ...func(*corev1.Service)) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{"app": name}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, i := range ip {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: i})
	}
	for _, e := range edits {
		e(svc)
	}
	s.snap.Services = append(s.snap.Services, svc)
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	for _, e := range eps {
		ep := discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: e.ready, Serving: e.serving}}
		if e.node != "" {
			ep.NodeName = &e.node
		}
		slice.Endpoints = append(slice.Endpoints, ep)
	}
	key := types.NamespacedName{Namespace: "shop", Name: name}
	s.snap.Slices[key] = append(s.snap.Slices[key], slice)
}

func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func shared(s *corev1.Service) {
	s.Annotations = map[string]string{config.AnnotationAllowSharedIP: "k"}
}

func (s *scene) decide(self string) []Decision {
	var store config.Store
	s.snap.Config = store.Update(config.Objects{Pools: s.pools, L2Advertisements: s.ads})
	s.snap.Self = self
	return Decide(s.snap)
}

// layer2 is the only layer-2 decision of a scene with one address.
func (s *scene) layer2(t *testing.T, self string) Decision {
	t.Helper()
	var out []Decision
	for _, d := range s.decide(self) {
		if d.Protocol == Layer2 {
			out = append(out, d)
		}
	}
	require.Len(t, out, 1)
	return out[0]
}

func unready(serving bool) func(string) endpoint {
	return func(n string) endpoint { return endpoint{node: n, ready: new(false), serving: new(serving)} }
}

func exclude(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "false" }

func noNetwork(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
}

func labelled(k, v string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[k] = v }
}

// TestLayer2 has the rows of MetalLB's own tests, with the reasons that each of the two nodes gives.
func TestLayer2(t *testing.T) {
	tests := map[string]struct {
		ip      string
		eps     []endpoint
		service []func(*corev1.Service)
		scene   func(*scene)
		want    string                     // the announcer
		reason  map[string]string          // of nodes that do not announce; default notOwner
		out     map[string]election.Reason // excluded; nil is not compared
	}{
		"Cluster: placement ignores pods": {ip: dot7, eps: []endpoint{up("kw-01")}, want: "kw-02"},
		"Local: pod on kw-01": {
			ip: dot7, eps: []endpoint{up("kw-01"), up("kw-01")}, service: []func(*corev1.Service){local}, want: "kw-01",
			out: map[string]election.Reason{"kw-02": election.NoLocalEndpoints},
		},
		"Local: both": {ip: dot9, eps: []endpoint{up("kw-01"), up("kw-02")}, service: []func(*corev1.Service){local}, want: "kw-01"},
		"Local: pod count has no weight": {
			ip: dot7, eps: []endpoint{up("kw-01"), up("kw-01"), up("kw-01"), up("kw-02")}, service: []func(*corev1.Service){local}, want: "kw-02",
		},
		"Local: terminating but serving counts": {
			ip: dot7, eps: []endpoint{up("kw-01"), unready(true)("kw-02")}, service: []func(*corev1.Service){local}, want: "kw-02",
		},
		"Local: unready does not count": {
			ip: dot7, eps: []endpoint{up("kw-01"), unready(false)("kw-02")}, service: []func(*corev1.Service){local}, want: "kw-01",
		},
		"Local: endpoint without node name": {
			ip: dot7, eps: []endpoint{up("")}, service: []func(*corev1.Service){local},
			out: map[string]election.Reason{"kw-01": election.NoLocalEndpoints, "kw-02": election.NoLocalEndpoints},
		},
		"Cluster: endpoint without node name": {ip: dot7, eps: []endpoint{up("")}, want: "kw-02"},
		"no usable endpoint": {
			ip: dot7, eps: []endpoint{unready(false)("kw-01")},
			out: map[string]election.Reason{"kw-01": election.NoEndpoints, "kw-02": election.NoEndpoints},
		},
		"advertisement for kw-01 only": {
			ip: dot7, eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", onNodes("kw-01"))} },
			want: "kw-01", reason: map[string]string{"kw-02": "noMatchingAdvertisement"},
			out: map[string]election.Reason{"kw-02": election.NoMatchingAdvertisement},
		},
		"advertisement for the node without the pod": {
			ip: dot7, eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){local},
			scene:  func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", onNodes("kw-02"))} },
			reason: map[string]string{"kw-01": "noMatchingAdvertisement", "kw-02": "notOwner"},
		},
		"one advertisement per node": {
			ip: dot7, eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){local},
			scene: func(s *scene) {
				s.ads = []*v1beta1.L2Advertisement{ad("a", onNodes("kw-01")), ad("b", onNodes("kw-02"))}
			},
			want: "kw-01",
		},
		"excluded by label": {
			ip: dot7, eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.node("kw-02", exclude) }, want: "kw-01",
			out: map[string]election.Reason{"kw-02": election.NodeLabeledExcludeBalancers},
		},
		"both excluded": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) { s.node("kw-01", exclude); s.node("kw-02", exclude) },
		},
		"both excluded, label ignored": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) { s.node("kw-01", exclude); s.node("kw-02", exclude); s.snap.IgnoreExclude = true },
			want:  "kw-02",
		},
		"network unavailable": {
			ip: dot7, eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.node("kw-02", noNetwork) }, want: "kw-01",
			out: map[string]election.Reason{"kw-02": election.NodeNetworkUnavailable},
		},
		"service selector matches": {
			ip: dot7, eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", forApps("cart", "shop"))} },
			want: "kw-02",
		},
		"service selector does not match": {
			ip: dot7, eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", forApps("cart"))} },
			reason: map[string]string{"kw-01": "noMatchingAdvertisement", "kw-02": "noMatchingAdvertisement"},
		},
		"sharing and service selector": {
			ip: dot7, eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){shared},
			scene:  func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a"), ad("b", forApps("shop"))} },
			reason: map[string]string{"kw-01": "sharedIPWithServiceSelector", "kw-02": "sharedIPWithServiceSelector"},
		},
		"sharing without service selector": {ip: dot7, eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){shared}, want: "kw-02"},
		"preferred": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", prefers(80, hostname("kw-01")))} }, want: "kw-01",
		},
		"preferred but no local pod": {
			ip: dot7, eps: []endpoint{up("kw-02")}, service: []func(*corev1.Service){local},
			scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", prefers(80, hostname("kw-01")))} }, want: "kw-02",
		},
		"preferred by an advertisement that does not match": {
			ip: dot7, eps: []endpoint{up("kw-02")},
			scene: func(s *scene) {
				s.ads = []*v1beta1.L2Advertisement{ad("a"), ad("b", forApps("cart"), prefers(90, hostname("kw-01")))}
			}, want: "kw-02",
		},
		"preferred outside the node selectors": {
			ip: dot7, eps: []endpoint{up("kw-02")},
			scene: func(s *scene) {
				s.ads = []*v1beta1.L2Advertisement{ad("a", onNodes("kw-01"), prefers(50, hostname("kw-02")))}
			}, want: "kw-01", reason: map[string]string{"kw-02": "noMatchingAdvertisement"},
		},
		"weights add up": {
			ip: dot7, eps: []endpoint{up("kw-02")},
			scene: func(s *scene) {
				s.node("kw-01", labelled("zone", "a"), labelled("role", "edge"))
				s.node("kw-02", labelled("zone", "a"))
				s.ads = []*v1beta1.L2Advertisement{
					ad("a", prefers(45, metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}})),
					ad("b", prefers(30, metav1.LabelSelector{MatchLabels: map[string]string{"role": "edge"}})),
				}
			}, want: "kw-01",
		},
		"everyone preferred": {
			ip: dot7, eps: []endpoint{up("kw-02")},
			scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("a", prefers(25, metav1.LabelSelector{}))} }, want: "kw-02",
		},
		"dead member": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) {
				s.snap.Members = slices.DeleteFunc(s.snap.Members, func(m membership.Member) bool { return m.Name == "kw-02" })
			},
			want: "kw-01", out: map[string]election.Reason{"kw-02": election.NotMember},
		},
		"member that says it is not eligible": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) { s.snap.Members[1].Eligible = false },
			want:  "kw-01", out: map[string]election.Reason{"kw-02": election.NotEligible},
		},
		"member without the link": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) {
				s.ads = []*v1beta1.L2Advertisement{ad("a", links("ens9"))}
				s.snap.Members[0] = s.snap.Members[0].WithLinks([]string{"ens9", "eth0"})
				s.snap.Members[1] = s.snap.Members[1].WithLinks([]string{"eth0"})
			},
			want: "kw-01", out: map[string]election.Reason{"kw-02": election.LinkDown},
		},
		"member that the API does not know": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			scene: func(s *scene) {
				delete(s.snap.Nodes, "kw-02")
			},
			want: "kw-01", reason: map[string]string{"kw-02": "noMatchingAdvertisement"},
			out: map[string]election.Reason{"kw-02": election.NoMatchingAdvertisement},
		},
		"address of no pool": {
			ip: "203.0.113.1", eps: []endpoint{up("kw-01")},
			reason: map[string]string{"kw-01": "ipNotAllowed", "kw-02": "ipNotAllowed"},
		},
		"host name in the status": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			service: []func(*corev1.Service){func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: "x.example"})
			}},
			reason: map[string]string{"kw-01": "invalidIP", "kw-02": "invalidIP"},
		},
		"another class": {
			ip: dot7, eps: []endpoint{up("kw-01")},
			service: []func(*corev1.Service){func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("other.example/lb") }},
			reason:  map[string]string{"kw-01": "notLoadBalancer", "kw-02": "notLoadBalancer"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			if tt.scene != nil {
				tt.scene(s)
			}
			s.service("shop", []string{tt.ip}, tt.eps, tt.service...)
			for _, self := range []string{"kw-01", "kw-02"} {
				d := s.layer2(t, self)
				assert.Equal(t, tt.want, d.Announcer, "as %s sees it", self)
				assert.Equal(t, tt.want == self, d.Announce)
				want := election.NotOwner
				if r, ok := tt.reason[self]; ok {
					want = election.Reason(r)
				}
				if d.Announce {
					want = ""
				}
				assert.Equal(t, want, d.Reason, "what %s says", self)
				if tt.out != nil {
					assert.Equal(t, tt.out, d.Excluded)
				}
			}
		})
	}
}

func TestInterfacesAreTheUnionOfOwnAdvertisements(t *testing.T) {
	tests := map[string]struct {
		ads  []*v1beta1.L2Advertisement
		want []string
	}{
		"union":         {[]*v1beta1.L2Advertisement{ad("a", links("e1", "e2")), ad("b", links("e2", "e3"))}, []string{"e1", "e2", "e3"}},
		"one for all":   {[]*v1beta1.L2Advertisement{ad("a", links("e1")), ad("b")}, nil},
		"of other node": {[]*v1beta1.L2Advertisement{ad("a", links("e7"), onNodes("kw-01")), ad("b", links("e8"), onNodes("kw-02"))}, []string{"e8"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.ads = tt.ads
			s.service("shop", []string{dot7}, []endpoint{up("kw-01")})
			assert.Equal(t, tt.want, s.layer2(t, "kw-02").Interfaces)
		})
	}
}

func TestSharersElectOneNode(t *testing.T) { // metallb#558, #740
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		for i := 3; i <= 5; i++ {
			s.node(fmt.Sprintf("kw-0%d", i))
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		addrs := []string{dot7, dot9, "198.51.100.20", "2001:db8::1"}
		for i := range rapid.IntRange(1, 6).Draw(t, "services") {
			var eps []endpoint
			for n := range 5 {
				if rng.IntN(2) == 0 {
					eps = append(eps, up(fmt.Sprintf("kw-0%d", n+1)))
				}
			}
			var edits []func(*corev1.Service)
			if rng.IntN(2) == 0 {
				edits = append(edits, local)
			}
			edits = append(edits, shared)
			ips := []string{addrs[rng.IntN(3)]}
			if rng.IntN(3) == 0 {
				ips = append(ips, addrs[3])
			}
			s.service(fmt.Sprintf("s%d", i), ips, eps, edits...)
		}
		owner := map[netip.Addr]string{}
		announced := map[netip.Addr][]string{}
		for node := range s.snap.Nodes {
			for _, d := range s.decide(node) {
				if d.Protocol != Layer2 {
					continue
				}
				if was, ok := owner[d.Address]; ok && was != d.Announcer {
					t.Fatalf("%s: %q for one Service, %q for another", d.Address, was, d.Announcer)
				}
				owner[d.Address] = d.Announcer
				if d.Announce && !slices.Contains(announced[d.Address], node) {
					announced[d.Address] = append(announced[d.Address], node)
				}
				if len(d.Candidates) > 0 && d.Announcer == "" {
					t.Fatalf("%s: candidates and nobody elected", d.Address)
				}
			}
		}
		for a, nodes := range announced {
			if len(nodes) > 1 {
				t.Fatalf("%s is announced by %v", a, nodes)
			}
		}
	})
}

func TestDualStackIsPlacedByItsFirstAddress(t *testing.T) {
	for _, order := range [][]string{{dot7, "2001:db8:0:0::1"}, {"2001:db8::1", dot7}} {
		s := newScene()
		s.service("shop", order, []endpoint{up("kw-01")})
		first, _ := election.Winner(netip.MustParseAddr(order[0]), []string{"kw-01", "kw-02"})
		for _, d := range s.decide("kw-01") {
			if d.Protocol == Layer2 {
				assert.Equal(t, first, d.Announcer)
			}
		}
	}
}

func TestAddressesInTwoPoolsAreNotAllowed(t *testing.T) {
	s := newScene()
	s.pools[0].Spec.Addresses = []string{"198.51.100.0/24"}
	s.pools = append(s.pools, &v1beta1.IPAddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "Q", Namespace: "metallb-system"},
		Spec:       v1beta1.IPAddressPoolSpec{Addresses: []string{"2001:db8::/64"}},
	})
	s.service("shop", []string{dot7, "2001:db8::1"}, []endpoint{up("kw-01")})
	for _, d := range s.decide("kw-01") {
		assert.Equal(t, IPNotAllowed, d.Reason)
		assert.False(t, d.Announce)
	}
}

func TestEveryAddressHasBothDocumentsInOrder(t *testing.T) {
	s := newScene()
	s.service("b", []string{dot9}, nil)
	s.service("a", []string{"203.0.113.9", dot7}, nil)
	var got []string
	for _, d := range s.decide("kw-01") {
		got = append(got, fmt.Sprint(d.Service, " ", d.Protocol, " ", d.Address))
		assert.NotNil(t, d.Excluded)
	}
	assert.Equal(t, []string{
		"shop/a bgp 198.51.100.7", "shop/a bgp 203.0.113.9", "shop/a layer2 198.51.100.7", "shop/a layer2 203.0.113.9",
		"shop/b bgp 198.51.100.9", "shop/b layer2 198.51.100.9",
	}, got)
}
