package config_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
	"github.com/heraldlb/herald/k8sadapter/config"
)

func router(name string, edits ...func(*v1beta2.BGPPeerSpec)) *v1beta2.BGPPeer {
	p := &v1beta2.BGPPeer{ObjectMeta: born(name, 0), Spec: v1beta2.BGPPeerSpec{MyASN: 64512, ASN: 64513, Address: "192.0.2.1", Port: 179}}
	for _, e := range edits {
		e(&p.Spec)
	}
	return p
}

func bgpAd(name string, minute int, edits ...func(*v1beta1.BGPAdvertisementSpec)) *v1beta1.BGPAdvertisement {
	a := &v1beta1.BGPAdvertisement{ObjectMeta: born(name, minute)}
	for _, e := range edits {
		e(&a.Spec)
	}
	return a
}

func pref(p uint32) func(*v1beta1.BGPAdvertisementSpec) {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.LocalPref = p }
}

func length(v4 int32) func(*v1beta1.BGPAdvertisementSpec) {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.AggregationLength = &v4 }
}

func length6(v6 int32) func(*v1beta1.BGPAdvertisementSpec) {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.AggregationLengthV6 = &v6 }
}

func to(peers ...string) func(*v1beta1.BGPAdvertisementSpec) {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.Peers = peers }
}

func communities(c ...string) func(*v1beta1.BGPAdvertisementSpec) {
	return func(s *v1beta1.BGPAdvertisementSpec) { s.Communities = c }
}

func secret(name, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metallbSystem}, Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{"password": []byte(password)},
	}
}

