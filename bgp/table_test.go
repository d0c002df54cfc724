package bgp_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/bgp"
)

func set(t *testing.T, table *bgp.Table, owner bgp.Owner, routes ...bgp.Route) []bgp.Change {
	t.Helper()
	changes, err := table.Set(owner, routes)
	require.NoError(t, err)
	return changes
}

func prefixes(changes []bgp.Change) []string {
	var list []string
	for _, c := range changes {
		text := c.Prefix.String()
		if len(c.Routes) == 0 {
			text = "-" + text
		}
		list = append(list, text)
	}
	return list
}

func aggregate(t *testing.T, address string, bits int) netip.Prefix {
	t.Helper()
	p, err := bgp.Aggregate(addr(address), bits)
	require.NoError(t, err)
	return p
}

func TestAggregate(t *testing.T) {
	assert.Equal(t, prefix("203.0.113.0/24"), aggregate(t, "203.0.113.77", 24))
	assert.Equal(t, prefix("203.0.113.77/32"), aggregate(t, "::ffff:203.0.113.77", 32))
	assert.Equal(t, prefix("2001:db8::/64"), aggregate(t, "2001:db8::5", 64))
	for _, bits := range []int{-1, 33} {
		_, err := bgp.Aggregate(addr("203.0.113.77"), bits)
		assert.ErrorIs(t, err, bgp.ErrInvalid)
	}
}

// TestTableCounts: an aggregate stays as long as one needs it, and a shared address
// too.
func TestTableCounts(t *testing.T) {
	var table bgp.Table
	agg := bgp.Route{Prefix: aggregate(t, "203.0.113.1", 24)}
	assert.Equal(t, []string{"203.0.113.0/24"}, prefixes(set(t, &table, "s1", agg)))
	assert.Empty(t, set(t, &table, "s2", bgp.Route{Prefix: aggregate(t, "203.0.113.2", 24)}))
	assert.Equal(t, []bgp.Owner{"s1", "s2"}, table.Owners(prefix("203.0.113.0/24")))
	assert.Empty(t, table.Delete("s1"))
	assert.Empty(t, table.Delete("s1"), "twice")
	assert.Equal(t, []string{"-203.0.113.0/24"}, prefixes(table.Delete("s2")))
	assert.Empty(t, table.Routes())

	host := bgp.Route{Prefix: prefix("203.0.113.1/32")}
	set(t, &table, "s1", host, agg)
	set(t, &table, "s2", host)
	assert.Equal(t, []string{"-203.0.113.0/24"}, prefixes(set(t, &table, "s1", host)), "a shorter list of one owner")
	assert.Empty(t, set(t, &table, "s2"), "no endpoints any more")
	assert.Equal(t, []string{"-203.0.113.1/32"}, prefixes(set(t, &table, "s1")))
}

func TestTableMerges(t *testing.T) {
	var table bgp.Table
	net := prefix("203.0.113.0/24")
	set(t, &table, "s1", bgp.Route{Prefix: net, Communities: []bgp.Community{2}})
	changes := set(t, &table, "s2", bgp.Route{Prefix: net, Communities: []bgp.Community{1}}, bgp.Route{Prefix: net, Peers: []string{"tor-a"}, Communities: []bgp.Community{9}})
	require.Len(t, changes, 1)
	assert.Equal(t, []bgp.Route{
		{Prefix: net, Communities: []bgp.Community{1, 2}},
		{Prefix: net, Communities: []bgp.Community{9}, Peers: []string{"tor-a"}},
	}, changes[0].Routes)
	assert.Equal(t, changes[0].Routes, table.Routes())
	assert.Empty(t, table.Conflicts())
	assert.Empty(t, set(t, &table, "s3", bgp.Route{Prefix: net, Communities: []bgp.Community{2}}), "adds nothing")
}

func TestTableConflicts(t *testing.T) {
	var table bgp.Table
	net := prefix("203.0.113.0/24")
	set(t, &table, "s1", bgp.Route{Prefix: net, LocalPref: new(uint32(100)), Peers: []string{"a"}})
	set(t, &table, "s2", bgp.Route{Prefix: net, LocalPref: new(uint32(200)), Peers: []string{"b"}})
	assert.Empty(t, table.Conflicts(), "no peer gets both")
	set(t, &table, "s3", bgp.Route{Prefix: net, LocalPref: new(uint32(100)), Prepend: 1})
	conflicts := table.Conflicts()
	assert.Equal(t, []bgp.Conflict{
		{Prefix: net, Field: "LocalPref", Owners: []bgp.Owner{"s2", "s3"}},
		{Prefix: net, Field: "Prepend", Owners: []bgp.Owner{"s1", "s2", "s3"}},
	}, conflicts)
	assert.Equal(t, "203.0.113.0/24: LocalPref differs between s2, s3", conflicts[0].String())
	got, ok := bgp.Merge("b", table.Routes())
	require.True(t, ok)
	assert.Equal(t, uint32(200), *got.LocalPref)
}

