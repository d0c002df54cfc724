package election

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
)

// Reason says why a node does not hold an address. The empty Reason says
// nothing against it. The values are the codes that MetalLB's speakers use in
// their logs, where MetalLB knows the case.
type Reason string

// Reasons that concern one candidate.
const (
	// NotOwner: the node is a candidate, another one won. MetalLB's code.
	NotOwner Reason = "notOwner"
	// NoMatchingAdvertisement: no advertisement covers both the service and
	// the node. MetalLB's code.
	NoMatchingAdvertisement Reason = "noMatchingAdvertisement"
	// NodeNetworkUnavailable: the node's condition NetworkUnavailable is True.
	// MetalLB's code.
	NodeNetworkUnavailable Reason = "nodeNetworkUnavailable"
	// NodeLabeledExcludeBalancers: the node carries the label
	// node.kubernetes.io/exclude-from-external-load-balancers. MetalLB's code.
	NodeLabeledExcludeBalancers Reason = "nodeLabeledExcludeBalancers"
	// NoLocalEndpoints: the service's external traffic policy is Local, and the
	// node has no endpoint that can serve. MetalLB's code.
	NoLocalEndpoints Reason = "noLocalEndpoints"
	// NoEndpoints: the service has no endpoint that can serve. MetalLB's code.
	NoEndpoints Reason = "noEndpoints"
	// SharedIPWithServiceSelector: the service may share its address, and an
	// advertisement selects services, so that the sharers could elect
	// different nodes. MetalLB's code.
	SharedIPWithServiceSelector Reason = "sharedIPWithServiceSelector"
	// InvalidIP: no election is possible for the address: it is the zero Addr,
	// or it has a zone. MetalLB's code.
	InvalidIP Reason = "invalidIP"
	// NotMember: nobody hears the node's speaker.
	NotMember Reason = "notMember"
	// NotEligible: the node's speaker says of itself that it must not hold
	// addresses, for instance because it is about to leave.
	NotEligible Reason = "notEligible"
	// LinkDown: the link on which the address would be announced is down on
	// the node, or the node has no such link.
	LinkDown Reason = "linkDown"
	// NodeUnknown: the node takes no part in the decision at all.
	NodeUnknown Reason = "nodeUnknown"
)

// Candidate is a node that may hold an address.
type Candidate struct {
	// Node is the name of the node. A candidate without a name is ignored.
	Node string
	// Weight is the preference for the node: higher goes first, nodes of equal
	// weight go by hash. Zero is the usual value.
	Weight int
	// Reason, unless empty, excludes the node and says why.
	Reason Reason

	holds bool // set by Sticky: goes before all others
}

// Decision is the outcome of an election for one address, with its reasons.
type Decision struct {
	// Addr is the address as it was given to [Decide].
	Addr netip.Addr
	// Winner is the node that holds the address, empty if there is none.
	Winner string
	// Candidates are the eligible nodes in order, the winner first.
	Candidates []string
	// Excluded holds for every other node why it is not a candidate. It is
	// never nil.
	Excluded map[string]Reason
}

// Decide elects a holder for addr among the candidates that no [Reason]
// excludes: by weight, highest first, then in the order of [Rank].
//
// The order of the argument does not matter. If a node is given more than once,
// any reason excludes it (the least in byte order is reported), and otherwise
// its highest weight counts. If addr is not usable (invalid, or with a zone)
// every candidate is excluded with [InvalidIP], unless it has a reason of its
// own.
func Decide(addr netip.Addr, candidates []Candidate) Decision {
	d := Decision{Addr: addr, Excluded: make(map[string]Reason)}
	var h hasher
	usable := h.init(addr)
	for _, c := range candidates {
		reason := c.Reason
		if reason == "" && !usable {
			reason = InvalidIP
		}
		if c.Node == "" || reason == "" {
			continue
		}
		if old, ok := d.Excluded[c.Node]; !ok || reason < old {
			d.Excluded[c.Node] = reason
		}
	}
	if !usable {
		return d
	}
	d.Candidates = rankCandidates(&h, candidates, d.Excluded)
	if len(d.Candidates) > 0 {
		d.Winner = d.Candidates[0]
	}
	return d
}

// rankCandidates returns the names of the candidates that are not excluded, in
// order.
func rankCandidates(h *hasher, candidates []Candidate, excluded map[string]Reason) []string {
	merged := make(map[string]entry, len(candidates))
	for _, c := range candidates {
		if _, out := excluded[c.Node]; out || c.Node == "" {
			continue
		}
		e, ok := merged[c.Node]
		if !ok {
			e = entry{sum: h.sum(c.Node), node: c.Node, weight: c.Weight}
		}
		e.weight, e.holds = max(e.weight, c.Weight), e.holds || c.holds
		merged[c.Node] = e
	}
	entries := order(slices.Collect(maps.Values(merged)))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.node)
	}
	return names
}

// Reason says why node does not hold the address: empty for the winner,
// [NotOwner] for a candidate that did not win, the reason of its exclusion for
// an excluded node, [NodeUnknown] for a node that was no part of the decision.
func (d Decision) Reason(node string) Reason {
	if node != "" && node == d.Winner {
		return ""
	}
	if reason, ok := d.Excluded[node]; ok {
		return reason
	}
	if slices.Contains(d.Candidates, node) {
		return NotOwner
	}
	return NodeUnknown
}

// LogValue makes a Decision short enough for a log line.
func (d Decision) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("addr", d.Addr.String()),
		slog.String("winner", d.Winner),
		slog.Int("candidates", len(d.Candidates)),
		slog.Int("excluded", len(d.Excluded)),
	)
}
