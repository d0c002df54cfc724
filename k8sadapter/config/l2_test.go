package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

func update(t testing.TB, poolObjs []*v1beta1.IPAddressPool, ads ...*v1beta1.L2Advertisement) config.Config {
	t.Helper()
	var store config.Store
	return store.Update(config.Objects{Pools: poolObjs, L2Advertisements: ads})
}

func TestL2Rejected(t *testing.T) {
	twice := labelled("a", "b", "a", "b")
	preferred := func(weight int32, sel metav1.LabelSelector) []v1beta1.PreferredNodeSelector {
		return []v1beta1.PreferredNodeSelector{{Weight: weight, Preference: sel}}
	}
	near := expression("a", "Near", "b")
	tests := []struct {
		name         string
		spec         v1beta1.L2AdvertisementSpec
		field, value string
	}{
		{"pool twice", v1beta1.L2AdvertisementSpec{IPAddressPools: []string{"p", "p"}}, "spec.ipAddressPools[1]", "p"},
		{"pool selector twice", v1beta1.L2AdvertisementSpec{IPAddressPoolSelectors: twice}, "spec.ipAddressPoolSelectors[1]", "a=b"},
		{"node selector twice", v1beta1.L2AdvertisementSpec{NodeSelectors: twice}, "spec.nodeSelectors[1]", "a=b"},
		{"service selector twice", v1beta1.L2AdvertisementSpec{ServiceSelectors: twice}, "spec.serviceSelectors[1]", "a=b"},
		{"bad node selector", v1beta1.L2AdvertisementSpec{NodeSelectors: []metav1.LabelSelector{near}}, "spec.nodeSelectors[0]", ""},
		{"weight 0", v1beta1.L2AdvertisementSpec{PreferredNodeSelectors: preferred(0, metav1.LabelSelector{})}, "spec.preferredNodeSelectors[0].weight", "0"},
		{"weight 101", v1beta1.L2AdvertisementSpec{PreferredNodeSelectors: preferred(101, metav1.LabelSelector{})}, "spec.preferredNodeSelectors[0].weight", "101"},
		{"bad preference", v1beta1.L2AdvertisementSpec{PreferredNodeSelectors: preferred(1, near)}, "spec.preferredNodeSelectors[0].preference", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := update(t, nil, l2("bad", tt.spec), l2("good", v1beta1.L2AdvertisementSpec{}))
			require.Len(t, cfg.Rejected, 1)
			r := cfg.Rejected[0]
			var fe *config.FieldError
			require.ErrorAs(t, r.Err, &fe)
			assert.Equal(t, tt.field, fe.Field)
			if tt.value != "" {
				assert.Equal(t, tt.value, fe.Value)
			}
			assert.Contains(t, r.Error(), "L2Advertisement metallb-system/bad")
			assert.Contains(t, r.Error(), "no way to know")
			assert.Equal(t, []string{"good"}, names(cfg.L2))
		})
	}
}

