// Package election decides which node holds an address.
//
// The decision is a pure function: an address and a set of candidates go in,
// a winner and the reasons against everybody else come out. No message is
// exchanged, so nodes agree whenever they are given the same candidates. Who the
// candidates are is the caller's business (package membership is one source).
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
// A program with many addresses keeps a [Table]: it has the winners of Decide,
// and a node that comes or goes costs what it can move instead of a hash for
// every pair of an address and a node:
//
//	t := election.NewTable(election.TableConfig{Addrs: addrs, Nodes: nodes})
//	for _, move := range t.Leave("kw-02") { ... }
//
// # Strategies
//
// A [Strategy] decides on all addresses at once. [Hash] is the order above
// without weights, [Preferred] with them. [Bounded] lets no node hold much more
// than its share, which costs more moves when nodes come and go. [Sticky] leaves
// an address where it is until its holder goes, which needs to be told who holds
// it. All nodes of a cluster must use the same one.
//
// The unit of every election is the address, never the service: whoever shares
// an address shares its holder.
//
// # Flapping nodes
//
// A node that restarts again and again moves its addresses twice each time. A
// [Damper] gives such a node a hold-down: it is there, and leaves its addresses
// to the others for a while that doubles with each return. It belongs on the
// node itself, which tells the others whether it is eligible; a judgement of
// others by what each of them saw would not be the same everywhere.
//
// # Limits
//
// Addresses with an IPv6 zone have a meaning on one host only, so no election
// over nodes is possible: they are refused, like the zero [netip.Addr]. Empty
// node names are ignored. A name that is given twice counts once.
//
// All functions and strategies may be called concurrently; a [Table] and a
// [Damper] belong to one goroutine. The package keeps no state of its own, reads
// no clock and imports the standard library only.
package election