func node(name string, labels map[string]string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

// rejectedOnly returns the first fault of the only rejection.
func rejectedOnly(t *testing.T, cfg config.Config) (config.Rejection, *config.FieldError) {
	t.Helper()
	require.Len(t, cfg.Rejected, 1, "%v", config.Texts(cfg.Rejected))
	var fe *config.FieldError
	require.ErrorAs(t, cfg.Rejected[0].Err, &fe)
	return cfg.Rejected[0], fe
}

func TestPeersRejected(t *testing.T) {
	seconds := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	tests := map[string]struct {
		field string
		edit  func(*v1beta2.BGPPeerSpec)
	}{
		"no ASN":                 {"spec.myASN", func(s *v1beta2.BGPPeerSpec) { s.MyASN = 0 }},
		"no peer ASN":            {"spec.peerASN", func(s *v1beta2.BGPPeerSpec) { s.ASN = 0 }},
		"two peer ASNs":          {"spec.peerASN", func(s *v1beta2.BGPPeerSpec) { s.DynamicASN = "external" }},
		"dynamic ASN":            {"spec.dynamicASN", func(s *v1beta2.BGPPeerSpec) { s.ASN, s.DynamicASN = 0, "both" }},
		"multihop inside the AS": {"spec.ebgpMultiHop", func(s *v1beta2.BGPPeerSpec) { s.ASN, s.EBGPMultiHop = 64512, true }},
		"no address":             {"spec.peerAddress", func(s *v1beta2.BGPPeerSpec) { s.Address = "" }},
		"address and interface":  {"spec.interface", func(s *v1beta2.BGPPeerSpec) { s.Interface = "eth1" }},
		"no IP address":          {"spec.peerAddress", func(s *v1beta2.BGPPeerSpec) { s.Address = "1.1.1" }},
		"no source address":      {"spec.sourceAddress", func(s *v1beta2.BGPPeerSpec) { s.SrcAddress = "abc" }},
		"no router ID":           {"spec.routerID", func(s *v1beta2.BGPPeerSpec) { s.RouterID = "abc" }},
		"IPv6 router ID":         {"spec.routerID", func(s *v1beta2.BGPPeerSpec) { s.RouterID = "2001:db8::1" }},
		"port":                   {"spec.peerPort", func(s *v1beta2.BGPPeerSpec) { s.Port = 16385 }},
		"hold time of 2 s":       {"spec.holdTime", func(s *v1beta2.BGPPeerSpec) { s.HoldTime = seconds(2 * time.Second) }},
		"negative hold time":     {"spec.holdTime", func(s *v1beta2.BGPPeerSpec) { s.HoldTime = seconds(-9 * time.Second) }},
		"fraction of a hold":     {"spec.holdTime", func(s *v1beta2.BGPPeerSpec) { s.HoldTime = seconds(900 * time.Millisecond) }},
		"hold time of 70000 s":   {"spec.holdTime", func(s *v1beta2.BGPPeerSpec) { s.HoldTime = seconds(70000 * time.Second) }},
		"keepalive over hold": {"spec.keepaliveTime", func(s *v1beta2.BGPPeerSpec) {
			s.HoldTime, s.KeepaliveTime = seconds(30*time.Second), seconds(90*time.Second)
		}},
		"connect time":           {"spec.connectTime", func(s *v1beta2.BGPPeerSpec) { s.ConnectTime = seconds(100 * time.Millisecond) }},
		"node selector twice":    {"spec.nodeSelectors[1]", func(s *v1beta2.BGPPeerSpec) { s.NodeSelectors = labelled("a", "b", "a", "b") }},
		"password and secret":    {"spec.passwordSecret", func(s *v1beta2.BGPPeerSpec) { s.Password, s.PasswordSecret.Name = "sesame", "key" }},
		"password of 81 bytes":   {"spec.password", func(s *v1beta2.BGPPeerSpec) { s.Password = string(make([]byte, 81)) }},
		"VRF that is no link":    {"spec.vrf", func(s *v1beta2.BGPPeerSpec) { s.VRFName = "a/b" }},
		"missing secret":         {"spec.passwordSecret.name", func(s *v1beta2.BGPPeerSpec) { s.PasswordSecret.Name = "nowhere" }},
		"secret without key":     {"spec.passwordSecret.name", func(s *v1beta2.BGPPeerSpec) { s.PasswordSecret.Name = "empty" }},
		"secret of another type": {"spec.passwordSecret.name", func(s *v1beta2.BGPPeerSpec) { s.PasswordSecret.Name = "opaque" }},
		"missing BFD profile":    {"spec.bfdProfile", func(s *v1beta2.BGPPeerSpec) { s.BFDProfile = "nowhere" }},
	}
	opaque, empty := secret("opaque", "sesame"), secret("empty", "")
	opaque.Type = corev1.SecretTypeOpaque
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var store config.Store
			good := router("good", func(s *v1beta2.BGPPeerSpec) { s.Address = "192.0.2.2" })
			cfg := store.Update(config.Objects{BGPPeers: []*v1beta2.BGPPeer{router("bad", tt.edit), good}, Secrets: []*corev1.Secret{opaque, empty}})
			r, fe := rejectedOnly(t, cfg)
			assert.Equal(t, tt.field, fe.Field, "%v", r.Err)
			assert.Contains(t, r.Error(), "BGPPeer metallb-system/bad")
			assert.NotContains(t, r.Error(), "sesame")
			require.Len(t, cfg.Peers, 1, "the other goes on")
			assert.Equal(t, "good", cfg.Peers[0].Name)
		})
	}
}

