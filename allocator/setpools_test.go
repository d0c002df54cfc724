package allocator

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplacePools(t *testing.T) {
	v4 := mustRanges(t, "192.0.2.0/24")
	old := Pool{Name: "p", Ranges: v4}
	edit := func(f func(*Pool)) []Pool { p := old; f(&p); return []Pool{p} }
	for _, tt := range []struct {
		name  string
		held  string
		pools []Pool
		pool  string // after it; none: displaced
		why   string
	}{
		{name: "grows", held: "192.0.2.9", pools: edit(func(p *Pool) { p.Ranges = mustRanges(t, "192.0.0.0/16") }), pool: "p"},
		{name: "another pool comes", held: "192.0.2.9", pools: []Pool{old, {Name: "a", Ranges: mustRanges(t, "10.0.0.0/8")}}, pool: "p"},
		{name: "shrinks around it", held: "192.0.2.9", pools: edit(func(p *Pool) { p.Ranges = mustRanges(t, "192.0.2.9/32") }), pool: "p"},
		{name: "shrinks away", held: "192.0.2.9", pools: edit(func(p *Pool) { p.Ranges = mustRanges(t, "192.0.2.0/29") }), why: "no pool contains 192.0.2.9"},
		{name: "moves away, metallb#2449", held: "192.0.2.5", pools: edit(func(p *Pool) { p.Ranges = mustRanges(t, "198.51.100.0/24") }), why: "no pool contains 192.0.2.5"},
		{name: "is renamed", held: "192.0.2.9", pools: edit(func(p *Pool) { p.Name = "q" }), pool: "q"},
		{name: "gives the range to another", held: "192.0.2.9", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.0.0.0/8")}, {Name: "q", Ranges: v4}}, pool: "q"},
		{name: "avoids buggy ones", held: "192.0.2.255", pools: edit(func(p *Pool) { p.AvoidBuggyIPs = true }), why: `pool "p" leaves out 192.0.2.255`},
		{name: "avoids other buggy ones", held: "192.0.2.9", pools: edit(func(p *Pool) { p.AvoidBuggyIPs = true }), pool: "p"},
		{name: "gets a scope without the owner", held: "192.0.2.9", pools: edit(func(p *Pool) { p.Scope = &Scope{} }), pool: "p"},
		{name: "becomes manual", held: "192.0.2.9", pools: edit(func(p *Pool) { p.Manual = true }), pool: "p"},
		{name: "becomes opaque", held: "192.0.2.9", pools: []Pool{{Name: "p", Opaque: true}}, pool: "p"},
		{name: "another opaque pool", held: "192.0.2.9", pools: []Pool{{Name: "q", Opaque: true}}, why: `pool "p" was removed: address not in pool: no pool contains 192.0.2.9`},
		{name: "is removed", held: "192.0.2.9", why: `pool "p" was removed`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newTest(t, old)
			req := want("a", at(tt.held))
			mustAssign(t, a, req)
			change, err := a.ReplacePools(tt.pools)
			require.NoError(t, err)
			if tt.pool == "" {
				require.Len(t, change.Displaced, 1)
				d := change.Displaced[0]
				assert.Equal(t, Assignment{"a", "p", addrs(tt.held)}, d.Assignment)
				require.ErrorIs(t, d.Why, ErrNotInPool)
				assert.Contains(t, d.Why.Error(), tt.why)
				requireHeld(t, a, "a", "")
				return
			}
			assert.Empty(t, change.Displaced)
			requireHeld(t, a, "a", tt.pool, tt.held)
			if tt.pool == "p" {
				assert.Empty(t, change.Renamed)
			} else {
				assert.Equal(t, []Renamed{{Assignment{"a", tt.pool, addrs(tt.held)}, "p"}}, change.Renamed)
			}
			// It is kept, and still nobody else's.
			assert.Equal(t, tt.pool, mustAssign(t, a, want("a")).Pool)
			_, err = a.Assign(want("b", at(tt.held)))
			require.Error(t, err)
			usage, _ := a.Usage(tt.pool)
			assert.Equal(t, int64(1), usage.V4.Used)
		})
	}
}

