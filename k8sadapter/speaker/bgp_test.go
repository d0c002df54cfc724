package speaker

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

type bgpEdit = func(*v1beta1.BGPAdvertisementSpec)

func bgpAd(name string, edits ...bgpEdit) *v1beta1.BGPAdvertisement {
	a := &v1beta1.BGPAdvertisement{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "metallb-system"}}
	for _, e := range edits {
		e(&a.Spec)
	}
	return a
}

func ads(in ...*v1beta1.BGPAdvertisement) []*v1beta1.BGPAdvertisement { return in }

func prefer(p uint32) bgpEdit { return func(s *v1beta1.BGPAdvertisementSpec) { s.LocalPref = p } }

func tagged(c ...string) bgpEdit { return func(s *v1beta1.BGPAdvertisementSpec) { s.Communities = c } }

func toPeers(p ...string) bgpEdit { return func(s *v1beta1.BGPAdvertisementSpec) { s.Peers = p } }

func within(length int32) bgpEdit {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.AggregationLength = &length }
}

func fromNode(n string) bgpEdit {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.NodeSelectors = append(s.NodeSelectors, hostname(n)) }
}

func ofApps(apps ...string) bgpEdit {
	return func(s *v1beta1.BGPAdvertisementSpec) {
		for _, a := range apps {
			s.ServiceSelectors = append(s.ServiceSelectors, metav1.LabelSelector{MatchLabels: map[string]string{"app": a}})
		}
	}
}

// decideBGP are the BGP decisions of a node, with the advertisements.
func (s *scene) decideBGP(t *testing.T, self string, in []*v1beta1.BGPAdvertisement) []Decision {
	t.Helper()
	var store config.Store
	var nodes []*corev1.Node
	for _, n := range s.snap.Nodes {
		nodes = append(nodes, n)
	}
	s.snap.Config = store.Update(config.Objects{Pools: s.pools, L2Advertisements: s.ads, BGPAdvertisements: in, Nodes: nodes})
	s.snap.Self = self
	var out []Decision
	for _, d := range Decide(s.snap) {
		if d.Protocol == BGP {
			out = append(out, d)
			assert.Empty(t, d.Announcer)
			assert.Empty(t, d.Interfaces)
			assert.Equal(t, d.Reason == "", d.Announce)
			assert.Equal(t, d.Announce, len(d.Routes) > 0)
		}
	}
	return out
}

// shown are routes in short: prefix, preference, communities, peers.
func shown(d Decision) []string {
	out := []string{}
	for _, r := range print(d).Routes {
		text := r.Prefix
		if r.LocalPref != 0 {
			text += fmt.Sprint(" pref ", r.LocalPref)
		}
		if len(r.Communities) > 0 {
			text += " " + strings.Join(r.Communities, ",")
		}
		if len(r.Peers) > 0 {
			text += " to " + strings.Join(r.Peers, ",")
		}
		out = append(out, text)
	}
	return out
}