func TestL2For(t *testing.T) {
	east, west := pool("east", "10.0.0.0/24"), pool("west", "10.0.1.0/24")
	east.Labels = map[string]string{"zone": "east"}
	cfg := update(
		t, pools(east, west).Pools,
		l2("all", v1beta1.L2AdvertisementSpec{Interfaces: []string{"e0"}}),
		l2("byname", v1beta1.L2AdvertisementSpec{Interfaces: []string{"e1"}, IPAddressPools: []string{"west", "unknown"}}),
		l2("bylabel", v1beta1.L2AdvertisementSpec{Interfaces: []string{"e2"}, IPAddressPoolSelectors: labelled("zone", "east")}),
		l2("both", v1beta1.L2AdvertisementSpec{
			Interfaces: []string{"e3"}, IPAddressPools: []string{"east"}, IPAddressPoolSelectors: labelled("zone", "east"),
		}),
		l2("shop", v1beta1.L2AdvertisementSpec{
			Interfaces: []string{"e4"}, IPAddressPools: []string{"west"}, ServiceSelectors: labelled("app", "shop", "app", "cart"),
		}),
	)
	require.Empty(t, cfg.Rejected)
	e, _ := cfg.Pool("east")
	w, _ := cfg.Pool("west")
	assert.Equal(t, []string{"all", "both", "bylabel"}, names(cfg.L2For(e, nil)))
	assert.Equal(t, []string{"all", "byname"}, names(cfg.L2For(w, nil)))
	assert.Equal(t, []string{"all", "byname", "shop"}, names(cfg.L2For(w, map[string]string{"app": "cart"})))
	for _, a := range cfg.L2 {
		assert.Equal(t, a.Name == "shop", a.HasServiceSelectors, a.Name)
	}
	require.Len(t, cfg.Warnings, 1)
	assert.Contains(t, cfg.Warnings[0].Message, `spec.ipAddressPools[1]: no IPAddressPool is named "unknown"`)
}

func TestL2ForDeduplicates(t *testing.T) {
	plain := v1beta1.L2AdvertisementSpec{Interfaces: []string{"e1", "e0"}, NodeSelectors: labelled("a", "1", "b", "2")}
	same := v1beta1.L2AdvertisementSpec{Interfaces: []string{"e0", "e1", "e1"}, NodeSelectors: labelled("b", "2", "a", "1")}
	other := v1beta1.L2AdvertisementSpec{Interfaces: []string{"e0"}, NodeSelectors: labelled("a", "1", "b", "2")}
	prefers := v1beta1.L2AdvertisementSpec{
		Interfaces: []string{"e0", "e1"}, NodeSelectors: labelled("a", "1", "b", "2"),
		PreferredNodeSelectors: []v1beta1.PreferredNodeSelector{{Weight: 10}},
	}
	cfg := update(t, pools(pool("p", "10.0.0.0/24")).Pools,
		l2("a", plain), l2("b", same), l2("c", other), l2("d", prefers), l2("e", prefers))
	p, _ := cfg.Pool("p")
	assert.Equal(t, []string{"a", "c", "d", "e"}, names(cfg.L2For(p, nil)), "preferences are summed, so never deduplicated")
}

func TestL2OfOpaquePool(t *testing.T) {
	bad := pool("edge", "nonsense")
	bad.Labels = map[string]string{"zone": "a"}
	cfg := update(t, pools(bad).Pools,
		l2("byname", v1beta1.L2AdvertisementSpec{IPAddressPools: []string{"edge"}, Interfaces: []string{"e0"}}),
		l2("bylabel", v1beta1.L2AdvertisementSpec{IPAddressPoolSelectors: labelled("zone", "a")}))
	p, ok := cfg.PoolOf(addrs(t, "192.0.2.7"), "edge")
	require.True(t, ok, "its addresses go on being announced")
	assert.Equal(t, []string{"bylabel", "byname"}, names(cfg.L2For(p, nil)))
	assert.Empty(t, cfg.Warnings, "the pool exists")
}

func TestMatchesNodeAndScore(t *testing.T) {
	cfg := update(t, nil,
		l2("any", v1beta1.L2AdvertisementSpec{PreferredNodeSelectors: []v1beta1.PreferredNodeSelector{
			{Weight: 40, Preference: labelled("zone", "a")[0]}, {Weight: 30, Preference: labelled("role", "edge")[0]},
		}}),
		l2("edge", v1beta1.L2AdvertisementSpec{
			NodeSelectors:          labelled("role", "edge", "role", "core"),
			PreferredNodeSelectors: []v1beta1.PreferredNodeSelector{{Weight: 25}, {Weight: 5, Preference: labelled("zone", "a")[0]}},
		}))
	require.Empty(t, cfg.Rejected)
	anywhere, edge := cfg.L2[0], cfg.L2[1]
	both, zone := map[string]string{"zone": "a", "role": "edge"}, map[string]string{"zone": "a"}

	assert.True(t, anywhere.MatchesNode(nil))
	assert.Equal(t, 70, anywhere.Score(both))
	assert.Equal(t, 40, anywhere.Score(zone))
	assert.Zero(t, anywhere.Score(nil))

	assert.True(t, edge.MatchesNode(both))
	assert.True(t, edge.MatchesNode(map[string]string{"role": "core"}))
	assert.False(t, edge.MatchesNode(zone))
	assert.Equal(t, 30, edge.Score(both))
	assert.Zero(t, edge.Score(zone), "preferences outside nodeSelectors count nothing")
}