func TestPeerOfEveryField(t *testing.T) {
	var store config.Store
	hold, keepalive, connect := 30*time.Second, 10*time.Second, 7*time.Second
	full := router("tor", func(s *v1beta2.BGPPeerSpec) {
		*s = v1beta2.BGPPeerSpec{
			MyASN: 64512, DynamicASN: "external", LocalASN: 64599, Address: "192.0.2.1", SrcAddress: "192.0.2.9", Port: 1179,
			HoldTime: &metav1.Duration{Duration: hold}, KeepaliveTime: &metav1.Duration{Duration: keepalive}, ConnectTime: &metav1.Duration{Duration: connect},
			RouterID: "10.9.9.9", PasswordSecret: corev1.SecretReference{Name: "key", Namespace: "elsewhere"}, BFDProfile: "quick",
			EnableGracefulRestart: true, EBGPMultiHop: true, VRFName: "red", DisableMP: true, DualStackAddressFamily: true,
		}
	})
	receive := uint32(50)
	cfg := store.Update(config.Objects{
		BGPPeers: []*v1beta2.BGPPeer{full}, Secrets: []*corev1.Secret{secret("key", "sesame")},
		BFDProfiles: []*v1beta1.BFDProfile{{ObjectMeta: born("quick", 0), Spec: v1beta1.BFDProfileSpec{ReceiveInterval: &receive}}},
	})
	require.Empty(t, cfg.Rejected, "%v", config.Texts(cfg.Rejected))
	peers, rejected := cfg.PeersFor(node("kw-01", nil, "192.0.2.10"))
	assert.Empty(t, rejected)
	assert.Equal(t, []bgp.Peer{{
		Name: "tor", LocalASN: 64512, LocalASNOverride: 64599, Dynamic: bgp.External, Addr: netip.MustParseAddr("192.0.2.1"),
		Source: netip.MustParseAddr("192.0.2.9"), Port: 1179, HoldTime: &hold, KeepaliveTime: &keepalive, ConnectRetry: &connect,
		RouterID: netip.MustParseAddr("10.9.9.9"), Password: "sesame", BFDProfile: "quick", GracefulRestart: true,
		EBGPMultihop: true, VRF: "red", Families: bgp.IPv4 | bgp.IPv6,
	}}, peers)
	require.Len(t, cfg.BFDProfiles, 1)
	assert.Equal(t, 50*time.Millisecond, cfg.BFDProfiles[0].Receive)
	var fields []string
	for _, w := range cfg.Warnings {
		fields = append(fields, w.Field)
	}
	assert.Equal(t, []string{"spec.disableMP", "spec.passwordSecret.namespace"}, fields)
}

func TestPeersOfANode(t *testing.T) {
	var store config.Store
	r1 := func(s *v1beta2.BGPPeerSpec) { s.NodeSelectors = labelled("rack", "r1", "rack", "r3") }
	cfg := store.Update(config.Objects{BGPPeers: []*v1beta2.BGPPeer{router("a", r1), router("b")}})
	require.Empty(t, cfg.Rejected, "one address may be the peer of different nodes")

	peers, rejected := cfg.PeersFor(node("kw-02", map[string]string{"rack": "r2"}, "192.0.2.10"))
	require.Len(t, peers, 1)
	assert.Empty(t, rejected)
	assert.Equal(t, "b", peers[0].Name)
	assert.Equal(t, netip.MustParseAddr("192.0.2.10"), peers[0].RouterID, "that of the node")

	peers, rejected = cfg.PeersFor(node("kw-03", map[string]string{"rack": "r3"}, "2001:db8::1"))
	require.Len(t, peers, 1, "one session with one address")
	assert.Equal(t, "a", peers[0].Name)
	assert.Equal(t, bgp.RouterID("kw-03", netip.Addr{}), peers[0].RouterID, "a hash of the name")
	require.Len(t, rejected, 1)
	assert.Contains(t, rejected[0].Error(), `BGPPeer metallb-system/b is rejected`)
	assert.Contains(t, rejected[0].Error(), `peer "a"`)
	assert.Contains(t, rejected[0].Error(), `node "kw-03"`)

	peers, rejected = cfg.PeersFor(nil)
	assert.Empty(t, peers)
	assert.Empty(t, rejected)
}

// A bad edit keeps the last good version; a Secret that goes away does not: a session without its password must not be.
func TestPeerKeptAndHeldBack(t *testing.T) {
	var store config.Store
	good := router("tor", func(s *v1beta2.BGPPeerSpec) { s.PasswordSecret.Name = "key" })
	bad := router("tor", func(s *v1beta2.BGPPeerSpec) { s.MyASN = 0 })
	with := func(p *v1beta2.BGPPeer, secrets ...*corev1.Secret) config.Config {
		return store.Update(config.Objects{BGPPeers: []*v1beta2.BGPPeer{p}, Secrets: secrets})
	}
	password := func(cfg config.Config) bgp.Secret {
		peers, _ := cfg.PeersFor(node("kw-01", nil))
		require.Len(t, peers, 1)
		return peers[0].Password
	}
	assert.Equal(t, bgp.Secret("one"), password(with(good, secret("key", "one"))))
	cfg := with(bad, secret("key", "two"))
	assert.Equal(t, bgp.Secret("two"), password(cfg), "the last good version, with the present password")
	r, _ := rejectedOnly(t, cfg)
	assert.True(t, r.Kept)

	cfg = with(good)
	assert.Empty(t, cfg.Peers)
	r, fe := rejectedOnly(t, cfg)
	assert.False(t, r.Kept)
	assert.Equal(t, "key", fe.Other)
	assert.Contains(t, r.Effect(), "held back")
	assert.Equal(t, bgp.Secret("three"), password(with(good, secret("key", "three"))), "created again")

	again := router("tor", func(s *v1beta2.BGPPeerSpec) { s.MyASN = 0 })
	again.UID = "another"
	assert.Empty(t, with(again, secret("key", "two")).Peers, "another object has no earlier version")
}