// TestBGP has the rows of MetalLB's own tests, as kw-01 decides.
func TestBGP(t *testing.T) {
	host := []string{dot7 + "/32"}
	tests := map[string]struct {
		ads     []*v1beta1.BGPAdvertisement
		eps     []endpoint
		service []func(*corev1.Service)
		scene   func(*scene)
		reason  election.Reason
		routes  []string
		out     map[string]election.Reason // of kw-02; nil: it announces, too
	}{
		"Cluster: pod elsewhere": {ads: ads(bgpAd("a")), eps: []endpoint{up("kw-02")}, routes: host},
		"Local: pod elsewhere": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-02")}, service: []func(*corev1.Service){local}, reason: election.NoLocalEndpoints,
		},
		"Local: pod here": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){local}, routes: host,
			out: map[string]election.Reason{"kw-02": election.NoLocalEndpoints},
		},
		"Local: a pod that terminates and serves": {
			ads: ads(bgpAd("a")), eps: []endpoint{unready(true)("kw-01"), up("kw-02")}, service: []func(*corev1.Service){local}, routes: host,
		},
		"Local: nobody serves": {
			ads: ads(bgpAd("a")), eps: []endpoint{unready(false)("kw-01")}, service: []func(*corev1.Service){local}, reason: election.NoLocalEndpoints,
			out: map[string]election.Reason{"kw-02": election.NoLocalEndpoints},
		},
		"Local: an endpoint without a node": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("")}, service: []func(*corev1.Service){local}, reason: election.NoLocalEndpoints,
			out: map[string]election.Reason{"kw-02": election.NoLocalEndpoints},
		},
		"nobody serves": {
			ads: ads(bgpAd("a")), eps: []endpoint{unready(false)("kw-01")}, reason: election.NoEndpoints,
			out: map[string]election.Reason{"kw-02": election.NoEndpoints},
		},
		"no advertisement": {eps: []endpoint{up("kw-01")}, reason: election.NotOwner, out: map[string]election.Reason{"kw-02": election.NotOwner}},
		"of another pool": {
			ads: ads(bgpAd("a", func(s *v1beta1.BGPAdvertisementSpec) { s.IPAddressPools = []string{"Q"} })), eps: []endpoint{up("kw-01")},
			reason: election.NotOwner, out: map[string]election.Reason{"kw-02": election.NotOwner},
		},
		"of another node": {ads: ads(bgpAd("a", fromNode("kw-02"))), eps: []endpoint{up("kw-01")}, reason: election.NotOwner},
		"of another Service": {
			ads: ads(bgpAd("a", ofApps("other"))), eps: []endpoint{up("kw-01")}, reason: election.NoMatchingAdvertisement,
			out: map[string]election.Reason{"kw-02": election.NoMatchingAdvertisement},
		},
		"one of two Services": {ads: ads(bgpAd("a", ofApps("other", "web"))), eps: []endpoint{up("kw-01")}, routes: host},
		"of the Service here, of all there": {
			ads: ads(bgpAd("a", ofApps("web"), fromNode("kw-01"), tagged("65010:1")), bgpAd("b", tagged("65010:2"))), eps: []endpoint{up("kw-01")},
			routes: []string{dot7 + "/32 65010:1,65010:2"},
		},
		"two lengths": {
			ads: ads(bgpAd("a", prefer(150), tagged("65010:7")), bgpAd("b", within(26))), eps: []endpoint{up("kw-01")},
			scene:  func(s *scene) { s.pools[0].Spec.Addresses = []string{"198.51.100.0/24"} },
			routes: []string{"198.51.100.0/26", dot7 + "/32 pref 150 65010:7"},
		},
		"two lengths, one on another node": {
			ads: ads(bgpAd("a", prefer(150), tagged("65010:7")), bgpAd("b", within(26), fromNode("kw-02"))), eps: []endpoint{up("kw-01")},
			routes: []string{dot7 + "/32 pref 150 65010:7"},
		},
		"communities of two, sorted": {
			ads: ads(bgpAd("a", tagged("65010:2", "large:1:2:3", "1:1")), bgpAd("b", tagged("65010:1", "1:1"))), eps: []endpoint{up("kw-01")},
			routes: []string{dot7 + "/32 large:1:2:3,1:1,65010:1,65010:2"},
		},
		"to other peers": {
			ads: ads(bgpAd("a", toPeers("tor-b", "tor-a")), bgpAd("b", toPeers("tor-c"), prefer(7))), eps: []endpoint{up("kw-01")},
			routes: []string{dot7 + "/32 to tor-a,tor-b", dot7 + "/32 pref 7 to tor-c"},
		},
		"contradicting preferences": {
			ads: ads(bgpAd("a", prefer(120), ofApps("web")), bgpAd("b", prefer(220), ofApps("web"))), eps: []endpoint{up("kw-01")},
			reason: ConflictingAdvertisements, out: map[string]election.Reason{"kw-02": ConflictingAdvertisements},
		},
		"contradicting on another node": {
			ads: ads(bgpAd("a", prefer(120), ofApps("web")), bgpAd("b", prefer(220), ofApps("web"), fromNode("kw-02"))), eps: []endpoint{up("kw-01")},
			routes: []string{dot7 + "/32 pref 120"}, out: map[string]election.Reason{"kw-02": ConflictingAdvertisements},
		},
		"contradicting to other peers": {
			ads: ads(bgpAd("a", prefer(120), ofApps("web"), toPeers("x")), bgpAd("b", prefer(220), ofApps("web"), toPeers("y"))), eps: []endpoint{up("kw-01")},
			routes: []string{dot7 + "/32 pref 120 to x", dot7 + "/32 pref 220 to y"},
		},
		"this node excluded": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.node("kw-01", exclude) }, reason: election.NodeLabeledExcludeBalancers,
		},
		"exclusion ignored": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")},
			scene: func(s *scene) { s.node("kw-01", exclude); s.snap.IgnoreExclude = true }, routes: host,
		},
		"no network here": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.node("kw-01", noNetwork) }, reason: election.NodeNetworkUnavailable,
		},
		"an advertisement counts before the network": {
			ads: ads(bgpAd("a", fromNode("kw-02"))), eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.node("kw-01", noNetwork) }, reason: election.NotOwner,
		},
		"shared with Service selectors on the LAN": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){shared},
			scene: func(s *scene) { s.ads = []*v1beta1.L2Advertisement{ad("all", forApps("web"))} }, routes: host,
		},
		"nobody is a member": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.snap.Members = nil }, routes: host,
			out: map[string]election.Reason{"kw-02": election.NotMember},
		},
		"of another class": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, service: []func(*corev1.Service){func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("x") }},
			reason: NotLoadBalancer, out: map[string]election.Reason{"kw-02": NotLoadBalancer},
		},
		"without a pool": {
			ads: ads(bgpAd("a")), eps: []endpoint{up("kw-01")}, scene: func(s *scene) { s.pools = nil },
			reason: IPNotAllowed, out: map[string]election.Reason{"kw-02": IPNotAllowed},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			if tt.scene != nil {
				tt.scene(s)
			}
			s.service("web", []string{dot7}, tt.eps, tt.service...)
			got := s.decideBGP(t, "kw-01", tt.ads)
			require.Len(t, got, 1)
			d := got[0]
			assert.Equal(t, tt.reason, d.Reason)
			if tt.routes == nil {
				tt.routes = []string{}
			}
			assert.Equal(t, tt.routes, shown(d))
			excluded, candidates := maps.Clone(tt.out), []string(nil)
			if excluded == nil {
				excluded = map[string]election.Reason{}
			}
			if tt.reason == "" {
				candidates = append(candidates, "kw-01")
			} else {
				excluded["kw-01"] = tt.reason
			}
			if _, out := excluded["kw-02"]; !out {
				candidates = append(candidates, "kw-02")
			}
			assert.Equal(t, candidates, d.Candidates)
			assert.Equal(t, excluded, d.Excluded)
		})
	}
}

func TestBGPOfANodeThatTheAPIDoesNotKnow(t *testing.T) {
	s := newScene()
	s.service("web", []string{dot7}, []endpoint{up("kw-01")})
	got := s.decideBGP(t, "nobody", ads(bgpAd("a")))
	require.Len(t, got, 1)
	assert.Equal(t, election.NotOwner, got[0].Reason)
	assert.Equal(t, []string{"kw-01", "kw-02"}, got[0].Candidates)
}

func TestBGPOfBothFamilies(t *testing.T) {
	s := newScene()
	s.service("web", []string{dot7, "2001:db8::7"}, []endpoint{up("kw-01")})
	length := int32(120)
	got := s.decideBGP(t, "kw-01", ads(bgpAd("a", within(24), func(s *v1beta1.BGPAdvertisementSpec) { s.AggregationLengthV6 = &length })))
	require.Len(t, got, 2)
	assert.Equal(t, []string{"198.51.100.0/24"}, shown(got[0]))
	assert.Equal(t, []string{"2001:db8::/120"}, shown(got[1]))
}
