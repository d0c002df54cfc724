package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

func TestRejectedIsNotDeleted(t *testing.T) {
	var store config.Store
	good := pool("edge", "10.0.0.0/24")
	good.Labels = map[string]string{"zone": "a"}
	ad := l2("ad", v1beta1.L2AdvertisementSpec{IPAddressPools: []string{"edge"}})
	require.Empty(t, store.Update(config.Objects{Pools: pools(good).Pools, L2Advertisements: []*v1beta1.L2Advertisement{ad}}).Rejected)

	badPool := good.DeepCopy()
	badPool.Spec.Addresses = []string{"10.0.0.0/33"}
	badPool.Labels = nil
	badAd := ad.DeepCopy()
	badAd.Spec.NodeSelectors = labelled("not a key", "x")
	bad := config.Objects{Pools: pools(badPool).Pools, L2Advertisements: []*v1beta1.L2Advertisement{badAd}}
	for range 3 { // as long as it is bad
		cfg := store.Update(bad)
		require.Len(t, cfg.Rejected, 2)
		for _, r := range cfg.Rejected {
			assert.True(t, r.Kept, r.Error())
			assert.Contains(t, r.Error(), "last good version stays in force")
		}
		p, _ := cfg.Pool("edge")
		assert.Equal(t, []string{"10.0.0.0/24"}, rangesOf(t, cfg, "edge"))
		assert.Equal(t, map[string]string{"zone": "a"}, p.Labels)
		assert.Equal(t, []string{"ad"}, names(cfg.L2For(p, nil)))
		requireSound(t, cfg)
	}

	cfg := store.Update(pools())
	assert.Empty(t, cfg.Pools, "gone is gone")
	assert.Empty(t, cfg.L2)
	assert.Empty(t, cfg.Rejected)

	cfg = store.Update(bad)
	p, _ := cfg.Pool("edge")
	assert.True(t, p.Alloc.Opaque, "and nobody remembers it")
	assert.Empty(t, cfg.L2)
	for _, r := range cfg.Rejected {
		assert.False(t, r.Kept)
		assert.Contains(t, r.Error(), "no earlier version is known")
	}
}

func TestNewObjectUnderAnOldNameIsNotTheOldOne(t *testing.T) {
	var store config.Store
	store.Update(pools(pool("edge", "10.0.0.0/24")))
	again := pool("edge", "bad")
	again.UID = "another"
	cfg := store.Update(pools(again))
	p, _ := cfg.Pool("edge")
	assert.True(t, p.Alloc.Opaque)
	assert.False(t, cfg.Rejected[0].Kept)
}

func TestAllFaultsOfAnObjectAreNamed(t *testing.T) {
	p := allocated("edge", "10.0.0.9-10.0.0.1", v1beta1.ServiceAllocation{Priority: -1, Namespaces: []string{"a", "a"}})
	p.Spec.Addresses = append(p.Spec.Addresses, "10.0.0.7")
	var store config.Store
	cfg := store.Update(pools(p))
	text := cfg.Rejected[0].Error()
	for _, field := range []string{"spec.addresses[0]", "spec.addresses[1]", "spec.serviceAllocation.priority", "spec.serviceAllocation.namespaces[1]"} {
		assert.Contains(t, text, field)
	}
}