func TestBGPAdvertisementsRejected(t *testing.T) {
	hosts := func(s *v1beta1.BGPAdvertisementSpec) { s.ServiceSelectors = labelled("app", "web") }
	tests := map[string]struct {
		field string
		edits []func(*v1beta1.BGPAdvertisementSpec)
	}{
		"length 40":              {"spec.aggregationLength", []func(*v1beta1.BGPAdvertisementSpec){length(40)}},
		"length 0":               {"spec.aggregationLength", []func(*v1beta1.BGPAdvertisementSpec){length(0)}},
		"length 129":             {"spec.aggregationLengthV6", []func(*v1beta1.BGPAdvertisementSpec){length6(129)}},
		"IPv6 length 0":          {"spec.aggregationLengthV6", []func(*v1beta1.BGPAdvertisementSpec){length6(0)}},
		"aggregate of Services":  {"spec.aggregationLength", []func(*v1beta1.BGPAdvertisementSpec){hosts, length(30)}},
		"IPv6 with Services":     {"spec.aggregationLengthV6", []func(*v1beta1.BGPAdvertisementSpec){hosts, length6(64)}},
		"wider than the pool":    {"spec.aggregationLength", []func(*v1beta1.BGPAdvertisementSpec){length(26)}},
		"wider than the IPv6":    {"spec.aggregationLengthV6", []func(*v1beta1.BGPAdvertisementSpec){length6(60)}},
		"peer twice":             {"spec.peers[1]", []func(*v1beta1.BGPAdvertisementSpec){to("a", "a")}},
		"community twice":        {"spec.communities[1]", []func(*v1beta1.BGPAdvertisementSpec){communities("1:2", "1:2")}},
		"community out of range": {"spec.communities[0]", []func(*v1beta1.BGPAdvertisementSpec){communities("70000:1")}},
		"community of 3 parts":   {"spec.communities[0]", []func(*v1beta1.BGPAdvertisementSpec){communities("1:2:3")}},
		"large community":        {"spec.communities[0]", []func(*v1beta1.BGPAdvertisementSpec){communities("large:1:x:3")}},
		"unknown name":           {"spec.communities[0]", []func(*v1beta1.BGPAdvertisementSpec){communities("purple")}},
		"node selector twice": {"spec.nodeSelectors[1]", []func(*v1beta1.BGPAdvertisementSpec){
			func(s *v1beta1.BGPAdvertisementSpec) { s.NodeSelectors = labelled("a", "b", "a", "b") },
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var store config.Store
			cfg := store.Update(config.Objects{
				Pools:             []*v1beta1.IPAddressPool{pool("p", "192.0.2.0/28", "2001:db8::/64")},
				BGPAdvertisements: []*v1beta1.BGPAdvertisement{bgpAd("bad", 0, tt.edits...), bgpAd("good", 1)},
			})
			r, fe := rejectedOnly(t, cfg)
			assert.Equal(t, tt.field, fe.Field, "%v", r.Err)
			assert.Contains(t, r.Error(), "BGPAdvertisement metallb-system/bad")
			p, _ := cfg.Pool("p")
			assert.Equal(t, []string{"good"}, bgpNames(cfg.BGPFor(p)))
		})
	}
}

func bgpNames(ads []config.BGPAdvertisement) []string {
	var out []string
	for _, a := range ads {
		out = append(out, a.Name)
	}
	return out
}

