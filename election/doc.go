// Package election decides which node holds an address.
//
// The decision is a pure function: an address and a set of candidates go in,
// a winner and the reasons against everybody else come out. Nothing is
// remembered and no message is exchanged, so nodes agree whenever they are
// given the same candidates. Who the candidates are is the caller's business
// (package membership is one source).
//
// # Order
//
// Candidates are ordered by weight, highest first, and then by rendezvous
// hashing: ascending SHA-256 digest of
//
//	node + "#" + address
//
// where address is the canonical text of the address (dotted quad for IPv4 and
// for IPv4-mapped IPv6, RFC 5952 for IPv6). This is the order that MetalLB's
// speakers use in layer 2 mode, so a cluster that moves from MetalLB, or runs
// both for a while, keeps its placement.
//
// Rendezvous hashing disturbs as little as possible: when a node that holds
// nothing goes, nothing moves; when a node comes, addresses move only to it.
//
// # Use
//
// [Winner] answers the plain question, without sorting and without allocating:
//
//	holder, ok := election.Winner(addr, []string{"kw-01", "kw-02", "kw-03"})
//
// [Rank] gives the whole order, and [Decide] takes weights and exclusions into
// account and returns a [Decision] that explains itself:
//
//	d := election.Decide(addr, []election.Candidate{
//		{Node: "kw-01", Weight: 40},
//		{Node: "kw-02"},
//		{Node: "kw-03", Reason: election.LinkDown},
//	})
//	if d.Winner == self { ... }
//
// # Limits
//
// Addresses with an IPv6 zone have a meaning on one host only, so no election
// over nodes is possible: they are refused, like the zero [netip.Addr]. Empty
// node names are ignored. A name that is given twice counts once.
//
// All functions may be called concurrently. The package keeps no state and
// imports the standard library only.
package election
