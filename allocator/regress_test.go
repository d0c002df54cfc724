package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each test is named after the report of a failure in the field.

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}

func TestMetalLB2443RestartMovesNobody(t *testing.T) {
	pool := Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.10-192.0.2.11")}
	status := map[Owner]string{"b": "192.0.2.10", "c": "192.0.2.11"}
	for _, order := range permutations(3) {
		a := newTest(t, pool)
		services := []Owner{"a", "b", "c"}
		for _, i := range order {
			if addr, ok := status[services[i]]; ok {
				_, err := a.Adopt(want(services[i]), addrs(addr))
				require.NoError(t, err)
			}
		}
		for _, i := range order {
			as, err := a.Assign(want(services[i]))
			if addr, ok := status[services[i]]; ok {
				require.NoError(t, err)
				assert.Equal(t, addrs(addr), as.Addrs)
			} else {
				require.ErrorIs(t, err, ErrExhausted)
			}
		}
	}
}

func TestMetalLB1774RestartGivesOneAddressOnce(t *testing.T) {
	pool := Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.2/32")}
	a := newTest(t, pool)
	_, err := a.Adopt(want("svc1"), addrs("192.0.2.2"))
	require.NoError(t, err)
	// A status that says the same already: the caller adopts in the order of its
	// own rule, and the second one is told who has it.
	_, err = a.Adopt(want("svc2"), addrs("192.0.2.2"))
	require.ErrorContains(t, err, "adopt svc2: 192.0.2.2 is in use by svc1")
	_, err = a.Assign(want("svc2"))
	require.ErrorIs(t, err, ErrExhausted)
	requireHeld(t, a, "svc1", "p", "192.0.2.2")
	requireHeld(t, a, "svc2", "")
}

// PreferDualStack with one cluster IP wants one family, however often it asks.
func TestMetalLB2723OthersDoNotMoveIt(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/28", "2001:db8::/124")})
	oneClusterIP := want("a", func(r *Request) { r.Partial = true })
	mustAssign(t, a, want("x"))
	first := mustAssign(t, a, oneClusterIP)
	assert.Equal(t, addrs("192.0.2.1"), first.Addrs)
	a.Release("x")
	for range 100 {
		assert.Equal(t, first, mustAssign(t, a, oneClusterIP))
	}
}

func TestMetalLB1929DeletedPoolGivesNothing(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/30")}
	a := newTest(t, p)
	mustAssign(t, a, want("s1"))
	displaced, err := a.SetPools(nil)
	require.NoError(t, err)
	require.Len(t, displaced, 1)
	_, err = a.Assign(want("s2"))
	require.ErrorIs(t, err, ErrNoPool)
	// It comes back: the caller adopts what the status still says.
	_, err = a.SetPools([]Pool{p})
	require.NoError(t, err)
	_, err = a.Adopt(want("s1"), displaced[0].Addrs)
	require.NoError(t, err)
	assert.Equal(t, addrs("192.0.2.1"), mustAssign(t, a, want("s2")).Addrs)
}

func TestMetalLB2449EditDisplacesAndSaysWhy(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")})
	mustAssign(t, a, want("s1", at("192.0.2.5")))
	displaced, err := a.SetPools([]Pool{{Name: "p", Ranges: mustRanges(t, "198.51.100.0/24")}})
	require.NoError(t, err)
	require.Len(t, displaced, 1)
	assert.Equal(t, Assignment{"s1", "p", addrs("192.0.2.5")}, displaced[0].Assignment)
	assert.ErrorContains(t, displaced[0].Why, "no pool contains 192.0.2.5")
	assert.Equal(t, addrs("198.51.100.0"), mustAssign(t, a, want("s1")).Addrs)
}

func TestCilium40358WideningRenumbersNobody(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "203.0.113.120-203.0.113.127")})
	for i := range 3 {
		mustAssign(t, a, want(Owner(fmt.Sprint("s", i+1))))
	}
	_, err := a.SetPools([]Pool{{Name: "p", Ranges: mustRanges(t, "203.0.113.117-203.0.113.127")}})
	require.NoError(t, err)
	assert.Equal(t, addrs("203.0.113.117"), mustAssign(t, a, want("s0")).Addrs)
	for i := range 3 {
		assert.Equal(t, addrs(fmt.Sprint("203.0.113.", 120+i)), mustAssign(t, a, want(Owner(fmt.Sprint("s", i+1)))).Addrs)
	}
}