func TestOverlap(t *testing.T) {
	aged := func(name string, minute int, addresses ...string) *v1beta1.IPAddressPool {
		p := pool(name, addresses...)
		p.ObjectMeta = born(name, minute)
		return p
	}
	tests := []struct {
		name     string
		in       []*v1beta1.IPAddressPool
		rejected string
		other    string
	}{
		{"contained", []*v1beta1.IPAddressPool{pool("a", "10.0.0.0/16"), pool("b", "10.0.3.0-10.0.3.7")}, "b", "a"},
		{"containing", []*v1beta1.IPAddressPool{pool("a", "10.44.0.1-10.44.0.100"), pool("b", "10.44.0.0/24")}, "b", "a"},
		{"equal", []*v1beta1.IPAddressPool{pool("a", "2001:db8::/64"), pool("b", "2001:db8::/64")}, "b", "a"},
		{"the older one is good", []*v1beta1.IPAddressPool{aged("a", 9, "10.0.0.0/24"), aged("b", 1, "10.0.0.0/24")}, "a", "b"},
		{"last address", []*v1beta1.IPAddressPool{pool("a", "10.0.0.0-10.0.0.9"), pool("b", "10.0.0.9-10.0.0.20")}, "b", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var store config.Store
			cfg := store.Update(pools(append(tt.in, pool("zz", "172.16.0.0/24"))...))
			require.Len(t, cfg.Rejected, 1)
			r := cfg.Rejected[0]
			assert.Equal(t, tt.rejected, r.Name)
			var fe *config.FieldError
			require.ErrorAs(t, r.Err, &fe)
			assert.Equal(t, tt.other, fe.Other)
			assert.Contains(t, r.Error(), fmt.Sprintf("IPAddressPool %q", tt.other))
			p, _ := cfg.Pool(tt.rejected)
			assert.True(t, p.Alloc.Opaque)
			assert.Equal(t, []string{"172.16.0.0/24"}, rangesOf(t, cfg, "zz"))
			requireSound(t, cfg)
		})
	}
}

func TestAdjacentPoolsDoNotOverlap(t *testing.T) {
	var store config.Store
	cfg := store.Update(pools(pool("a", "10.44.0.1-10.44.0.100"), pool("b", "10.44.0.101-10.44.0.200"), pool("c", "::/1", "8000::/1")))
	assert.Empty(t, cfg.Rejected)
	requireSound(t, cfg)
}

func TestSwapAndRenameInOneBatch(t *testing.T) {
	var store config.Store
	store.Update(pools(pool("a", "10.0.0.0/24"), pool("b", "10.0.1.0/24")))
	cfg := store.Update(pools(pool("a", "10.0.1.0/24"), pool("b", "10.0.0.0/24")))
	assert.Empty(t, cfg.Rejected, "only present versions matter when all of them are good")
	cfg = store.Update(pools(pool("a2", "10.0.1.0/24"), pool("b", "10.0.0.0/24")))
	assert.Empty(t, cfg.Rejected)
	requireSound(t, cfg)
}

// An older pool grows into a younger one that is in force: the older one is good. The younger one keeps the rest of
// what it had, so that no address is in two pools.
func TestLastGoodVersionIsTrimmed(t *testing.T) {
	var store config.Store
	b := pool("b", "10.0.1.0-10.0.1.9", "2001:db8::/126")
	store.Update(pools(pool("a", "10.0.0.0/24"), b))

	cfg := store.Update(pools(pool("a", "10.0.0.0-10.0.1.3"), b))
	require.Len(t, cfg.Rejected, 1)
	assert.True(t, cfg.Rejected[0].Kept)
	assert.Contains(t, cfg.Rejected[0].Error(), "less the addresses that older pools have taken")
	assert.Equal(t, []string{"10.0.1.4-10.0.1.9", "2001:db8::/126"}, rangesOf(t, cfg, "b"))
	requireSound(t, cfg)

	cfg = store.Update(pools(pool("a", "10.0.1.3-10.0.1.4", "10.0.1.6/32", "10.0.1.9/32"), b))
	assert.Equal(t, []string{"10.0.1.0-10.0.1.2", "10.0.1.5/32", "10.0.1.7-10.0.1.8", "2001:db8::/126"}, rangesOf(t, cfg, "b"))
	requireSound(t, cfg)

	cfg = store.Update(pools(pool("a", "10.0.0.0/15", "2001:db8::/32"), b))
	p, _ := cfg.Pool("b")
	assert.True(t, p.Alloc.Opaque, "nothing is left")
	assert.False(t, cfg.Rejected[0].Kept)
	requireSound(t, cfg)

	cfg = store.Update(pools(pool("a", "10.0.0.0/24"), b))
	assert.Empty(t, cfg.Rejected, "the older pool has shrunk again")
	assert.Equal(t, []string{"10.0.1.0-10.0.1.9", "2001:db8::/126"}, rangesOf(t, cfg, "b"))
}

