package allocator

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// step is one Assign of a scenario and what must come of it.
type step struct {
	req     Request
	want    []string // addresses; none: an error
	pool    string   // "p" if empty
	is      error
	text    string // part of the error
	release bool   // instead of Assign
}

type scenario struct {
	name  string
	pools []Pool
	steps []step
}

func (s scenario) run(t *testing.T) {
	a := newTest(t, s.pools...)
	for i, st := range s.steps {
		if st.release {
			_, ok := a.Release(st.req.Owner)
			require.True(t, ok, "step %d", i)
			continue
		}
		before, held := a.Get(st.req.Owner)
		as, err := a.Assign(st.req)
		if len(st.want) == 0 {
			require.ErrorIs(t, err, st.is, "step %d: %v", i, as)
			assert.Contains(t, err.Error(), st.text, "step %d", i)
			after, still := a.Get(st.req.Owner)
			require.Equal(t, held, still, "step %d", i)
			require.Equal(t, before, after, "step %d: an error changes nothing", i)
			continue
		}
		require.NoError(t, err, "step %d", i)
		pool := st.pool
		if pool == "" {
			pool = "p"
		}
		require.Equal(t, Assignment{st.req.Owner, pool, addrs(st.want...)}, as, "step %d", i)
		requireHeld(t, a, st.req.Owner, pool, st.want...)
	}
}

func runScenarios(t *testing.T, list []scenario) {
	for _, s := range list {
		t.Run(s.name, s.run)
	}
}

func TestAssignOneAddress(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/125")}
	runScenarios(t, []scenario{
		{
			name: "again with the same input", pools: []Pool{p},
			steps: []step{{req: want("a", at("10.44.0.1")), want: []string{"10.44.0.1"}}, {req: want("a", at("10.44.0.1")), want: []string{"10.44.0.1"}}},
		},
		{
			name: "somebody else's address", pools: []Pool{p},
			steps: []step{
				{req: want("a", at("10.44.0.1")), want: []string{"10.44.0.1"}},
				{req: want("b", at("10.44.0.1")), is: ErrConflict, text: "assign b: 10.44.0.1 is in use by a"},
				{req: want("a"), release: true},
				{req: want("b", at("10.44.0.1")), want: []string{"10.44.0.1"}},
			},
		},
		{
			name: "order of the ranges, then ascending", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.9.0/31", "10.44.0.0/31")}},
			steps: []step{
				{req: want("a"), want: []string{"10.44.9.0"}},
				{req: want("b"), want: []string{"10.44.9.1"}},
				{req: want("c"), want: []string{"10.44.0.0"}},
				{req: want("a"), release: true},
				{req: want("d"), want: []string{"10.44.9.0"}},
				{req: want("e"), want: []string{"10.44.0.1"}},
				{req: want("f"), is: ErrExhausted, text: `assign f: no free address: pool "p": no free IPv4 address`},
			},
		},
		{
			name: "holder keeps a higher address when a lower one gets free", pools: []Pool{p},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.0"}},
				{req: want("b"), want: []string{"10.44.0.1"}},
				{req: want("a"), release: true},
				{req: want("b"), want: []string{"10.44.0.1"}},
			},
		},
		{
			name: "explicit wish moves and frees", pools: []Pool{p},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.0"}},
				{req: want("a", at("10.44.0.5")), want: []string{"10.44.0.5"}},
				{req: want("b"), want: []string{"10.44.0.0"}},
				{req: want("a"), want: []string{"10.44.0.5"}},
			},
		},
		{
			name: "outside of all pools", pools: []Pool{p},
			steps: []step{{req: want("a", at("203.0.113.9")), is: ErrNotInPool, text: "no pool contains 203.0.113.9"}},
		},
		{
			name: "no pool at all",
			steps: []step{
				{req: want("a"), is: ErrNoPool, text: "no pool is configured"},
				{req: want("a", from("q")), is: ErrNoPool, text: `no pool: "q" does not exist`},
			},
		},
		{
			name: "family of the cluster IP changes", pools: []Pool{p},
			steps: []step{
				{req: want("a", only(IPv6)), want: []string{"fd44::"}},
				{req: want("a"), want: []string{"10.44.0.0"}},
				{req: want("b", only(IPv6)), want: []string{"fd44::"}},
			},
		},
		{
			name: "buggy addresses", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.254-10.44.1.1"), AvoidBuggyIPs: true}},
			steps: []step{
				{req: want("a", at("10.44.0.255")), is: ErrNotInPool, text: `pool "p" leaves out 10.44.0.255`},
				{req: want("a", at("10.44.1.0")), is: ErrNotInPool, text: `pool "p" leaves out 10.44.1.0`},
				{req: want("a"), want: []string{"10.44.0.254"}},
				{req: want("b"), want: []string{"10.44.1.1"}},
				{req: want("c"), is: ErrExhausted},
			},
		},
		{
			name: "buggy /31", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/31"), AvoidBuggyIPs: true}},
			steps: []step{{req: want("a"), want: []string{"10.44.0.1"}}, {req: want("b"), is: ErrExhausted}},
		},
		{
			name: "nothing but buggy ones", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/32"), AvoidBuggyIPs: true}},
			steps: []step{{req: want("a"), is: ErrFamily, text: `pool "p": no IPv4 addresses`}},
		},
		{
			name: "huge pool", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "2001:db8::/32")}},
			steps: []step{
				{req: want("a", only(IPv6)), want: []string{"2001:db8::"}},
				{req: want("b", at("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")), want: []string{"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"}},
				{req: want("c", at("2001:db8::1")), want: []string{"2001:db8::1"}},
				{req: want("d", only(IPv6)), want: []string{"2001:db8::2"}},
			},
		},
	})
}

