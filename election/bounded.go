package election

import (
	"bytes"
	"cmp"
	"slices"
)

// defaultPercent is the bound of [Bounded] that is not configured.
const defaultPercent = 125

// Bounded spreads addresses evenly: no node holds more than
//
//	ceil(Percent/100 x addresses / nodes)
//
// of them, where addresses are those with a candidate, and nodes those that are
// a candidate for some address. An address goes to the first node in the order
// of [Decide] that has room for it; a node with too many suitors keeps those
// that stand highest with it, by the same order. This is consistent hashing with
// bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018) in the form of a
// stable matching, which does not depend on an order of the addresses.
//
// No address stays without a holder for the sake of the bound: addresses move
// out of the way of those with fewer candidates, and if the candidates allow no
// distribution within the bound it is raised by as little as possible. A change
// moves more than with [Hash], because who is displaced displaces others.
//
// In a [Decision] the winner goes first, the other candidates follow in their
// usual order.
type Bounded struct {
	// Percent is the bound in percent of the mean. Zero means 125, values below
	// 100 mean 100. An integer, so that all machines compute the same bound.
	Percent int
}

// Elect implements [Strategy].
func (b Bounded) Elect(requests []Request) []Decision { return elect(requests, b.decide) }

func (b Bounded) decide(requests []Request) []Decision {
	m := matching{requests: requests, decisions: decideEach(requests), claims: make(map[string][]claim)}
	m.bound = b.bound(m.decisions)
	for _, i := range m.propose() {
		m.squeeze(i)
	}
	for node, claims := range m.claims {
		for _, c := range claims {
			m.decisions[c.request].elect(node)
		}
	}
	return m.decisions
}

// bound computes how many addresses a node may hold.
func (b Bounded) bound(decisions []Decision) int {
	addresses, nodes := 0, make(map[string]struct{})
	for _, d := range decisions {
		if len(d.Candidates) > 0 {
			addresses++
		}
		for _, node := range d.Candidates {
			nodes[node] = struct{}{}
		}
	}
	if addresses == 0 {
		return 0
	}
	percent := max(cmp.Or(b.Percent, defaultPercent), 100)
	share := 100 * len(nodes)
	return (percent*addresses + share - 1) / share
}

// elect makes node, one of the candidates, the winner.
func (d *Decision) elect(node string) {
	at := slices.Index(d.Candidates, node)
	copy(d.Candidates[1:at+1], d.Candidates[:at])
	d.Candidates[0], d.Winner = node, node
}

// matching distributes addresses over nodes. It knows addresses by their place
// in requests.
type matching struct {
	requests  []Request
	decisions []Decision
	bound     int
	claims    map[string][]claim // by node, best first, never more than bound
}

// claim is an address that a node holds, and how it stands with that node.
type claim struct {
	request int
	entry   // of the node for the address
}

// compareClaims orders the claims of one node, best first. The addresses decide
// only if the digests are equal.
func compareClaims(a, b claim) int {
	if a.holds == b.holds && a.weight == b.weight {
		return cmp.Or(bytes.Compare(a.sum[:], b.sum[:]), cmp.Compare(a.request, b.request))
	}
	if goesBefore(&a.entry, &b.entry) {
		return -1
	}
	return 1
}

// claim returns how address i stands with a candidate.
func (m *matching) claim(i int, node string) claim {
	var h hasher
	h.init(m.requests[i].Addr)
	c := claim{request: i, entry: entry{sum: h.sum(node), node: node}}
	first := true
	for _, candidate := range m.requests[i].Candidates {
		if candidate.Node != node {
			continue
		}
		if first || candidate.Weight > c.weight {
			c.weight = candidate.Weight
		}
		c.holds = c.holds || candidate.holds
		first = false
	}
	return c
}

// propose lets every address try its candidates in order; a node that is full
// sends the worst away, which goes on trying. It returns the addresses that
// nobody took, in order.
func (m *matching) propose() (left []int) {
	tried := make([]int, len(m.decisions))
	for i := range m.decisions {
		for suitor := i; suitor >= 0; {
			candidates := m.decisions[suitor].Candidates
			if tried[suitor] == len(candidates) {
				if len(candidates) > 0 {
					left = append(left, suitor)
				}
				break
			}
			node := candidates[tried[suitor]]
			tried[suitor]++
			suitor = m.take(node, m.claim(suitor, node))
		}
	}
	slices.Sort(left)
	return left
}

// take gives an address to a node. It returns the address that has to go
// instead, -1 if none.
func (m *matching) take(node string, c claim) (sentAway int) {
	claims := m.claims[node]
	at, _ := slices.BinarySearchFunc(claims, c, compareClaims)
	claims = slices.Insert(claims, at, c)
	sentAway = -1
	if last := len(claims) - 1; last >= m.bound {
		sentAway = claims[last].request
		claims = claims[:last]
	}
	m.claims[node] = claims
	return sentAway
}

// squeeze finds a place for address i, all of whose candidates are full: along
// the shortest chain of addresses that can move on to another candidate, up to a
// node with room. If there is none, no distribution keeps the bound, and it is
// raised by one.
func (m *matching) squeeze(i int) {
	candidates := m.decisions[i].Candidates
	via := make(map[string]step) // the address that would move to the node
	queue := make([]string, 0, len(candidates))
	reach := func(request int, from string) {
		for _, node := range m.decisions[request].Candidates {
			if _, seen := via[node]; !seen {
				via[node] = step{request: request, from: from}
				queue = append(queue, node)
			}
		}
	}
	reach(i, "")
	for ; len(queue) > 0; queue = queue[1:] {
		node := queue[0]
		if len(m.claims[node]) < m.bound {
			m.shift(node, via)
			return
		}
		for _, c := range m.claims[node] {
			reach(c.request, node)
		}
	}
	m.bound++
	m.take(candidates[0], m.claim(i, candidates[0]))
}

// step moves an address away from a node, which is empty for an address that
// has no place yet.
type step struct {
	request int
	from    string
}

// shift moves the addresses of a chain, the one next to the free place first.
func (m *matching) shift(node string, via map[string]step) {
	for node != "" {
		s := via[node]
		if s.from != "" {
			m.claims[s.from] = slices.DeleteFunc(m.claims[s.from], func(c claim) bool { return c.request == s.request })
		}
		m.take(node, m.claim(s.request, node))
		node = s.from
	}
}
