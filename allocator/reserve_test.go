package allocator

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func reserve(pairs ...string) []Reservation {
	var list []Reservation
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Reservation{netip.MustParseAddr(pairs[i]), Owner(pairs[i+1])})
	}
	return list
}

func TestReserve(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/125"), Reserve: reserve("10.44.0.0", "vip", "fd44::3", "vip")}
	runScenarios(t, []scenario{
		{
			name: "others are given none of it", pools: []Pool{p},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.1"}},
				{req: want("a", at("10.44.0.0")), is: ErrConflict, text: "assign a: 10.44.0.0 is reserved for vip"},
				{req: want("vip"), want: []string{"10.44.0.0"}},
				{req: want("vip"), release: true},
				{req: want("b"), want: []string{"10.44.0.2"}},
				{req: want("vip", both), want: []string{"10.44.0.0", "fd44::3"}},
			},
		},
		{
			name: "the owner may want another one", pools: []Pool{p},
			steps: []step{
				{req: want("vip", at("10.44.0.5")), want: []string{"10.44.0.5"}},
				{req: want("vip"), want: []string{"10.44.0.5"}},
				{req: want("vip", at("10.44.0.0")), want: []string{"10.44.0.0"}},
			},
		},
		{
			name: "completes a pair", pools: []Pool{p},
			steps: []step{
				{req: want("vip"), want: []string{"10.44.0.0"}},
				{req: want("vip", prefer), want: []string{"10.44.0.0", "fd44::3"}},
			},
		},
		{
			name: "with a fresh address of the other family",
			pools: []Pool{
				{Name: "a", Ranges: mustRanges(t, "10.1.0.0/30", "fd01::/126")},
				{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30", "fd44::/126"), Reserve: reserve("fd44::2", "vip")},
			},
			steps: []step{
				{req: want("x", both), want: []string{"10.1.0.0", "fd01::"}, pool: "a"},
				{req: want("vip", both), want: []string{"10.44.0.0", "fd44::2"}},
			},
		},
		{
			name: "from a manual pool, before all others",
			pools: []Pool{
				{Name: "a", Ranges: mustRanges(t, "10.1.0.0/30")},
				{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30"), Manual: true, Reserve: reserve("10.44.0.3", "vip")},
			},
			steps: []step{{req: want("vip"), want: []string{"10.44.0.3"}}},
		},
		{
			name: "scope and named pool bind",
			pools: []Pool{
				{Name: "a", Ranges: mustRanges(t, "10.1.0.0/30")},
				{Name: "s", Ranges: mustRanges(t, "10.2.0.0/30"), Scope: &Scope{Namespaces: []string{"shop"}}, Reserve: reserve("10.2.0.3", "vip")},
			},
			steps: []step{
				{req: want("vip"), want: []string{"10.1.0.0"}, pool: "a"},
				{req: want("vip"), release: true},
				{req: want("vip", in("shop"), from("a")), want: []string{"10.1.0.0"}, pool: "a"},
				{req: want("vip"), release: true},
				{req: want("vip", in("shop")), want: []string{"10.2.0.3"}, pool: "s"},
			},
		},
		{
			name:  "two owners that share",
			pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29"), Reserve: reserve("10.44.0.4", "udp", "10.44.0.4", "tcp")}},
			steps: []step{
				{req: want("other", key("dns"), tcp(853)), want: []string{"10.44.0.0"}},
				{req: want("udp", key("dns"), udp(53)), want: []string{"10.44.0.4"}},
				{req: want("tcp", key("dns"), tcp(53)), want: []string{"10.44.0.4"}},
				{req: want("third", key("dns"), tcp(54), at("10.44.0.4")), is: ErrConflict, text: "10.44.0.4 is reserved for udp"},
				{req: want("fourth", key("dns"), tcp(853)), want: []string{"10.44.0.1"}},
			},
		},
		{
			name:  "nothing left but what is reserved",
			pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/32"), Reserve: reserve("10.44.0.0", "vip")}},
			steps: []step{{req: want("a"), is: ErrExhausted, text: `pool "p": no free IPv4 address, but some that are reserved or rest in quarantine`}},
		},
	})
}

// A holder stays when its address becomes reserved for somebody else.
func TestReserveHeld(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30")}
	a := newTest(t, p)
	mustAssign(t, a, want("a"))
	p.Reserve = reserve("10.44.0.0", "vip", "10.44.0.1", "vip")
	_, err := a.SetPools([]Pool{p})
	require.NoError(t, err)
	assert.Equal(t, addrs("10.44.0.0"), mustAssign(t, a, want("a")).Addrs)
	assert.Equal(t, addrs("10.44.0.1"), mustAssign(t, a, want("vip")).Addrs)
	assert.Equal(t, Count{4, 2, 2, 0}, usageOf(t, a, "p").V4)
	a.Release("a")
	assert.Equal(t, Count{4, 1, 2, 1}, usageOf(t, a, "p").V4)
	assert.Equal(t, addrs("10.44.0.2"), mustAssign(t, a, want("a")).Addrs)

	// What the record says is held, reserved or not.
	_, err = a.Adopt(Request{Owner: "old"}, addrs("10.44.0.0"))
	require.NoError(t, err)
	p.Reserve = nil
	_, err = a.SetPools([]Pool{p})
	require.NoError(t, err)
	assert.Equal(t, Count{4, 3, 1, 0}, usageOf(t, a, "p").V4)
}

func usageOf(t *testing.T, a *Allocator, pool string) Usage {
	t.Helper()
	u, ok := a.Usage(pool)
	require.True(t, ok)
	return u
}

func TestExclude(t *testing.T) {
	p := Pool{
		Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/126"),
		Exclude: mustRanges(t, "10.44.0.0-10.44.0.1", "10.44.0.3/32", "10.44.0.6-10.44.0.9", "fd44::/128", "192.0.2.0/24"),
	}
	runScenarios(t, []scenario{{
		name: "never given", pools: []Pool{p},
		steps: []step{
			{req: want("a", both), want: []string{"10.44.0.2", "fd44::1"}},
			{req: want("b"), want: []string{"10.44.0.4"}},
			{req: want("c"), want: []string{"10.44.0.5"}},
			{req: want("d"), is: ErrExhausted},
			{req: want("d", at("10.44.0.3")), is: ErrNotInPool, text: `pool "p" excludes 10.44.0.3`},
			{req: want("d", at("192.0.2.1")), is: ErrNotInPool, text: "no pool contains 192.0.2.1"},
		},
	}})
	a := newTest(t, Pool{Name: "p", Ranges: p.Ranges})
	for _, o := range []Owner{"a", "b", "c"} {
		mustAssign(t, a, want(o))
	}
	displaced, err := a.SetPools([]Pool{p})
	require.NoError(t, err)
	require.Len(t, displaced, 2)
	assert.Equal(t, Owner("a"), displaced[0].Owner)
	assert.EqualError(t, displaced[0].Why, `address not in pool: pool "p" excludes 10.44.0.0`)
	requireHeld(t, a, "c", "p", "10.44.0.2")
	assert.Equal(t, Usage{Count{3, 1, 2, 0}, Count{3, 0, 3, 0}}, usageOf(t, a, "p"))
	_, err = a.Adopt(Request{Owner: "a"}, addrs("10.44.0.0"))
	require.ErrorIs(t, err, ErrNotInPool)
}

func TestDrain(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/125"), Reserve: reserve("10.44.0.5", "vip")}
	a := newTest(t, p)
	mustAssign(t, a, want("a", key("k"), tcp(1)))
	mustAssign(t, a, want("gone"))
	p.Drain = true
	_, err := a.SetPools([]Pool{p})
	require.NoError(t, err)
	assert.Equal(t, addrs("10.44.0.0"), mustAssign(t, a, want("a", key("k"), tcp(2))).Addrs, "kept, and refreshed")
	assert.Equal(t, addrs("10.44.0.0"), mustAssign(t, a, want("a", key("k"), tcp(2), prefer)).Addrs, "not completed")
	a.Release("gone")
	for name, req := range map[string]Request{
		"any": want("b"), "reserved": want("vip"), "shared": want("b", key("k"), tcp(3)),
	} {
		_, err := a.Assign(req)
		require.ErrorIs(t, err, ErrNoPool, name)
		assert.Contains(t, err.Error(), `no pool serves the request: pool "p": is being drained, gives nothing new`)
	}
	for name, req := range map[string]Request{
		"named": want("b", from("p")), "address": want("b", at("10.44.0.4")), "shared": want("b", key("k"), tcp(3), at("10.44.0.0")),
	} {
		_, err := a.Assign(req)
		require.ErrorIs(t, err, ErrDrained, name)
		assert.Equal(t, ReasonDrained, a.Explain(req)[0].Reason, name)
	}
	_, err = a.Adopt(Request{Owner: "b"}, addrs("10.44.0.4"))
	require.NoError(t, err, "what is held is held")
}
