package election

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// strategies returns one of each kind.
func strategies() map[string]Strategy {
	return map[string]Strategy{
		"hash":             Hash{},
		"preferred":        Preferred{},
		"bounded":          Bounded{},
		"bounded 100":      Bounded{Percent: 100},
		"sticky":           Sticky{},
		"sticky preferred": Sticky{Next: Preferred{}},
		"sticky bounded":   Sticky{Next: Bounded{Percent: 100}},
	}
}

// uniform returns requests for addresses that all nodes are candidates for.
func uniform(addrs []netip.Addr, nodes []string) []Request {
	requests := make([]Request, len(addrs))
	for i, addr := range addrs {
		requests[i].Addr = addr
		for _, node := range nodes {
			requests[i].Candidates = append(requests[i].Candidates, Candidate{Node: node})
		}
	}
	return requests
}

// winners returns who won which address.
func winners(decisions []Decision) map[netip.Addr]string {
	out := make(map[netip.Addr]string, len(decisions))
	for _, d := range decisions {
		out[d.Addr] = d.Winner
	}
	return out
}

// loads returns how many addresses each node holds.
func loads(decisions []Decision) map[string]int {
	out := make(map[string]int)
	for _, d := range decisions {
		if d.Winner != "" {
			out[d.Winner]++
		}
	}
	return out
}

func TestStrategies(t *testing.T) {
	v7 := netip.MustParseAddr("198.51.100.7") // natural order 02 03 05 01 04
	candidates := []Candidate{
		{Node: "kw-01"},
		{Node: "kw-02", Reason: LinkDown},
		{Node: "kw-03"},
		{Node: "kw-04", Weight: 10},
		{Node: "kw-05"},
	}
	tests := []struct {
		strategy, holder string
		want             []string
	}{
		{"hash", "kw-01", kw(3, 5, 1, 4)},
		{"preferred", "kw-01", kw(4, 3, 5, 1)},
		{"bounded", "kw-01", kw(4, 3, 5, 1)},
		{"sticky", "", kw(3, 5, 1, 4)},
		{"sticky", "kw-01", kw(1, 3, 5, 4)},
		{"sticky", "kw-02", kw(3, 5, 1, 4)},
		{"sticky", "kw-99", kw(3, 5, 1, 4)},
		{"sticky preferred", "kw-01", kw(1, 4, 3, 5)},
		{"sticky bounded", "kw-05", kw(5, 4, 3, 1)},
	}
	for _, tt := range tests {
		t.Run(tt.strategy+" holder "+tt.holder, func(t *testing.T) {
			before := slices.Clone(candidates)
			got := strategies()[tt.strategy].Elect([]Request{{Addr: v7, Candidates: candidates, Holder: tt.holder}})
			require.Len(t, got, 1)
			assert.Equal(t, v7, got[0].Addr)
			assert.Equal(t, tt.want, got[0].Candidates)
			assert.Equal(t, tt.want[0], got[0].Winner)
			assert.Equal(t, map[string]Reason{"kw-02": LinkDown}, got[0].Excluded)
			assert.Equal(t, before, candidates, "the input is not changed")
		})
	}
}

func TestStrategiesWithoutCandidates(t *testing.T) {
	for name, s := range strategies() {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, s.Elect(nil))
			got := s.Elect([]Request{
				{Addr: netip.MustParseAddr("192.0.2.1")},
				{Addr: netip.MustParseAddr("fe80::1%eth0"), Candidates: []Candidate{{Node: "kw-01"}}},
				{Candidates: []Candidate{{Node: "kw-01"}}},
			})
			require.Len(t, got, 3)
			for _, d := range got {
				assert.Empty(t, d.Winner)
			}
			assert.Equal(t, InvalidIP, got[1].Reason("kw-01"))
			assert.Equal(t, InvalidIP, got[2].Reason("kw-01"))
		})
	}
}