// The length of a prefix is measured against the widest prefix within each entry of the pool.
func TestAggregationLengthOfRanges(t *testing.T) {
	for addresses, least := range map[string]int32{
		"192.0.2.0/24": 24, "192.0.2.2-192.0.2.254": 26, "198.51.100.64-198.51.100.95": 27, "192.0.2.5-192.0.2.5": 32,
	} {
		for _, l := range []int32{least - 1, least} {
			var store config.Store
			cfg := store.Update(config.Objects{
				Pools: []*v1beta1.IPAddressPool{pool("p", addresses)}, BGPAdvertisements: []*v1beta1.BGPAdvertisement{bgpAd("a", 0, length(l))},
			})
			p, _ := cfg.Pool("p")
			assert.Equal(t, l == least, len(cfg.BGPFor(p)) == 1, "%s %d", addresses, l)
		}
	}
}

func TestRoute(t *testing.T) {
	var store config.Store
	cfg := store.Update(config.Objects{
		Pools: []*v1beta1.IPAddressPool{pool("p", "192.0.2.0/24", "2001:db8::/64")},
		BGPAdvertisements: []*v1beta1.BGPAdvertisement{bgpAd("a", 0, pref(150), length(26), length6(120), to("tor-b", "tor-a"),
			communities("east", "64512:7", "large:2:1:1", "064512:7", "large:1:2:3", "big"))},
		Communities: []*v1beta1.Community{{ObjectMeta: born("ours", 0), Spec: v1beta1.CommunitySpec{Communities: []v1beta1.CommunityAlias{
			{Name: "east", Value: "1:2"}, {Name: "big", Value: "large:1:2:3"},
		}}}},
	})
	require.Empty(t, cfg.Rejected, "%v", config.Texts(cfg.Rejected))
	require.Len(t, cfg.BGP, 1)
	preference := uint32(150)
	want := bgp.Route{
		Prefix: netip.MustParsePrefix("192.0.2.64/26"), LocalPref: &preference, Peers: []string{"tor-a", "tor-b"},
		Communities: []bgp.Community{1<<16 | 2, 64512<<16 | 7}, LargeCommunities: []bgp.LargeCommunity{{Global: 1, Local1: 2, Local2: 3}, {Global: 2, Local1: 1, Local2: 1}},
	}
	assert.Equal(t, want, cfg.BGP[0].Route(netip.MustParseAddr("192.0.2.70")))
	want.Prefix = netip.MustParsePrefix("2001:db8::/120")
	assert.Equal(t, want, cfg.BGP[0].Route(netip.MustParseAddr("2001:db8::70")))
	require.Len(t, cfg.Warnings, 2, "peers that are not there")
}

func TestContradictingPreferences(t *testing.T) {
	on := func(rack string) func(*v1beta1.BGPAdvertisementSpec) {
		return func(s *v1beta1.BGPAdvertisementSpec) { s.NodeSelectors = labelled("rack", rack) }
	}
	hosts := func(s *v1beta1.BGPAdvertisementSpec) { s.ServiceSelectors = labelled("app", "web") }
	type edits []func(*v1beta1.BGPAdvertisementSpec)
	both := []*corev1.Node{node("kw-01", map[string]string{"rack": "r1"}), node("kw-02", map[string]string{"rack": "r2"})}
	tests := map[string]struct {
		pool     []string
		a, b     edits
		nodes    []*corev1.Node
		conflict bool
	}{
		"plain":                   {nil, edits{pref(100)}, edits{pref(200)}, both, true},
		"none and some":           {nil, edits{}, edits{pref(200)}, both, true},
		"equal":                   {nil, edits{pref(200)}, edits{pref(200)}, both, false},
		"other lengths":           {nil, edits{pref(100)}, edits{pref(200), length(28)}, both, false},
		"other peers":             {nil, edits{pref(100), to("a")}, edits{pref(200), to("b")}, both, false},
		"one peer in common":      {nil, edits{pref(100), to("a", "c")}, edits{pref(200), to("b", "a")}, both, true},
		"all peers and one":       {nil, edits{pref(100)}, edits{pref(200), to("b")}, both, true},
		"other nodes":             {nil, edits{pref(100), on("r1")}, edits{pref(200), on("r2")}, both, false},
		"no nodes":                {nil, edits{pref(100)}, edits{pref(200)}, nil, false},
		"for Services":            {nil, edits{pref(100), hosts}, edits{pref(200)}, both, false},
		"dual, one length equal":  {[]string{"192.0.2.0/28", "2001:db8::/64"}, edits{pref(100)}, edits{pref(200), length(28)}, both, true},
		"dual, both lengths vary": {[]string{"192.0.2.0/28", "2001:db8::/64"}, edits{pref(100)}, edits{pref(200), length(28), length6(64)}, both, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.pool == nil {
				tt.pool = []string{"192.0.2.0/28"}
			}
			var store config.Store
			cfg := store.Update(config.Objects{
				Pools: []*v1beta1.IPAddressPool{pool("p", tt.pool...)}, Nodes: tt.nodes,
				// The older one is the later by name.
				BGPAdvertisements: []*v1beta1.BGPAdvertisement{bgpAd("z-old", 0, tt.a...), bgpAd("a-young", 1, tt.b...)},
			})
			p, _ := cfg.Pool("p")
			if !tt.conflict {
				assert.Empty(t, cfg.Rejected)
				assert.Len(t, cfg.BGPFor(p), 2)
				return
			}
			r, fe := rejectedOnly(t, cfg)
			assert.Equal(t, "a-young", r.Name)
			assert.Equal(t, "z-old", fe.Other)
			assert.Equal(t, []string{"z-old"}, bgpNames(cfg.BGPFor(p)))
		})
	}
}