func TestLinksFor(t *testing.T) {
	ad := func(name, role string, interfaces ...string) *v1beta1.L2Advertisement {
		spec := v1beta1.L2AdvertisementSpec{Interfaces: interfaces}
		if role != "" {
			spec.NodeSelectors = labelled("role", role)
		}
		return l2(name, spec)
	}
	tests := []struct {
		name string
		ads  []*v1beta1.L2Advertisement
		want []string
		ok   bool
	}{
		{"none", nil, nil, false},
		{"other node", []*v1beta1.L2Advertisement{ad("a", "core", "e1")}, nil, false},
		{"union", []*v1beta1.L2Advertisement{ad("a", "", "e2", "e1"), ad("b", "edge", "e3", "e2"), ad("c", "core", "e9")}, []string{"e1", "e2", "e3"}, true},
		{"one is for every link", []*v1beta1.L2Advertisement{ad("a", "", "e1"), ad("b", "")}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			links, ok := config.LinksFor(update(t, nil, tt.ads...).L2, map[string]string{"role": "edge"})
			assert.Equal(t, tt.ok, ok)
			assert.Equal(t, tt.want, links)
		})
	}
}

func TestPoolOf(t *testing.T) {
	p := pool("even", "10.0.0.0/24", "2001:db8::/64")
	p.Spec.AvoidBuggyIPs = true
	cfg := update(t, pools(p, pool("odd", "10.0.1.5-10.0.1.9"), pool("unread", "???")).Pools)
	tests := []struct {
		addrs []string
		hint  string
		want  string
	}{
		{[]string{"10.0.0.1"}, "", "even"},
		{[]string{"10.0.0.0"}, "", "even"},
		{[]string{"10.0.0.255", "2001:db8::1"}, "", "even"},
		{[]string{"::ffff:10.0.1.5"}, "", "odd"},
		{[]string{"10.0.1.9"}, "even", "odd"}, // the addresses know better
		{[]string{"10.0.1.4"}, "odd", ""},
		{[]string{"10.0.1.10"}, "", ""},
		{[]string{"10.0.0.1", "10.0.1.5"}, "even", ""},
		{[]string{"10.9.9.9"}, "unread", "unread"},
		{[]string{"10.9.9.9", "2001:db8:9::"}, "unread", "unread"},
		{[]string{"10.0.0.1"}, "unread", "even"},
		{[]string{"10.0.0.1", "2001:db8:9::"}, "unread", ""},
		{[]string{"10.9.9.9"}, "nobody", ""},
		{nil, "unread", ""},
		{[]string{"255.255.255.255"}, "", ""},
		{[]string{"0.0.0.0"}, "", ""},
		{[]string{"::"}, "", ""},
	}
	for _, tt := range tests {
		got, ok := cfg.PoolOf(addrs(t, tt.addrs...), tt.hint)
		assert.Equalf(t, tt.want != "", ok, "%v %q", tt.addrs, tt.hint)
		assert.Equalf(t, tt.want, got.Name, "%v %q", tt.addrs, tt.hint)
	}
	_, ok := config.Config{}.PoolOf(addrs(t, "10.0.0.1"), "even")
	assert.False(t, ok)
}