func TestSharersOfAnAddress(t *testing.T) {
	v7, mapped := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("::ffff:198.51.100.7")
	for name, s := range strategies() {
		t.Run(name, func(t *testing.T) {
			got := s.Elect([]Request{
				{Addr: v7, Candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-02"}, {Node: "kw-03"}}},
				{Addr: mapped, Candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-02"}, {Node: "kw-03", Reason: NoLocalEndpoints}}},
				{Addr: v7, Candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-03"}}},
			})
			for i, d := range got {
				assert.Equal(t, "kw-01", d.Winner, i)
				assert.Equal(t, kw(1), d.Candidates)
				assert.Equal(t, map[string]Reason{"kw-02": NodeUnknown, "kw-03": NoLocalEndpoints}, d.Excluded)
			}
			assert.Equal(t, []netip.Addr{v7, mapped, v7}, []netip.Addr{got[0].Addr, got[1].Addr, got[2].Addr})
		})
	}
}

// TestStickyHolders: sharers that disagree about the holder agree about the
// winner.
func TestStickyHolders(t *testing.T) {
	requests := uniform([]netip.Addr{netip.MustParseAddr("198.51.100.7")}, kw(1, 2, 3, 4, 5)) // 02 03 05 01 04
	requests = append(requests, requests[0])
	requests[0].Holder, requests[1].Holder = "kw-04", "kw-05"
	got := Sticky{}.Elect(requests)
	assert.Equal(t, kw(5, 4, 2, 3, 1), got[0].Candidates)
	assert.Equal(t, got[0], got[1])
}

// drawRequests draws requests of which some share an address.
func drawRequests(t *rapid.T) []Request {
	addrs, nodes := append(numbered(6), netip.MustParseAddr("2001:db8::1")), kw(1, 2, 3, 4)
	n := rapid.IntRange(0, 9).Draw(t, "requests")
	requests := make([]Request, n)
	for i := range requests {
		r := &requests[i]
		r.Addr = rapid.SampledFrom(addrs).Draw(t, "addr")
		if r.Addr.Is4() && rapid.Bool().Draw(t, "mapped") {
			r.Addr = netip.AddrFrom16(r.Addr.As16())
		}
		r.Holder = rapid.SampledFrom(append(nodes, "", "gone")).Draw(t, "holder")
		r.Candidates = drawCandidates(t, nodes)
	}
	return requests
}

func drawCandidates(t *rapid.T, nodes []string) []Candidate {
	var out []Candidate
	for _, node := range nodes {
		if rapid.IntRange(0, 9).Draw(t, "named") == 0 {
			continue
		}
		out = append(out, Candidate{
			Node:   node,
			Weight: rapid.IntRange(-1, 2).Draw(t, "weight"),
			Reason: rapid.SampledFrom([]Reason{"", "", "", LinkDown, NotMember}).Draw(t, "reason"),
		})
	}
	return out
}

// TestPropertyStrategiesAgree: whoever is given equal requests, in whatever
// order, elects the same; so there is at most one winner for an address. All
// sharers of an address have it, and it is a candidate for all of them.
func TestPropertyStrategiesAgree(t *testing.T) {
	for name, s := range strategies() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			requests := drawRequests(t)
			decisions := s.Elect(requests)
			require.Len(t, decisions, len(requests))

			order := rapid.Permutation(indices(len(requests))).Draw(t, "order")
			mixed := make([]Request, len(requests))
			for i, from := range order {
				mixed[i] = requests[from]
				mixed[i].Candidates = rapid.Permutation(requests[from].Candidates).Draw(t, "candidates")
			}
			for i, d := range s.Elect(mixed) {
				require.Equal(t, decisions[order[i]], d)
			}

			won := make(map[netip.Addr]string)
			for i, d := range decisions {
				require.Equal(t, requests[i].Addr, d.Addr)
				require.Equal(t, len(d.Candidates) > 0, d.Winner != "", "nobody holds it although somebody could")
				if d.Winner == "" {
					continue
				}
				require.Equal(t, d.Candidates[0], d.Winner)
				require.True(t, slices.ContainsFunc(requests[i].Candidates, func(c Candidate) bool { return c.Node == d.Winner && c.Reason == "" }))
				key := d.Addr.Unmap()
				if other, ok := won[key]; ok {
					require.Equal(t, other, d.Winner)
				}
				won[key] = d.Winner
			}
		}))
	}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestPropertyStrategiesMoveLittle: when a node goes, only what it held moves;
// when one comes, addresses move only to it, and with Sticky none does.
func TestPropertyStrategiesMoveLittle(t *testing.T) {
	for _, name := range []string{"hash", "preferred", "sticky", "sticky preferred"} {
		s := strategies()[name]
		_, sticky := s.(Sticky)
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			few, node := drawRequests(t), "another"
			many := slices.Clone(few)
			for i := range many {
				many[i].Candidates = append(slices.Clone(many[i].Candidates), Candidate{
					Node: node, Weight: rapid.IntRange(-1, 2).Draw(t, "weight"),
					Reason: rapid.SampledFrom([]Reason{"", "", LinkDown}).Draw(t, "reason"),
				})
			}
			without := s.Elect(few)
			for i := range many {
				many[i].Holder = without[i].Winner
			}
			with := s.Elect(many)
			for i, d := range with {
				if was := without[i].Winner; d.Winner != was {
					require.Equal(t, node, d.Winner)
					require.False(t, sticky && was != "", "it had a holder")
				}
				few[i].Holder = d.Winner
			}
			for i, d := range s.Elect(few) {
				if with[i].Winner != node {
					require.Equal(t, with[i].Winner, d.Winner, "it was not held by the node that went")
				}
			}
		}))
	}
}

