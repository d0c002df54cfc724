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

// numbered returns n addresses out of 10.0.0.0/8.
func numbered(n int) []netip.Addr {
	addrs := make([]netip.Addr, n)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	return addrs
}

func TestTable(t *testing.T) {
	v7, v8 := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8")
	out := map[string]Reason{}
	table := NewTable(TableConfig{
		Addrs: []netip.Addr{v8, v7, v7},
		Nodes: []string{"kw-03", "kw-01", "", "kw-01"},
		View:  func(_ netip.Addr, node string) (int, Reason) { return 0, out[node] },
	})
	assert.Equal(t, kw(1, 3), table.Nodes())
	assert.Equal(t, map[netip.Addr]string{v7: "kw-03", v8: "kw-01"}, maps.Collect(table.All()))

	assert.Equal(t, []Move{{v7, "kw-03", "kw-02"}}, table.Join("kw-02"))
	assert.Empty(t, table.Join("kw-02"), "is there already")
	assert.Empty(t, table.Join(""))
	assert.Equal(t, []netip.Addr{v7}, table.Held("kw-02"))
	assert.Empty(t, table.Held("kw-03"))
	assert.Empty(t, table.Held("nobody"))

	out["kw-02"] = LinkDown
	assert.Equal(t, []Move{{v7, "kw-02", "kw-03"}}, table.Update("kw-02"))
	assert.Equal(t, LinkDown, table.Decide(v7).Reason("kw-02"))
	assert.Empty(t, table.Update("nobody"))

	assert.Equal(t, []Move{{v8, "kw-01", "kw-03"}}, table.Leave("kw-01"))
	assert.Empty(t, table.Leave("kw-01"))
	assert.Equal(t, []Move{{v7, "kw-03", ""}, {v8, "kw-03", ""}}, table.Leave("kw-03"), "in the order of the addresses")
	_, ok := table.Winner(v7)
	assert.False(t, ok)

	delete(out, "kw-02")
	assert.Equal(t, []Move{{v7, "", "kw-02"}}, table.UpdateAddrs(v7, netip.MustParseAddr("192.0.2.1")))
	assert.Equal(t, []Move{{v7, "kw-02", ""}}, table.Remove(v7, v7))
	_, ok = table.Winner(v7)
	assert.False(t, ok)
}

func TestTableKeepsUnusableAddresses(t *testing.T) {
	zoned := netip.MustParseAddr("fe80::1%eth0")
	table := NewTable(TableConfig{Addrs: []netip.Addr{{}, zoned}, Nodes: kw(1, 2)})
	assert.Empty(t, table.Join("kw-03"))
	assert.Empty(t, table.Leave("kw-01"))
	assert.Equal(t, map[netip.Addr]string{{}: "", zoned: ""}, maps.Collect(table.All()))
	assert.Equal(t, InvalidIP, table.Decide(zoned).Reason("kw-02"))
	for addr := range table.All() {
		assert.False(t, addr.IsValid() && addr.Zone() == "")
		break // an iteration can end early
	}
}

// TestTableCosts counts what the benchmark measures: how often a change looks
// at a pair of an address and a node, which is at least as often as it hashes.
func TestTableCosts(t *testing.T) {
	const addresses, nodes = 2000, 500
	looks := 0
	table := NewTable(TableConfig{
		Addrs: numbered(addresses), Nodes: nodeNames(nodes),
		View: func(netip.Addr, string) (int, Reason) { looks++; return 0, "" },
	})
	full := looks
	assert.Equal(t, addresses*nodes, full)

	looks = 0
	moves := table.Join("another")
	assert.NotEmpty(t, moves)
	assert.Equal(t, addresses, looks, "one for each address")
	assert.LessOrEqual(t, 100*looks, full)

	for _, gone := range []string{"another", "node-0001", "node-0007"} {
		held := len(table.Held(gone))
		assert.NotZero(t, held)
		rest := len(table.Nodes()) - 1
		looks = 0
		assert.Len(t, table.Leave(gone), held)
		assert.Equal(t, held*rest, looks, "only what the node held")
		assert.LessOrEqual(t, 30*looks, full)
	}
}

// tableModel is a table beside what it must be equal to.
type tableModel struct {
	table   *Table
	addrs   map[netip.Addr]bool
	nodes   map[string]bool
	views   map[netip.Addr]map[string]Candidate
	holders map[netip.Addr]string
}

func (m *tableModel) view(addr netip.Addr, node string) (int, Reason) {
	c := m.views[addr][node]
	return c.Weight, c.Reason
}

// change draws a new standing of a node for an address.
func (m *tableModel) change(t *rapid.T, addr netip.Addr, node string) {
	if m.views[addr] == nil {
		m.views[addr] = make(map[string]Candidate)
	}
	m.views[addr][node] = Candidate{
		Weight: rapid.IntRange(0, 2).Draw(t, "weight"),
		Reason: rapid.SampledFrom([]Reason{"", "", LinkDown, NoLocalEndpoints}).Draw(t, "reason"),
	}
}