func TestAssignPoolAndAddress(t *testing.T) {
	pools := []Pool{
		{Name: "p", Ranges: mustRanges(t, "192.0.2.0/30")},
		{Name: "q", Ranges: mustRanges(t, "198.51.100.0/31")},
		{Name: "v6", Ranges: mustRanges(t, "fd44::/126")},
	}
	runScenarios(t, []scenario{
		{
			name: "pool", pools: pools,
			steps: []step{{req: want("a", from("q")), want: []string{"198.51.100.0"}, pool: "q"}},
		},
		{
			name: "address in the named pool", pools: pools,
			steps: []step{{req: want("a", from("q"), at("198.51.100.1")), want: []string{"198.51.100.1"}, pool: "q"}},
		},
		{
			name: "address in another pool", pools: pools,
			steps: []step{
				{req: want("a", from("q"), at("192.0.2.1")), is: ErrNotInPool, text: `192.0.2.1 is in pool "p", not in pool "q" as requested`},
				{req: want("a", at("192.0.2.1")), want: []string{"192.0.2.1"}},
				{req: want("a", from("q"), at("192.0.2.1")), is: ErrNotInPool, text: `192.0.2.1 is in pool "p"`},
			},
		},
		{
			name: "unknown pool", pools: pools,
			steps: []step{{req: want("a", from("x")), is: ErrNoPool, text: `"x" does not exist`}},
		},
		{
			name: "pool without the family", pools: pools,
			steps: []step{{req: want("a", only(IPv6), from("p")), is: ErrFamily, text: `pool "p": no IPv6 addresses`}},
		},
		{
			name: "full named pool, no fall-back", pools: pools,
			steps: []step{
				{req: want("a", from("q")), want: []string{"198.51.100.0"}, pool: "q"},
				{req: want("b", from("q")), want: []string{"198.51.100.1"}, pool: "q"},
				{req: want("c"), want: []string{"192.0.2.0"}},
				{req: want("c", from("q")), is: ErrExhausted, text: `no free address: pool "q": no free IPv4 address`},
			},
		},
		{
			name: "two addresses of one family", pools: pools,
			steps: []step{{req: want("a", at("192.0.2.1", "192.0.2.2")), is: ErrInvalid, text: "of one family"}},
		},
		{
			name: "one address twice", pools: pools,
			steps: []step{{req: want("a", at("192.0.2.1", "192.0.2.1")), is: ErrInvalid, text: "of one family"}},
		},
		{
			name: "three addresses", pools: pools,
			steps: []step{{req: want("a", at("192.0.2.1", "fd44::1", "fd44::2")), is: ErrInvalid, text: "3 addresses"}},
		},
		{
			name: "pair from two pools", pools: pools,
			steps: []step{{req: want("a", at("192.0.2.1", "fd44::1")), is: ErrNotInPool, text: `no single pool contains 192.0.2.1 (pool "p") and fd44::1 (pool "v6")`}},
		},
	})
}

func TestAssignRejects(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24", "::/64")})
	for _, tt := range []struct {
		name string
		req  Request
		is   error
		text string
	}{
		{"no owner", want(""), ErrInvalid, "no owner"},
		{"no family", want("a", only()), ErrFamily, "no address family"},
		{"bad family", want("a", only(5)), ErrFamily, "Family(5)"},
		{"family twice", want("a", only(IPv4, IPv4)), ErrFamily, "IPv4 twice"},
		{"three families", want("a", only(IPv4, IPv6, IPv4)), ErrFamily, "3 address families"},
		{"zero address", Request{Owner: "a", Addresses: make([]netip.Addr, 1)}, ErrInvalid, "zero address"},
		{"zone", want("a", at("fe80::1%eth0")), ErrInvalid, "zone"},
		{"mapped", want("a", at("::ffff:192.0.2.5")), ErrInvalid, "IPv4-mapped"},
		{"other family", want("a", at("192.0.2.5"), only(IPv6)), ErrFamily, "192.0.2.5 is not IPv6"},
		{"one address for two families", want("a", at("192.0.2.5"), both), ErrFamily, "IPv4 and IPv6 are wanted, but only 192.0.2.5 is named"},
		{"one address for two preferred families", want("a", at("192.0.2.5"), prefer), ErrFamily, "only 192.0.2.5 is named"},
		{"two addresses for one family", want("a", at("192.0.2.5", "::5"), only(IPv4)), ErrFamily, "::5 is not IPv4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := a.Assign(tt.req)
			require.ErrorIs(t, err, tt.is)
			assert.Contains(t, err.Error(), tt.text)
			assert.Empty(t, a.Explain(tt.req))
		})
	}
	for range a.All() {
		t.Fatal("something is held")
	}
}