// An edit that does not go together with a pool keeps the version before; a pool that shrinks below an advertisement loses
// it alone.
func TestBGPAdvertisementKept(t *testing.T) {
	var store config.Store
	wide, other := pool("p", "192.0.2.0/24"), pool("q", "198.51.100.0/24")
	with := func(a *v1beta1.BGPAdvertisement, pools ...*v1beta1.IPAddressPool) config.Config {
		return store.Update(config.Objects{Pools: pools, BGPAdvertisements: []*v1beta1.BGPAdvertisement{a}})
	}
	route := func(cfg config.Config, pool, addr string) string {
		p, ok := cfg.Pool(pool)
		require.True(t, ok)
		for _, a := range cfg.BGPFor(p) {
			return a.Route(netip.MustParseAddr(addr)).Prefix.String()
		}
		return ""
	}
	cfg := with(bgpAd("a", 0, length(24)), wide, other)
	require.Empty(t, cfg.Rejected)
	cfg = with(bgpAd("a", 0, length(16)), wide, other)
	r, _ := rejectedOnly(t, cfg)
	assert.True(t, r.Kept)
	assert.Equal(t, "192.0.2.0/24", route(cfg, "p", "192.0.2.9"))

	narrow := pool("p", "192.0.2.0/28")
	cfg = with(bgpAd("a", 0, length(24)), narrow, other)
	r, _ = rejectedOnly(t, cfg)
	assert.Contains(t, r.Effect(), `["p"]`)
	assert.Empty(t, route(cfg, "p", "192.0.2.9"))
	assert.Equal(t, "198.51.100.0/24", route(cfg, "q", "198.51.100.9"))

	store = config.Store{} // and the same after a restart
	cfg = with(bgpAd("a", 0, length(24)), narrow, other)
	assert.Empty(t, route(cfg, "p", "192.0.2.9"))
	assert.Equal(t, "198.51.100.0/24", route(cfg, "q", "198.51.100.9"))
}

