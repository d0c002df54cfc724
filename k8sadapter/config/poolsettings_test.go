package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

// set returns the pool edge with annotations.
func set(kv ...string) *v1beta1.IPAddressPool {
	p := pool("edge", "192.0.2.0/24", "2001:db8::/120")
	p.Annotations = map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		p.Annotations[kv[i]] = kv[i+1]
	}
	return p
}

func TestPoolSettings(t *testing.T) {
	var store config.Store
	cfg := store.Update(pools(set(
		config.AnnotationExclude, " 192.0.2.5, 192.0.2.10-192.0.2.12,2001:db8::/126,192.0.2.64/28 , ::ffff:192.0.2.6",
		config.AnnotationReserve, "192.0.2.7=shop/web, 2001:db8::7 = shop/web,192.0.2.8=shop/dns-udp,192.0.2.8=shop/dns-tcp",
		config.AnnotationOrder, "spread",
		config.AnnotationDrain, "true",
		config.AnnotationDisplaced, "keep",
		config.AnnotationQuarantine, "1h30m",
		config.AnnotationLimitPerNamespace, "5",
		"kubectl.kubernetes.io/last-applied-configuration", "{}",
	)))
	require.Empty(t, cfg.Rejected)
	require.Empty(t, cfg.Warnings)
	requireSound(t, cfg)
	p, ok := cfg.Pool("edge")
	require.True(t, ok)
	var excluded []string
	for _, r := range p.Alloc.Exclude {
		excluded = append(excluded, r.String())
	}
	assert.Equal(t, []string{"192.0.2.5/32", "192.0.2.10-192.0.2.12", "2001:db8::/126", "192.0.2.64/28", "192.0.2.6/32"}, excluded)
	assert.Equal(t, []allocator.Reservation{
		{Addr: addr(t, "192.0.2.7"), Owner: "shop/web"},
		{Addr: addr(t, "2001:db8::7"), Owner: "shop/web"},
		{Addr: addr(t, "192.0.2.8"), Owner: "shop/dns-udp"},
		{Addr: addr(t, "192.0.2.8"), Owner: "shop/dns-tcp"},
	}, p.Alloc.Reserve)
	assert.Equal(t, allocator.OrderSpread, p.Alloc.Order)
	assert.True(t, p.Alloc.Drain)
	assert.Equal(t, allocator.PolicyKeep, p.Alloc.Displaced)
	assert.Equal(t, 90*time.Minute, p.Alloc.Quarantine)
	assert.Equal(t, 5, p.Alloc.LimitPerNamespace)

	// The defaults, said or not.
	for _, obj := range []*v1beta1.IPAddressPool{
		set(),
		set(config.AnnotationOrder, "lowest", config.AnnotationDrain, "false", config.AnnotationDisplaced, "reassign", config.AnnotationQuarantine, "0"),
		set(config.AnnotationExclude, "", config.AnnotationReserve, " ", config.AnnotationOrder, "", config.AnnotationLimitPerNamespace, ""),
	} {
		cfg := store.Update(pools(obj))
		require.Empty(t, cfg.Rejected)
		assert.Equal(t, []allocator.Pool{{Name: "edge", Ranges: p.Alloc.Ranges}}, cfg.AllocatorPools())
	}
}

