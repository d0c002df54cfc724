package election

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// View says how a node stands for an address: its weight (see [Candidate]) and,
// unless empty, the reason that excludes it. It must give the same answer until
// the table is told of the change, and must not call the table.
type View func(addr netip.Addr, node string) (weight int, reason Reason)

// Move is a change of the holder of an address. An empty name is nobody.
type Move struct {
	Addr     netip.Addr
	From, To string
}

// TableConfig configures a [Table].
type TableConfig struct {
	// Addrs and Nodes are there from the beginning. Both may be empty, names
	// and addresses that occur twice count once, empty names are ignored.
	Addrs []netip.Addr
	Nodes []string
	// View says how nodes stand for addresses. Nil: every node is a candidate
	// of weight 0 for every address.
	View View
}

// Table holds the elections for many addresses over one set of nodes and keeps
// them up to date. Its winners are at all times those of [Decide], but a change
// costs what it can move: a node that joins or changes costs at most one hash
// for each address, a node that leaves one hash of every other node for each
// address that it held, and nothing else.
//
// Every change returns what moved, ordered by address. A Table is not safe for
// concurrent use.
type Table struct {
	view  View
	rows  map[netip.Addr]*row
	list  []*row // the values of rows, in no order
	nodes map[string]*tableNode
	hash  hasher // scratch
}

// row is the election for one address: who holds it, and what a challenger has
// to beat.
type row struct {
	addr   netip.Addr
	place  int // in Table.list
	holder *tableNode
	held   int // place in holder.held
	weight int
	sum    digest
}

type tableNode struct {
	name string
	held []*row
}

// NewTable returns a table in which every election is made: that costs one hash
// for each pair of an address and a node.
func NewTable(cfg TableConfig) *Table {
	t := &Table{
		view:  cfg.View,
		rows:  make(map[netip.Addr]*row, len(cfg.Addrs)),
		list:  make([]*row, 0, len(cfg.Addrs)),
		nodes: make(map[string]*tableNode, len(cfg.Nodes)),
	}
	if t.view == nil {
		t.view = func(netip.Addr, string) (int, Reason) { return 0, "" }
	}
	for _, name := range cfg.Nodes {
		if name != "" && t.nodes[name] == nil {
			t.nodes[name] = &tableNode{name: name}
		}
	}
	t.Add(cfg.Addrs...)
	return t
}

// Add elects holders for addresses that the table does not have yet. An address
// that is not usable (invalid, or with a zone) is kept, and nobody holds it.
func (t *Table) Add(addrs ...netip.Addr) []Move {
	var moves []Move
	for _, addr := range addrs {
		if t.rows[addr] != nil {
			continue
		}
		r := &row{addr: addr, place: len(t.list)}
		t.rows[addr] = r
		t.list = append(t.list, r)
		moves = t.record(moves, r, t.rerank)
	}
	return sorted(moves)
}

// Remove forgets addresses.
func (t *Table) Remove(addrs ...netip.Addr) []Move {
	var moves []Move
	for _, addr := range addrs {
		r := t.rows[addr]
		if r == nil {
			continue
		}
		moves = t.record(moves, r, (*row).drop)
		delete(t.rows, addr)
		last := t.list[len(t.list)-1]
		t.list[r.place], last.place = last, r.place
		t.list = t.list[:len(t.list)-1]
	}
	return sorted(moves)
}

// Join adds a node: the addresses that it wins move to it, and no other moves.
// For a node that is there already Join is [Table.Update].
func (t *Table) Join(node string) []Move {
	if node == "" {
		return nil
	}
	if t.nodes[node] == nil {
		t.nodes[node] = &tableNode{name: node}
	}
	return t.Update(node)
}

// Leave removes a node: the addresses that it held move, and no other.
func (t *Table) Leave(node string) []Move {
	n := t.nodes[node]
	if n == nil {
		return nil
	}
	delete(t.nodes, node)
	var moves []Move
	for _, r := range slices.Clone(n.held) {
		moves = t.record(moves, r, t.rerank)
	}
	return sorted(moves)
}

