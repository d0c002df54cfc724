package election

import (
	"maps"
	"net/netip"
	"slices"
)

// Request asks a [Strategy] for a holder of one address.
type Request struct {
	// Addr is the address. Services that share it are one election: see
	// [Strategy].
	Addr netip.Addr
	// Candidates are the nodes, as for [Decide].
	Candidates []Candidate
	// Holder is the node that holds the address now, empty if nobody does. Only
	// [Sticky] looks at it.
	Holder string
}

// Strategy decides who holds which address.
//
// Elect returns one decision for each request, in their order. It is a pure
// function of the requests, and neither their order nor that of candidates
// matters, so all nodes that are given equal requests decide alike. Requests
// for the same address get the same decision: a node is a candidate if it is
// one in each of them, and its highest weight counts. (IPv4 and its IPv4-mapped
// IPv6 form are the same address.) The decisions share memory with one another
// and must not be changed.
//
// [Hash] is the default; a cluster must not use two strategies at a time.
// Implementations are safe for concurrent use.
type Strategy interface {
	Elect(requests []Request) []Decision
}

// Hash is the strategy of MetalLB: the first in the order of [Rank]. Weights do
// not count.
type Hash struct{}

// Elect implements [Strategy].
func (Hash) Elect(requests []Request) []Decision {
	flat := make([]Request, len(requests))
	for i, r := range requests {
		r.Candidates = slices.Clone(r.Candidates)
		for j := range r.Candidates {
			r.Candidates[j].Weight = 0
		}
		flat[i] = r
	}
	return Preferred{}.Elect(flat)
}

// Preferred is the strategy of [Decide]: weight first, then the order of
// [Hash]. Without weights it is Hash.
type Preferred struct{}

// Elect implements [Strategy].
func (Preferred) Elect(requests []Request) []Decision { return elect(requests, decideEach) }

func decideEach(requests []Request) []Decision {
	decisions := make([]Decision, len(requests))
	for i, r := range requests {
		decisions[i] = Decide(r.Addr, r.Candidates)
	}
	return decisions
}

// Sticky leaves an address where it is while its holder is a candidate. A node
// that comes back takes nothing from the others, which spares connections and
// leaves the load uneven until holders go.
//
// Who holds an address now is an input, [Request.Holder]: it must be the same on
// all nodes, for instance because it is read from the status of a Service. Nodes
// that disagree about it elect different holders. If requests for one address
// name different holders, the first of them in the order of Next stays.
type Sticky struct {
	// Next decides on addresses that do not stay. Nil: [Hash]. With [Bounded],
	// an address stays unless its holder is above the bound.
	Next Strategy
}

// Elect implements [Strategy].
func (s Sticky) Elect(requests []Request) []Decision {
	marked := make([]Request, len(requests))
	for i, r := range requests {
		r.Candidates = slices.Clone(r.Candidates)
		for j := range r.Candidates {
			c := &r.Candidates[j]
			c.holds = c.Node != "" && c.Node == r.Holder
		}
		marked[i] = r
	}
	if s.Next == nil {
		return Hash{}.Elect(marked)
	}
	return s.Next.Elect(marked)
}

// elect lets decide decide on every address once, in the order of addresses,
// and returns the decision for each request.
func elect(requests []Request, decide func([]Request) []Decision) []Decision {
	groups := make(map[netip.Addr][]Request, len(requests))
	for _, r := range requests {
		key := r.Addr.Unmap()
		groups[key] = append(groups[key], r)
	}
	keys := slices.SortedFunc(maps.Keys(groups), netip.Addr.Compare)
	merged := make([]Request, len(keys))
	place := make(map[netip.Addr]int, len(keys))
	for i, key := range keys {
		merged[i] = Request{Addr: key, Candidates: inAll(groups[key])}
		place[key] = i
	}
	decisions := decide(merged)
	out := make([]Decision, len(requests))
	for i, r := range requests {
		out[i] = decisions[place[r.Addr.Unmap()]]
		out[i].Addr = r.Addr
	}
	return out
}

// inAll returns the candidates of requests for one address, in which a node that
// some request does not name is excluded.
func inAll(sharers []Request) []Candidate {
	if len(sharers) == 1 {
		return sharers[0].Candidates
	}
	var all []Candidate
	named := make(map[string]int) // in how many requests
	for _, r := range sharers {
		all = append(all, r.Candidates...)
		here := make(map[string]struct{}, len(r.Candidates))
		for _, c := range r.Candidates {
			here[c.Node] = struct{}{}
		}
		for node := range here {
			named[node]++
		}
	}
	for node, n := range named {
		if n < len(sharers) {
			all = append(all, Candidate{Node: node, Reason: NodeUnknown})
		}
	}
	return all
}