func TestTableError(t *testing.T) {
	var table bgp.Table
	set(t, &table, "s1", bgp.Route{Prefix: prefix("203.0.113.1/32")})
	_, err := table.Set("s1", []bgp.Route{{Prefix: prefix("203.0.113.2/32")}, {}})
	require.ErrorIs(t, err, bgp.ErrInvalid)
	assert.Contains(t, err.Error(), `"s1"`)
	assert.Equal(t, prefix("203.0.113.1/32"), table.Routes()[0].Prefix, "nothing has changed")
}

// TestTableDependsOnContentOnly: whatever happened before, the table is as if the
// present owners had come in some order into an empty one; and who follows the
// changes has what Routes returns.
func TestTableDependsOnContentOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table bgp.Table
		content := make(map[bgp.Owner][]bgp.Route)
		follower := make(map[netip.Prefix][]bgp.Route)
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			owner := bgp.Owner(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "owner"))
			var routes []bgp.Route
			for range rapid.IntRange(0, 3).Draw(t, "n") {
				routes = append(routes, drawRoute(t, "r"))
			}
			changes, err := table.Set(owner, routes)
			if err != nil {
				t.Fatal(err)
			}
			content[owner] = routes
			for _, c := range changes {
				if slices.EqualFunc(follower[c.Prefix], c.Routes, func(a, b bgp.Route) bool { return a.Equal(&b) }) {
					t.Fatalf("no change: %+v", c)
				}
				follower[c.Prefix] = c.Routes
			}
		}
		var fresh bgp.Table
		owners := slices.Collect(maps.Keys(content))
		rand.Shuffle(len(owners), func(i, j int) { owners[i], owners[j] = owners[j], owners[i] })
		for _, o := range owners {
			if _, err := fresh.Set(o, content[o]); err != nil {
				t.Fatal(err)
			}
		}
		equal := func(a, b bgp.Route) bool { return a.Equal(&b) }
		if !slices.EqualFunc(table.Routes(), fresh.Routes(), equal) {
			t.Fatalf("by history:\n%+v\nfresh:\n%+v", table.Routes(), fresh.Routes())
		}
		var followed []bgp.Route
		for _, p := range slices.SortedFunc(maps.Keys(follower), netip.Prefix.Compare) {
			followed = append(followed, follower[p]...)
		}
		if !slices.EqualFunc(table.Routes(), followed, equal) {
			t.Fatalf("by changes:\n%+v\ntable:\n%+v", followed, table.Routes())
		}
	})
}

// TestTableMatchesMerge: what a peer gets of the table is the merge of everything
// that selects it.
func TestTableMatchesMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table bgp.Table
		all := make(map[netip.Prefix][]bgp.Route)
		for i := range rapid.IntRange(1, 6).Draw(t, "owners") {
			drawn := drawRoute(t, "r")
			r := drawn.Normalize()
			all[r.Prefix] = append(all[r.Prefix], r)
			if _, err := table.Set(bgp.Owner(rune('a'+i)), []bgp.Route{r}); err != nil {
				t.Fatal(err)
			}
		}
		held := make(map[netip.Prefix][]bgp.Route)
		for _, r := range table.Routes() {
			held[r.Prefix] = append(held[r.Prefix], r)
		}
		for _, peer := range []string{"a", "b", "nobody"} {
			for p := range all {
				want, wantOK := bgp.Merge(peer, all[p])
				got, ok := bgp.Merge(peer, held[p])
				if ok != wantOK || !got.Equal(&want) {
					t.Fatalf("peer %s: %+v, want %+v", peer, got, want)
				}
			}
		}
	})
}

func BenchmarkTableSet(b *testing.B) {
	for _, n := range []int{10, 50_000} {
		b.Run("prefixes="+map[int]string{10: "10", 50_000: "50000"}[n], func(b *testing.B) {
			var table bgp.Table
			for i := range n {
				host := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
				if _, err := table.Set(bgp.Owner(host.String()), []bgp.Route{{Prefix: netip.PrefixFrom(host, 32)}}); err != nil {
					b.Fatal(err)
				}
			}
			one := []bgp.Route{{Prefix: prefix("10.0.0.3/32")}}
			b.ReportAllocs()
			for i := uint32(0); b.Loop(); i++ {
				one[0].LocalPref = &i
				if changes, err := table.Set("10.0.0.3", one); err != nil || len(changes) > 1 {
					b.Fatal(changes, err)
				}
			}
		})
	}
}