// Update takes note that the [View] of a node has changed, for any number of
// addresses. The node may lose what it held, and win what others held.
func (t *Table) Update(node string) []Move {
	n := t.nodes[node]
	if n == nil {
		return nil
	}
	var moves []Move
	for _, r := range t.list {
		moves = t.record(moves, r, func(r *row) { t.review(r, n) })
	}
	return sorted(moves)
}

// UpdateAddrs takes note that the [View] of addresses has changed, for any
// number of nodes. It costs one hash of every node for each address.
func (t *Table) UpdateAddrs(addrs ...netip.Addr) []Move {
	var moves []Move
	for _, addr := range addrs {
		if r := t.rows[addr]; r != nil {
			moves = t.record(moves, r, t.rerank)
		}
	}
	return sorted(moves)
}

// review decides again between the holder of an address and a node that has
// changed, which may be the holder itself.
func (t *Table) review(r *row, n *tableNode) {
	weight, reason := t.view(r.addr, n.name)
	switch {
	case r.holder != n:
		if reason == "" {
			t.challenge(r, n, weight)
		}
	case reason == "" && weight >= r.weight:
		r.weight = weight // still the first
	default:
		t.rerank(r)
	}
}

// challenge gives an address to a candidate that goes before its holder.
func (t *Table) challenge(r *row, n *tableNode, weight int) {
	if r.holder != nil && weight < r.weight || !t.hash.init(r.addr) {
		return
	}
	sum := t.hash.sum(n.name)
	if r.holder != nil && weight == r.weight && !before(sum, n.name, r.sum, r.holder.name) {
		return
	}
	r.drop()
	r.holder, r.weight, r.sum, r.held = n, weight, sum, len(n.held)
	n.held = append(n.held, r)
}

// rerank decides on an address among all nodes.
func (t *Table) rerank(r *row) {
	r.drop()
	for _, n := range t.nodes {
		if weight, reason := t.view(r.addr, n.name); reason == "" {
			t.challenge(r, n, weight)
		}
	}
}

// drop leaves the address without a holder.
func (r *row) drop() {
	n := r.holder
	if n == nil {
		return
	}
	last := n.held[len(n.held)-1]
	n.held[r.held], last.held = last, r.held
	n.held = n.held[:len(n.held)-1]
	r.holder = nil
}

// name returns who holds the address.
func (r *row) name() string {
	if r.holder == nil {
		return ""
	}
	return r.holder.name
}

// record appends to moves what change does to the holder of an address.
func (t *Table) record(moves []Move, r *row, change func(*row)) []Move {
	from := r.name()
	change(r)
	if to := r.name(); from != to {
		moves = append(moves, Move{Addr: r.addr, From: from, To: to})
	}
	return moves
}

func sorted(moves []Move) []Move {
	slices.SortFunc(moves, func(a, b Move) int { return a.Addr.Compare(b.Addr) })
	return moves
}

// Winner returns who holds an address. It reports false if nobody does, or if
// the table does not have the address.
func (t *Table) Winner(addr netip.Addr) (node string, ok bool) {
	r := t.rows[addr]
	if r == nil || r.holder == nil {
		return "", false
	}
	return r.holder.name, true
}

// Decide explains the election for an address among the nodes of the table. The
// table need not have the address. It costs one hash of every node.
func (t *Table) Decide(addr netip.Addr) Decision {
	candidates := make([]Candidate, 0, len(t.nodes))
	for name := range t.nodes {
		weight, reason := t.view(addr, name)
		candidates = append(candidates, Candidate{Node: name, Weight: weight, Reason: reason})
	}
	return Decide(addr, candidates)
}

// Held returns the addresses that a node holds, in order.
func (t *Table) Held(node string) []netip.Addr {
	n := t.nodes[node]
	if n == nil {
		return nil
	}
	addrs := make([]netip.Addr, len(n.held))
	for i, r := range n.held {
		addrs[i] = r.addr
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

// Nodes returns the names of the nodes, in order.
func (t *Table) Nodes() []string { return slices.Sorted(maps.Keys(t.nodes)) }

// All yields every address with its holder, in no order; the holder is empty if
// nobody holds the address. The table must not change meanwhile.
func (t *Table) All() iter.Seq2[netip.Addr, string] {
	return func(yield func(netip.Addr, string) bool) {
		for _, r := range t.list {
			if !yield(r.addr, r.name()) {
				return
			}
		}
	}
}