func TestAdoptRejects(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24", "2001:db8::/64"), AvoidBuggyIPs: true}, Pool{Name: "o", Opaque: true})
	mustAssign(t, a, want("holder", at("192.0.2.9")))
	for _, tt := range []struct {
		name  string
		req   Request
		addrs []string
		is    error
		text  string
	}{
		{"no owner", want(""), []string{"192.0.2.1"}, ErrInvalid, "no owner"},
		{"nothing", want("a"), nil, ErrInvalid, "no address to adopt"},
		{"two of a family", want("a"), []string{"192.0.2.1", "192.0.2.2"}, ErrInvalid, "of one family"},
		{"three", want("a"), []string{"192.0.2.1", "2001:db8::1", "192.0.2.2"}, ErrInvalid, "3 addresses"},
		{"mapped", want("a"), []string{"::ffff:192.0.2.1"}, ErrInvalid, "IPv4-mapped"},
		{"outside", want("a"), []string{"203.0.113.1"}, ErrNotInPool, "no pool contains 203.0.113.1"},
		{"buggy", want("a"), []string{"192.0.2.0"}, ErrNotInPool, "leaves out 192.0.2.0"},
		{"half outside", want("a", from("o")), []string{"192.0.2.1", "2001:db8:1::"}, ErrNotInPool, "no pool contains 2001:db8:1::"},
		{"claims a pool that is not opaque", want("a", from("p")), []string{"203.0.113.1"}, ErrNotInPool, "no pool contains"},
		{"held", want("a"), []string{"192.0.2.9"}, ErrConflict, "192.0.2.9 is in use by holder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := a.Adopt(tt.req, addrs(tt.addrs...))
			require.ErrorIs(t, err, tt.is)
			assert.Contains(t, err.Error(), tt.text)
			_, held := a.Get("a")
			assert.False(t, held)
		})
	}
}

func TestRelease(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.1/32")})
	_, ok := a.Release("a")
	assert.False(t, ok)
	held := mustAssign(t, a, want("a"))
	gone, ok := a.Release("a")
	assert.True(t, ok)
	assert.Equal(t, held, gone)
	_, ok = a.Release("a")
	assert.False(t, ok)
	requireHeld(t, a, "a", "p")
}

// What a caller does with a result or its own arguments does not reach inside.
func TestNothingIsAliased(t *testing.T) {
	pool := Pool{
		Name: "p", Ranges: mustRanges(t, "192.0.2.0/30"),
		Scope: &Scope{Namespaces: []string{"z", "default"}},
	}
	a := newTest(t, pool)
	assert.Equal(t, []string{"z", "default"}, pool.Scope.Namespaces)
	pool.Ranges[0] = Range{}
	pool.Scope.Namespaces[1] = "other"
	req := want("a", key("k"), tcp(80), at("192.0.2.1"))
	as := mustAssign(t, a, req)
	req.Ports[0].Number = 81
	req.Addresses[0] = addrs("192.0.2.2")[0]
	as.Addrs[0] = addrs("192.0.2.3")[0]
	requireHeld(t, a, "a", "p", "192.0.2.1")
	_, err := a.Assign(want("b", key("k"), tcp(80), at("192.0.2.1")))
	require.ErrorIs(t, err, ErrConflict)
	mustAssign(t, a, want("b", key("k"), tcp(81), at("192.0.2.1")))
}

func TestAll(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")})
	mustAssign(t, a, want("a"))
	mustAssign(t, a, want("b"))
	mustAssign(t, a, want("c"))
	got := map[Owner]Assignment{}
	for owner, as := range a.All() {
		got[owner] = as
		assert.Equal(t, owner, as.Owner)
		if len(got) == 1 {
			// The loop may change what it runs over.
			for _, o := range []Owner{"a", "b", "c"} {
				if o != owner {
					a.Release(o)
				}
			}
			mustAssign(t, a, want("d"))
		}
	}
	assert.Len(t, got, 1)
	for range a.All() {
		break
	}
}

func TestAllCopiesNothing(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/16")})
	for i := range 1000 {
		mustAssign(t, a, want(Owner(fmt.Sprint(i))))
	}
	var n int
	allocs := testing.AllocsPerRun(10, func() {
		for _, as := range a.All() {
			n += len(as.Addrs)
		}
	})
	assert.Equal(t, 11_000, n)
	assert.Less(t, allocs, 10.0, "for 1000 owners")
}