func TestPoolSettingsRejected(t *testing.T) {
	for _, tt := range []struct{ key, value, words string }{
		{config.AnnotationExclude, "192.0.2.5,", `entry "": it is empty`},
		{config.AnnotationExclude, "192.0.2.300", "192.0.2.300"},
		{config.AnnotationExclude, "192.0.2.9-192.0.2.1", "before the first"},
		{config.AnnotationExclude, "192.0.2.65/28", `entry "192.0.2.65/28" has host bits; write 192.0.2.64/28`},
		{config.AnnotationReserve, "192.0.2.7", `entry "192.0.2.7" has no Service; write address=namespace/name`},
		{config.AnnotationReserve, "192.0.2.7=web", "has no Service"},
		{config.AnnotationReserve, "192.0.2.7=shop/web/x", "has no Service"},
		{config.AnnotationReserve, "web=shop/web", `entry "web=shop/web" has no address`},
		{config.AnnotationReserve, "198.51.100.7=shop/web", "198.51.100.7 is not in the pool"},
		{config.AnnotationReserve, "192.0.2.7=shop/web,192.0.2.7=shop/web", "twice"},
		{config.AnnotationOrder, "Spread", "use lowest or spread"},
		{config.AnnotationDrain, "yes", "use false or true"},
		{config.AnnotationDisplaced, "drop", "use reassign or keep"},
		{config.AnnotationQuarantine, "10", "write one such as 10m"},
		{config.AnnotationQuarantine, "-10m", "is negative"},
		{config.AnnotationLimitPerNamespace, "five", "is no number"},
		{config.AnnotationLimitPerNamespace, "0", "is not positive"},
	} {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			var store config.Store
			store.Update(pools(set()))
			cfg := store.Update(pools(set(tt.key, tt.value)))
			require.Len(t, cfg.Rejected, 1)
			assert.True(t, cfg.Rejected[0].Kept, "the last good version stays")
			var fe *config.FieldError
			require.ErrorAs(t, cfg.Rejected[0].Err, &fe)
			assert.Equal(t, "metadata.annotations["+tt.key+"]", fe.Field)
			assert.Equal(t, tt.value, fe.Value)
			assert.Contains(t, fe.Reason, tt.words)
			requireSound(t, cfg)
		})
	}
	var store config.Store
	cfg := store.Update(pools(set(config.AnnotationReserve, "192.0.2.7=shop/web", config.AnnotationExclude, "192.0.2.0/28")))
	require.Len(t, cfg.Rejected, 1)
	assert.ErrorContains(t, cfg.Rejected[0], "192.0.2.7 is excluded from the pool")
}

func TestPoolSettingsWarnings(t *testing.T) {
	var store config.Store
	cfg := store.Update(pools(set("herald.lb/quaranteen", "10m", config.AnnotationExclude, "198.51.100.1")))
	require.Empty(t, cfg.Rejected)
	require.Len(t, cfg.Warnings, 2)
	assert.Equal(t, "metadata.annotations[herald.lb/exclude]: 198.51.100.1/32 is outside of the pool; it excludes nothing", cfg.Warnings[0].Message)
	assert.Equal(t, "metadata.annotations[herald.lb/quaranteen]: herald.lb/quaranteen is not an annotation that Herald knows, and is ignored", cfg.Warnings[1].Message)
}

// What older pools have taken of the last good version takes the reservations there with it.
func TestPoolSettingsOfATrimmedVersion(t *testing.T) {
	good := set(config.AnnotationReserve, "192.0.2.7=shop/web,192.0.2.200=shop/api")
	good.Spec.Addresses = good.Spec.Addresses[:1]
	var store config.Store
	require.Empty(t, store.Update(pools(good)).Rejected)
	bad := good.DeepCopy()
	bad.Spec.Addresses = []string{"nope"}
	older := pool("a", "192.0.2.0/25")
	older.CreationTimestamp.Time = older.CreationTimestamp.Add(-time.Hour)
	cfg := store.Update(pools(bad, older))
	require.Len(t, cfg.Rejected, 1)
	requireSound(t, cfg)
	p, _ := cfg.Pool("edge")
	assert.Equal(t, []allocator.Reservation{{Addr: addr(t, "192.0.2.200"), Owner: "shop/api"}}, p.Alloc.Reserve)
}

func TestPoolOfAPoolThatKeeps(t *testing.T) {
	var store config.Store
	cfg := store.Update(pools(set(config.AnnotationDisplaced, "keep"), pool("other", "10.0.0.0/24")))
	for _, tt := range []struct {
		addrs []string
		hint  string
		want  string
	}{
		{[]string{"198.51.100.1"}, "edge", "edge"},
		{[]string{"198.51.100.1", "2001:db8::1"}, "edge", "edge"},
		{[]string{"198.51.100.1"}, "other", ""},
		{[]string{"198.51.100.1"}, "", ""},
		{[]string{"10.0.0.1"}, "edge", "other"},
		{[]string{"10.0.0.1", "2001:db8::1"}, "edge", ""},
		{[]string{"10.0.0.1", "2001:db9::1"}, "edge", ""},
	} {
		p, _ := cfg.PoolOf(addrs(t, tt.addrs...), tt.hint)
		assert.Equal(t, tt.want, p.Name, "%v hint %q", tt.addrs, tt.hint)
	}
}

func TestSamePoolSettings(t *testing.T) {
	assert.True(t, config.SamePoolSettings(set("a", "1"), set("b", "2")))
	assert.False(t, config.SamePoolSettings(set(), set(config.AnnotationDrain, "true")))
	assert.False(t, config.SamePoolSettings(set(config.AnnotationDrain, "false"), set(config.AnnotationDrain, "true")))
}