// check compares with the full decision, and what moved with what was said to.
func (m *tableModel) check(t *rapid.T, moves []Move) {
	require.True(t, slices.IsSortedFunc(moves, func(a, b Move) int { return a.Addr.Compare(b.Addr) }))
	for _, move := range moves {
		require.Equal(t, m.holders[move.Addr], move.From)
		require.NotEqual(t, move.From, move.To)
		m.holders[move.Addr] = move.To
	}
	held := make(map[string][]netip.Addr)
	for addr := range m.addrs {
		var candidates []Candidate
		for node := range m.nodes {
			weight, reason := m.view(addr, node)
			candidates = append(candidates, Candidate{Node: node, Weight: weight, Reason: reason})
		}
		d := Decide(addr, candidates)
		winner, ok := m.table.Winner(addr)
		require.Equal(t, d.Winner, winner)
		require.Equal(t, d.Winner != "", ok)
		require.Equal(t, m.holders[addr], winner, "a move was not told")
		require.Equal(t, d, m.table.Decide(addr))
		held[winner] = append(held[winner], addr)
	}
	for node := range m.nodes {
		require.ElementsMatch(t, held[node], m.table.Held(node))
	}
	require.Len(t, maps.Collect(m.table.All()), len(m.addrs))
}

func TestPropertyTableIsTheFullDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, names := append(numbered(5), netip.MustParseAddr("2001:db8::1"), netip.Addr{}), kw(1, 2, 3, 4, 5)
		m := &tableModel{
			addrs: make(map[netip.Addr]bool), nodes: make(map[string]bool),
			views: make(map[netip.Addr]map[string]Candidate), holders: make(map[netip.Addr]string),
		}
		m.table = NewTable(TableConfig{View: m.view})
		anAddr := func(t *rapid.T) netip.Addr { return rapid.SampledFrom(all).Draw(t, "addr") }
		aNode := func(t *rapid.T) string { return rapid.SampledFrom(names).Draw(t, "node") }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				addr := anAddr(t)
				m.addrs[addr] = true
				m.check(t, m.table.Add(addr))
			},
			"remove": func(t *rapid.T) {
				addr := anAddr(t)
				moves := m.table.Remove(addr)
				delete(m.addrs, addr)
				m.check(t, moves)
			},
			"join": func(t *rapid.T) {
				node := aNode(t)
				m.nodes[node] = true
				m.check(t, m.table.Join(node))
			},
			"leave": func(t *rapid.T) {
				node := aNode(t)
				delete(m.nodes, node)
				m.check(t, m.table.Leave(node))
			},
			"update a node": func(t *rapid.T) {
				node := aNode(t)
				for _, addr := range all {
					m.change(t, addr, node)
				}
				m.check(t, m.table.Update(node))
			},
			"update an address": func(t *rapid.T) {
				addr := anAddr(t)
				for _, node := range names {
					m.change(t, addr, node)
				}
				m.check(t, m.table.UpdateAddrs(addr))
			},
			"update two nodes at once": func(t *rapid.T) {
				a, b := aNode(t), aNode(t)
				for _, addr := range all {
					m.change(t, addr, a)
					m.change(t, addr, b)
				}
				// In between the table is behind; after both it must be right.
				for _, move := range append(m.table.Update(a), m.table.Update(b)...) {
					m.holders[move.Addr] = move.To
				}
				m.check(t, nil)
			},
		})
	})
}

func BenchmarkTable(b *testing.B) {
	const addresses, nodes = 10_000, 1000
	addrs, names := numbered(addresses), nodeNames(nodes)
	name := func(what string) string { return fmt.Sprintf("addresses=%d/nodes=%d/%s", addresses, nodes, what) }
	b.Run(name("build"), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewTable(TableConfig{Addrs: addrs, Nodes: names})
		}
	})
	table := NewTable(TableConfig{Addrs: addrs, Nodes: names})
	b.Run(name("join"), func(b *testing.B) {
		b.ReportAllocs()
		moved := 0
		for b.Loop() {
			moved += len(table.Join("another"))
			b.StopTimer()
			table.Leave("another")
			b.StartTimer()
		}
		b.ReportMetric(float64(moved)/float64(b.N), "moved/op")
	})
	b.Run(name("leave"), func(b *testing.B) {
		b.ReportAllocs()
		moved, i := 0, 0
		for b.Loop() {
			gone := names[i%nodes]
			i++
			moved += len(table.Leave(gone))
			b.StopTimer()
			table.Join(gone)
			b.StartTimer()
		}
		b.ReportMetric(float64(moved)/float64(b.N), "moved/op")
	})
}