func TestCommunityObjects(t *testing.T) {
	define := func(name string, minute int, kv ...string) *v1beta1.Community {
		c := &v1beta1.Community{ObjectMeta: born(name, minute)}
		for i := 0; i < len(kv); i += 2 {
			c.Spec.Communities = append(c.Spec.Communities, v1beta1.CommunityAlias{Name: kv[i], Value: kv[i+1]})
		}
		return c
	}
	var store config.Store
	with := func(objs ...*v1beta1.Community) config.Config {
		return store.Update(config.Objects{Communities: objs, BGPAdvertisements: []*v1beta1.BGPAdvertisement{bgpAd("a", 0, communities("blue"))}})
	}
	blue := func(cfg config.Config) string {
		require.Len(t, cfg.BGP, 1)
		return cfg.BGP[0].Communities[0].String()
	}
	assert.Equal(t, "1:1", blue(with(define("one", 0, "blue", "1:1"))))
	assert.Equal(t, "1:2", blue(with(define("one", 0, "blue", "1:2"))), "an edit of the name is one of the route")

	cfg := with(define("one", 0, "blue", "1234"))
	assert.Equal(t, "1:2", blue(cfg), "the last good version of the name")
	r, fe := rejectedOnly(t, cfg)
	assert.True(t, r.Kept)
	assert.Equal(t, "spec.communities[0].value", fe.Field)

	cfg = with(define("one", 1, "blue", "1:1"), define("two", 0, "blue", "2:2"))
	assert.Equal(t, "2:2", blue(cfg), "that of the older object")
	require.Len(t, cfg.Rejected, 1)
	assert.Equal(t, "one", cfg.Rejected[0].Name)

	cfg = with()
	assert.Equal(t, "2:2", blue(cfg), "the last good version of the advertisement")
	r, fe = rejectedOnly(t, cfg)
	assert.Equal(t, "BGPAdvertisement", r.Kind)
	assert.Equal(t, "blue", fe.Value)

	cfg = with(define("one", 0, "blue", "1:1", "blue", "1:2"), define("two", 0, "", "1:1"))
	assert.Len(t, config.Texts(cfg.Rejected), 3)
}

func TestBFDProfilesRejected(t *testing.T) {
	number := func(n uint32) *uint32 { return &n }
	for field, spec := range map[string]v1beta1.BFDProfileSpec{
		"spec.receiveInterval":  {ReceiveInterval: number(9)},
		"spec.transmitInterval": {TransmitInterval: number(60001)},
		"spec.echoInterval":     {EchoInterval: number(5)},
		"spec.detectMultiplier": {DetectMultiplier: number(1)},
		"spec.minimumTtl":       {MinimumTTL: number(255)},
	} {
		var store config.Store
		cfg := store.Update(config.Objects{BFDProfiles: []*v1beta1.BFDProfile{{ObjectMeta: born("p", 0), Spec: spec}}})
		_, fe := rejectedOnly(t, cfg)
		assert.Equal(t, field, fe.Field)
		assert.Empty(t, cfg.BFDProfiles)
	}
}

// The order of the lists does not matter, and nothing that is in force is illegal together.
func TestBGPIsIndependentOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := config.Objects{
			Pools: []*v1beta1.IPAddressPool{pool("p", "192.0.2.0/26"), pool("q", "198.51.100.0/28", "2001:db8::/64")},
			Nodes: []*corev1.Node{node("kw-01", nil)},
		}
		for range rapid.IntRange(0, 4).Draw(t, "ads") {
			a := &v1beta1.BGPAdvertisement{ObjectMeta: objectMeta(t, "a", "b", "c", "d")}
			a.Spec.LocalPref = rapid.SampledFrom([]uint32{0, 100, 200}).Draw(t, "pref")
			a.Spec.AggregationLength = new(rapid.Int32Range(25, 33).Draw(t, "length"))
			a.Spec.Peers = rapid.SampledFrom([][]string{nil, {"x"}, {"y"}, {"x", "y"}}).Draw(t, "peers")
			a.Spec.IPAddressPools = rapid.SampledFrom([][]string{nil, {"p"}, {"q"}}).Draw(t, "pools")
			in.BGPAdvertisements = append(in.BGPAdvertisements, a)
		}
		var one, two config.Store
		first := one.Update(in)
		slices.Reverse(in.BGPAdvertisements)
		second := two.Update(in)
		assert.Equal(t, config.Texts(first.Rejected), config.Texts(second.Rejected))
		for _, p := range first.Pools {
			q, _ := second.Pool(p.Name)
			ads := first.BGPFor(p)
			assert.Equal(t, bgpNames(ads), bgpNames(second.BGPFor(q)))
			for i, a := range ads {
				for _, b := range ads[i+1:] {
					assert.False(t, a.ConflictsWith(b, true, p.Name == "q"), "%s and %s on %s", a.Name, b.Name, p.Name)
				}
			}
		}
	})
}