func TestMetalLB1586FreedAddressServesThePendingOne(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.1/32")}
	q := Pool{Name: "q", Ranges: mustRanges(t, "198.51.100.1/32"), Manual: true}
	for name, free := range map[string]func(a *Allocator) error{
		"holder goes":             func(a *Allocator) error { a.Release("s1"); return nil },
		"holder pins another one": func(a *Allocator) error { _, err := a.Assign(want("s1", from("q"))); return err },
		"pool grows": func(a *Allocator) error {
			_, err := a.SetPools([]Pool{{Name: "p", Ranges: mustRanges(t, "192.0.2.0/30")}, q})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTest(t, p, q)
			mustAssign(t, a, want("s1"))
			_, err := a.Assign(want("s2"))
			require.ErrorIs(t, err, ErrExhausted)
			require.NoError(t, free(a))
			mustAssign(t, a, want("s2"))
		})
	}
}

func TestMetalLB448PoolWishMoves(t *testing.T) {
	pools := []Pool{
		{Name: "p1", Ranges: mustRanges(t, "192.0.2.240/28")},
		{Name: "p2", Ranges: mustRanges(t, "198.51.100.0/32")},
	}
	a := newTest(t, pools...)
	mustAssign(t, a, want("s1"))
	assert.Equal(t, addrs("198.51.100.0"), mustAssign(t, a, want("s1", from("p2"))).Addrs)
	usage, _ := a.Usage("p1")
	assert.Zero(t, usage.V4.Used)
	mustAssign(t, a, want("s2"))
	_, err := a.Assign(want("s2", from("p2")))
	require.ErrorContains(t, err, `no free address: pool "p2": no free IPv4 address`)
}

func TestMetalLB1916AddressAndPoolDisagree(t *testing.T) {
	a := newTest(t, Pool{Name: "p1", Ranges: mustRanges(t, "192.0.2.0/24")}, Pool{Name: "p2", Ranges: mustRanges(t, "198.51.100.0/24")})
	for range 3 {
		_, err := a.Assign(want("s", at("192.0.2.9"), from("p2")))
		require.EqualError(t, err, `assign s: address not in pool: 192.0.2.9 is in pool "p1", not in pool "p2" as requested`)
	}
}

func TestMetalLB2656PriorityWithoutSelectors(t *testing.T) {
	all := &Scope{AnyNamespace: true}
	a := newTest(t,
		Pool{Name: "p2", Ranges: mustRanges(t, "198.51.100.0/28"), Priority: 2, Scope: all},
		Pool{Name: "p1", Ranges: mustRanges(t, "192.0.2.0/32"), Priority: 1, Scope: all},
		Pool{Name: "p0", Ranges: mustRanges(t, "203.0.113.0/28"), Scope: all},
	)
	assert.Equal(t, "p1", mustAssign(t, a, want("a")).Pool)
	assert.Equal(t, "p2", mustAssign(t, a, want("b")).Pool)
}

func TestMetalLB1693NamespaceLabelEdit(t *testing.T) {
	p := Pool{Name: "p1", Ranges: mustRanges(t, "192.0.2.0/24"), Scope: &Scope{}}
	served := p
	served.Scope = &Scope{Namespaces: []string{"n1"}}
	a := newTest(t, p)
	_, err := a.Assign(want("s", in("n1")))
	require.ErrorIs(t, err, ErrNoPool)
	_, err = a.SetPools([]Pool{served})
	require.NoError(t, err)
	mustAssign(t, a, want("s", in("n1")))
	displaced, err := a.SetPools([]Pool{p})
	require.NoError(t, err)
	assert.Empty(t, displaced)
	assert.Equal(t, addrs("192.0.2.0"), mustAssign(t, a, want("s", in("n1"))).Addrs)
	_, err = a.Assign(want("t", in("n1")))
	require.ErrorIs(t, err, ErrNoPool)
}

func TestMetalLB703ManualPool(t *testing.T) {
	a := newTest(t,
		Pool{Name: "pA", Ranges: mustRanges(t, "192.0.2.16/28"), Manual: true},
		Pool{Name: "pB", Ranges: mustRanges(t, "198.51.100.1/32")},
	)
	mustAssign(t, a, want("full"))
	_, err := a.Assign(want("plain"))
	require.ErrorIs(t, err, ErrExhausted)
	assert.Equal(t, addrs("192.0.2.16"), mustAssign(t, a, want("byPool", from("pA"))).Addrs)
	assert.Equal(t, addrs("192.0.2.17"), mustAssign(t, a, want("byAddress", at("192.0.2.17"))).Addrs)
}