func TestReplacePoolsDualStack(t *testing.T) {
	pair := mustRanges(t, "10.44.0.0/30", "fd44::/126")
	for _, tt := range []struct {
		name  string
		pools []Pool
		want  []string // after the next Assign, from pool q if empty
	}{
		{"loses one family, another pool has both", []Pool{{Name: "p", Ranges: pair[1:]}, {Name: "q", Ranges: mustRanges(t, "10.45.0.0/30", "fd45::/126")}}, []string{"10.45.0.0", "fd45::"}},
		{"is split in two", []Pool{{Name: "p", Ranges: pair[:1]}, {Name: "q", Ranges: pair[1:]}}, []string{"10.44.0.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newTest(t, Pool{Name: "p", Ranges: pair})
			mustAssign(t, a, want("a", prefer))
			displaced, err := a.SetPools(tt.pools)
			require.NoError(t, err)
			require.Len(t, displaced, 1)
			assert.Equal(t, addrs(tt.want...), mustAssign(t, a, want("a", prefer)).Addrs)
		})
	}
	t.Run("gains a family: the first address stays", func(t *testing.T) {
		a := newTest(t, Pool{Name: "p", Ranges: pair[:1]})
		mustAssign(t, a, want("x"))
		mustAssign(t, a, want("a", prefer))
		mustAssign(t, a, want("s", prefer, key("k"), tcp(1)))
		mustAssign(t, a, want("t", prefer, key("k"), tcp(2)))
		a.Release("x")
		displaced, err := a.SetPools([]Pool{{Name: "p", Ranges: pair}})
		require.NoError(t, err)
		require.Empty(t, displaced)
		for range 3 {
			assert.Equal(t, addrs("10.44.0.1", "fd44::"), mustAssign(t, a, want("a", prefer)).Addrs)
			assert.Equal(t, addrs("10.44.0.2", "fd44::1"), mustAssign(t, a, want("s", prefer, key("k"), tcp(1))).Addrs)
			assert.Equal(t, addrs("10.44.0.2", "fd44::1"), mustAssign(t, a, want("t", prefer, key("k"), tcp(2))).Addrs)
		}
	})
}

func TestReplacePoolsKeepsSharing(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29")})
	for i := range 3 {
		mustAssign(t, a, want(Owner(fmt.Sprint("o", i)), at("10.44.0.5"), key("k"), tcp(uint16(i))))
	}
	mustAssign(t, a, want("other", at("10.44.0.6"), key("k"), tcp(0)))
	// The order of the group's addresses follows the order of the ranges.
	change, err := a.ReplacePools([]Pool{{Name: "q", Ranges: mustRanges(t, "10.44.0.6/31", "10.44.0.4/31")}})
	require.NoError(t, err)
	require.Empty(t, change.Displaced)
	require.Len(t, change.Renamed, 4)
	assert.Equal(t, addrs("10.44.0.6"), mustAssign(t, a, want("n", key("k"), tcp(9))).Addrs)
	usage, _ := a.Usage("q")
	assert.Equal(t, Count{4, 2, 2, 0}, usage.V4)
	_, err = a.Assign(want("m", at("10.44.0.5"), key("k"), tcp(1)))
	require.ErrorContains(t, err, "port TCP/1 of 10.44.0.5 is in use by o1")

	// One address of the group is lost with all its members, the other stays.
	displaced, err := a.SetPools([]Pool{{Name: "q", Ranges: mustRanges(t, "10.44.0.6/31")}})
	require.NoError(t, err)
	var owners []Owner
	for _, d := range displaced {
		owners = append(owners, d.Owner)
	}
	assert.Equal(t, []Owner{"o0", "o1", "o2"}, owners, "in order")
	assert.Equal(t, addrs("10.44.0.6"), mustAssign(t, a, want("o1", key("k"), tcp(1))).Addrs)
}