// A slip of the pen in an older pool does not give its addresses to a younger one.
func TestLastGoodVersionHoldsItsAddresses(t *testing.T) {
	var store config.Store
	store.Update(pools(pool("a", "10.0.0.0/24")))
	cfg := store.Update(pools(pool("a", "10.0.0.0/240"), pool("b", "10.0.0.128/25"), pool("c", "10.0.2.0/24")))
	require.Len(t, cfg.Rejected, 2)
	assert.True(t, cfg.Rejected[0].Kept)
	assert.Equal(t, "b", cfg.Rejected[1].Name)
	assert.Contains(t, cfg.Rejected[1].Error(), `IPAddressPool "a"`)
	assert.Equal(t, []string{"10.0.0.0/24"}, rangesOf(t, cfg, "a"))
	assert.Equal(t, []string{"10.0.2.0/24"}, rangesOf(t, cfg, "c"))
	requireSound(t, cfg)
}

func TestDuplicateNames(t *testing.T) {
	older, younger := pool("edge", "10.0.0.0/24"), pool("edge", "10.0.1.0/24")
	younger.ObjectMeta = born("edge", 5)
	adOlder, adYounger := l2("ad", v1beta1.L2AdvertisementSpec{}), l2("ad", v1beta1.L2AdvertisementSpec{Interfaces: []string{"e1"}})
	adYounger.ObjectMeta = born("ad", 5)
	var store config.Store
	cfg := store.Update(config.Objects{
		Pools:            []*v1beta1.IPAddressPool{younger, nil, older},
		L2Advertisements: []*v1beta1.L2Advertisement{adYounger, nil, adOlder},
	})
	require.Len(t, cfg.Rejected, 2)
	assert.Same(t, younger, cfg.Rejected[0].Object)
	assert.Same(t, adYounger, cfg.Rejected[1].Object)
	assert.Equal(t, []string{"10.0.0.0/24"}, rangesOf(t, cfg, "edge"))
	require.Len(t, cfg.L2, 1)
	assert.Empty(t, cfg.L2[0].Interfaces)
	requireSound(t, cfg)
}

func TestNameless(t *testing.T) {
	var store config.Store
	cfg := store.Update(config.Objects{
		Pools:            []*v1beta1.IPAddressPool{{}, {}, pool("", "10.0.0.0/24")},
		L2Advertisements: []*v1beta1.L2Advertisement{{}, {}},
	})
	assert.Empty(t, cfg.Pools)
	assert.Empty(t, cfg.L2)
	assert.Len(t, cfg.Rejected, 5)
	for _, r := range cfg.Rejected {
		var fe *config.FieldError
		require.ErrorAs(t, r.Err, &fe)
		assert.Equal(t, "metadata.name", fe.Field)
	}
	requireSound(t, cfg)
}

func TestUpdateLeavesItsInputAlone(t *testing.T) {
	p := allocated("edge", "10.0.0.0/24", v1beta1.ServiceAllocation{
		Namespaces: []string{"z", "a"}, NamespaceSelectors: labelled("x", "y", "a", "b"),
	})
	ad := l2("ad", v1beta1.L2AdvertisementSpec{Interfaces: []string{"e2", "e1"}, IPAddressPools: []string{"z", "edge"}})
	in := config.Objects{Pools: pools(pool("z", "10.1.0.0/24"), p).Pools, L2Advertisements: []*v1beta1.L2Advertisement{ad}}
	wantPool, wantAd := p.DeepCopy(), ad.DeepCopy()
	var store config.Store
	store.Update(in)
	assert.Equal(t, wantPool, p)
	assert.Equal(t, wantAd, ad)
	assert.Equal(t, "z", in.Pools[0].Name)
}