func TestMetalLB1684BuggyAddresses(t *testing.T) {
	a := newTest(t, Pool{Name: "p", AvoidBuggyIPs: true, Ranges: mustRanges(t, "198.51.100.120/29", "192.0.2.0/24", "2001:db8::/120")})
	usage, _ := a.Usage("p")
	assert.Equal(t, int64(8+254), usage.V4.Total)
	assert.Equal(t, int64(256), usage.V6.Total)
	assert.Equal(t, addrs("2001:db8::"), mustAssign(t, a, want("six", only(IPv6))).Addrs)
	_, err := a.Assign(want("pinned", at("192.0.2.0")))
	require.EqualError(t, err, `assign pinned: address not in pool: pool "p" leaves out 192.0.2.0, because it avoids addresses that end in .0 and .255`)
	for i := range 8 + 254 {
		last := mustAssign(t, a, want(Owner(fmt.Sprint("o", i)))).Addrs[0].As4()[3]
		require.True(t, last != 0 && last != 255)
	}
	_, err = a.Assign(want("late"))
	require.ErrorIs(t, err, ErrExhausted)
}

// A range whose covering CIDR holds a node's address is told from one that
// holds it itself.
func TestMetalLB2779ExactRanges(t *testing.T) {
	r := mustRanges(t, "192.0.2.5-192.0.2.37")[0]
	assert.False(t, r.Contains(netip.MustParseAddr("192.0.2.2")))
	assert.True(t, r.Contains(netip.MustParseAddr("192.0.2.6")))
}

func TestAntrea2946Overlaps(t *testing.T) {
	inside := []Pool{{Name: "p1", Ranges: mustRanges(t, "192.0.2.0/28", "192.0.2.8-192.0.2.20")}}
	_, err := New(Config{Pools: inside})
	require.EqualError(t, err, `pool "p1": its ranges 192.0.2.8-192.0.2.20 and 192.0.2.0/28 overlap`)
	p1 := Pool{Name: "p1", Ranges: mustRanges(t, "192.0.2.0/28")}
	a := newTest(t, p1)
	held := mustAssign(t, a, want("s"))
	_, err = a.SetPools([]Pool{p1, {Name: "p2", Ranges: mustRanges(t, "192.0.2.15/32")}})
	require.EqualError(t, err, `pool "p2": range 192.0.2.15/32 overlaps 192.0.2.0/28 of pool "p1"`)
	for _, name := range []string{"p1", "p1b"} {
		p1.Name = name
		displaced, err := a.SetPools([]Pool{p1})
		require.NoError(t, err)
		require.Empty(t, displaced)
		held.Pool = name
		assert.Equal(t, held, mustAssign(t, a, want("s")))
	}
}

func TestMetalLB788HolderWithoutKey(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")})
	mustAssign(t, a, want("s1", at("192.0.2.250"), tcp(53)))
	_, err := a.Assign(want("s2", at("192.0.2.250"), key("k"), udp(53)))
	require.EqualError(t, err, "assign s2: 192.0.2.250 is in use by s1, which has no sharing key")
	mustAssign(t, a, want("s1", at("192.0.2.250"), key("k"), tcp(53)))
	mustAssign(t, a, want("s2", at("192.0.2.250"), key("k"), udp(53)))
}

func TestMetalLB2553SharingByBackend(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")})
	local := func(owner Owner, selector string, port uint16) error {
		_, err := a.Assign(want(owner, at("192.0.2.9"), key("k"), backend(selector), tcp(port)))
		return err
	}
	require.NoError(t, local("s1", "default a=1,b=2", 53))
	require.NoError(t, local("s2", "default a=1,b=2", 54))
	require.EqualError(t, local("s3", "default a=1", 55),
		`assign s3: 192.0.2.9 is in use by s1, which has sharing key "k" too, but another backend key`)
}

func TestCiliumPR34106SharerRejoins(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")})
	sharer := func(i int) Request { return want(Owner(fmt.Sprint("s", i)), key("k"), tcp(uint16(80+i))) }
	first := sharer(1)
	first.Addresses = addrs("192.0.2.9")
	mustAssign(t, a, first)
	mustAssign(t, a, sharer(2))
	mustAssign(t, a, sharer(3))
	a.Release("s2")
	assert.Equal(t, addrs("192.0.2.9"), mustAssign(t, a, sharer(2)).Addrs)
	a.Release("s1")
	a.Release("s3")
	a.Release("s2")
	assert.Equal(t, addrs("192.0.2.0"), mustAssign(t, a, sharer(2)).Addrs, "the key is forgotten with its last member")
}