func TestReplacePoolsRefuses(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30")})
	mustAssign(t, a, want("a"))
	bad := []Pool{
		{Name: "q", Ranges: mustRanges(t, "10.45.0.0/30", "10.45.0.0/32"), Priority: -1},
		{Name: "r", Ranges: mustRanges(t, "10.46.0.0/30")},
		{Name: "s", Ranges: mustRanges(t, "10.46.0.1/32")},
	}
	change, err := a.ReplacePools(bad)
	require.ErrorIs(t, err, ErrPoolPriority)
	require.ErrorIs(t, err, ErrPoolOverlap)
	assert.Contains(t, err.Error(), `pool "s": range 10.46.0.1/32 overlaps 10.46.0.0/30 of pool "r"`)
	assert.Zero(t, change)
	_, err = a.SetPools(bad)
	require.Error(t, err)
	requireHeld(t, a, "a", "p", "10.44.0.0")
	assert.Equal(t, addrs("10.44.0.1"), mustAssign(t, a, want("b")).Addrs)
	_, ok := a.Usage("r")
	assert.False(t, ok)
}

// The only version of a pool is a rejected one: its holders are adopted under
// its name, nothing new is given, and a good version takes them over.
func TestOpaquePool(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Opaque: true}, Pool{Name: "q", Opaque: true}, Pool{Name: "r", Ranges: mustRanges(t, "198.51.100.0/24")})
	claim := func(owner Owner, pool string, texts ...string) error {
		req := want(owner, key("k"))
		req.Claim = pool
		_, err := a.Adopt(req, addrs(texts...))
		return err
	}
	require.NoError(t, claim("a", "p", "192.0.2.5"))
	require.NoError(t, claim("b", "p", "192.0.2.5", "fd44::5"))
	require.ErrorIs(t, claim("c", "q", "192.0.2.5"), ErrNotInPool)
	require.NoError(t, claim("c", "p", "198.51.100.7"))
	requireHeld(t, a, "c", "r", "198.51.100.7")
	usage, _ := a.Usage("p")
	assert.Equal(t, Usage{Count{1, 1, 0, 0}, Count{1, 1, 0, 0}}, usage)

	assert.Equal(t, "p", mustAssign(t, a, want("a", key("k"))).Pool, "kept")
	assert.Equal(t, "r", mustAssign(t, a, want("d", key("k"))).Pool, "not joined")
	assert.Equal(t, addrs("192.0.2.5"), mustAssign(t, a, want("a", key("k"), prefer)).Addrs, "not completed")

	change, err := a.ReplacePools([]Pool{{Name: "p", Opaque: true}, {Name: "r", Ranges: mustRanges(t, "198.51.100.0/24", "192.0.2.0/24")}})
	require.NoError(t, err)
	require.Len(t, change.Displaced, 1, "b's pair is in no single pool")
	assert.Equal(t, Owner("b"), change.Displaced[0].Owner)
	assert.Equal(t, []Renamed{{Assignment{"a", "r", addrs("192.0.2.5")}, "p"}}, change.Renamed)
	usage, _ = a.Usage("p")
	assert.Equal(t, Usage{}, usage)
	usage, _ = a.Usage("r")
	assert.Equal(t, int64(2), usage.V4.Used)

	change, err = a.ReplacePools([]Pool{{Name: "r", Opaque: true}})
	require.NoError(t, err)
	require.Empty(t, change.Displaced)
	a.Release("a")
	a.Release("c")
	a.Release("d")
	usage, _ = a.Usage("r")
	assert.Equal(t, Usage{}, usage)
}

func TestReplacePoolsLogs(t *testing.T) {
	var text bytes.Buffer
	a, err := New(Config{
		Pools:  []Pool{{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")}},
		Logger: slog.New(slog.NewTextHandler(&text, nil)),
	})
	require.NoError(t, err)
	mustAssign(t, a, want("shop/web"))
	assert.Empty(t, text.String())
	_, err = a.SetPools(nil)
	require.NoError(t, err)
	assert.Contains(t, text.String(), "owner=shop/web addrs=[192.0.2.0] pool=p")
	assert.Contains(t, text.String(), "displaced=1")
}