// TestPropertyBound: with equal candidates the bound is exact.
func TestPropertyBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, n := rapid.IntRange(1, 40).Draw(t, "addresses"), rapid.IntRange(1, 9).Draw(t, "nodes")
		percent := rapid.SampledFrom([]int{0, 50, 100, 110, 125, 300}).Draw(t, "percent")
		decisions := Bounded{Percent: percent}.Elect(uniform(numbered(a), nodeNames(n)))
		c := max(percent, 100)
		if percent == 0 {
			c = 125
		}
		total := 0
		for node, load := range loads(decisions) {
			total += load
			// load <= ceil(c/100 * a/n), in integers
			require.Less(t, (load-1)*100*n, c*a, "%s holds %d", node, load)
		}
		require.Equal(t, a, total)
	})
}

// TestPropertyBoundIsRaisedLittle compares with all distributions, where
// candidates differ.
func TestPropertyBoundIsRaisedLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addrs, nodes := numbered(rapid.IntRange(1, 6).Draw(t, "addresses")), kw(1, 2, 3)
		requests := make([]Request, len(addrs))
		for i, addr := range addrs {
			requests[i] = Request{Addr: addr, Candidates: drawCandidates(t, nodes), Holder: rapid.SampledFrom(nodes).Draw(t, "holder")}
		}
		for name, s := range map[string]Strategy{"bounded": Bounded{Percent: 100}, "sticky": Sticky{Next: Bounded{Percent: 100}}} {
			decisions := s.Elect(requests)
			usable, held := make(map[string]bool), 0
			for _, d := range decisions {
				if d.Winner != "" {
					held++
				}
				for _, node := range d.Candidates {
					usable[node] = true
				}
			}
			if held == 0 {
				continue
			}
			bound := max((held+len(usable)-1)/len(usable), leastLoad(decisions, make(map[string]int)))
			for node, load := range loads(decisions) {
				require.LessOrEqual(t, load, bound, "%s: %s", name, node)
			}
		}
	})
}

// leastLoad tries every distribution, and returns the least that the node with
// the most addresses can hold.
func leastLoad(decisions []Decision, load map[string]int) int {
	if len(decisions) == 0 {
		return slices.Max(slices.Collect(maps.Values(load)))
	}
	if len(decisions[0].Candidates) == 0 {
		return leastLoad(decisions[1:], load)
	}
	least := len(decisions) + len(load) + 100
	for _, node := range decisions[0].Candidates {
		load[node]++
		least = min(least, leastLoad(decisions[1:], load))
		if load[node]--; load[node] == 0 {
			delete(load, node)
		}
	}
	return least
}

// TestPropertyStickyBound: an address moves only out of a node that holds too
// much.
func TestPropertyStickyBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, n := rapid.IntRange(1, 40).Draw(t, "addresses"), rapid.IntRange(1, 8).Draw(t, "nodes")
		s := Sticky{Next: Bounded{Percent: 100}}
		old := winners(s.Elect(uniform(numbered(a), nodeNames(n))))
		requests := uniform(numbered(a), nodeNames(n+1))
		for i := range requests {
			requests[i].Holder = old[requests[i].Addr]
		}
		bound, over := (a+n)/(n+1), 0
		had := make(map[string]int)
		for _, node := range old {
			had[node]++
		}
		for _, load := range had {
			over += max(0, load-bound)
		}
		moved := 0
		for _, d := range s.Elect(requests) {
			if d.Winner != old[d.Addr] {
				moved++
			}
		}
		require.Equal(t, over, moved)
	})
}

// TestScaleOutBounded compares what moves to an eleventh node.
func TestScaleOutBounded(t *testing.T) {
	const addresses = 1000
	moved := func(s Strategy) int {
		before := winners(s.Elect(uniform(numbered(addresses), nodeNames(10))))
		n := 0
		for _, d := range s.Elect(uniform(numbered(addresses), nodeNames(11))) {
			if d.Winner != before[d.Addr] {
				n++
			}
		}
		return n
	}
	hash, bounded, tight := moved(Hash{}), moved(Bounded{}), moved(Bounded{Percent: 100})
	t.Logf("of %d addresses %d move with hash, %d with a bound of 125 %%, %d of 100 %%", addresses, hash, bounded, tight)
	assert.InDelta(t, addresses/11, hash, addresses/30)
	assert.LessOrEqual(t, bounded, 2*hash)
	assert.LessOrEqual(t, tight, 6*hash)
}

func BenchmarkStrategy(b *testing.B) {
	const addresses, nodes = 1000, 100
	requests := uniform(numbered(addresses), nodeNames(nodes))
	for _, name := range []string{"hash", "preferred", "bounded", "sticky"} {
		s := strategies()[name]
		b.Run(fmt.Sprintf("addresses=%d/nodes=%d/%s", addresses, nodes, name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Elect(requests)
			}
		})
	}
}