func TestCilium30700RestartKeepsSharing(t *testing.T) {
	for _, order := range permutations(3) {
		a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/24")})
		for _, i := range order {
			_, err := a.Adopt(want(Owner(fmt.Sprint("s", i)), key("k"), tcp(uint16(80+i))), addrs("192.0.2.9"))
			require.NoError(t, err)
		}
		assert.Equal(t, addrs("192.0.2.9"), mustAssign(t, a, want("new", key("k"), tcp(443))).Addrs)
	}
}

func TestCilium41947SharerGetsBothOrNeither(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/28", "2001:db8::/124")})
	mustAssign(t, a, want("s1", at("192.0.2.5", "2001:db8::5"), key("k"), tcp(80)))
	assert.Equal(t, addrs("192.0.2.5", "2001:db8::5"), mustAssign(t, a, want("s2", both, key("k"), tcp(81))).Addrs)
	mustAssign(t, a, want("s3", at("2001:db8::5"), key("k"), tcp(82)))
	assert.Equal(t, addrs("192.0.2.0", "2001:db8::"), mustAssign(t, a, want("s4", both, key("k"), tcp(82))).Addrs)
}

func TestCiliumPR45720SharingSeededByPinned(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.0.10.0/24"), AvoidBuggyIPs: true})
	mustAssign(t, a, want("s1", at("10.0.10.22"), key("k"), tcp(80)))
	assert.Equal(t, addrs("10.0.10.22"), mustAssign(t, a, want("s2", key("k"), tcp(81))).Addrs)
	_, err := a.Assign(want("s3", at("10.0.10.0"), key("k"), tcp(82)))
	require.ErrorIs(t, err, ErrNotInPool)
	requireHeld(t, a, "s3", "")
}

func TestMetalLB301SpellingsOfIPv6(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "2001:db8::/64", "192.0.2.0/24")})
	first := mustAssign(t, a, want("s", at("2001:DB8:0::5")))
	assert.Equal(t, "2001:db8::5", first.Addrs[0].String())
	assert.Equal(t, first, mustAssign(t, a, want("s", at("2001:db8::0:5"))))
	for _, text := range []string{"::ffff:192.0.2.5", "fe80::1%eth0"} {
		_, err := a.Assign(want("t", at(text)))
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestPureLBPR1PinnedIPv6InMixedPool(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/28", "2001:db8::/124")})
	requireHeld(t, a, "s", "")
	mustAssign(t, a, want("s", at("2001:db8::3")))
	requireHeld(t, a, "s", "p", "2001:db8::3")
}

// Many restarts in random order, with more services than addresses.
func TestMetalLB1984RestartsInRandomOrder(t *testing.T) {
	pool := Pool{Name: "p", Ranges: mustRanges(t, "192.0.2.0/27", "2001:db8::/123")}
	rnd := rand.New(rand.NewPCG(7, 7))
	var reqs []Request
	for i := range 48 {
		req := want(Owner(fmt.Sprint("s", i)), tcp(uint16(i)))
		switch i % 4 {
		case 1:
			both(&req)
		case 2:
			prefer(&req)
		case 3:
			req.SharingKey = fmt.Sprint("k", i%5)
		}
		reqs = append(reqs, req)
	}
	a := newTest(t, pool)
	held := map[Owner]Assignment{}
	for range 50 {
		rnd.Shuffle(len(reqs), func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
		next := newTest(t, pool)
		for _, req := range reqs {
			if as, ok := held[req.Owner]; ok {
				_, err := next.Adopt(req, as.Addrs)
				require.NoError(t, err)
			}
		}
		for _, req := range reqs {
			as, err := next.Assign(req)
			before, had := held[req.Owner]
			if had {
				require.NoError(t, err)
				require.Equal(t, before.Addrs, as.Addrs[:len(before.Addrs)])
			}
			if err == nil {
				held[req.Owner] = as
			}
		}
		a = next
	}
	usage, _ := a.Usage("p")
	assert.Equal(t, Usage{Count{32, 32, 0, 0}, Count{32, usage.V6.Used, 32 - usage.V6.Used, 0}}, usage)
}
