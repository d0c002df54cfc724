// Package membership tells which nodes are alive, and what they say of
// themselves.
//
// A [Cluster] is a member of a gossip cluster (hashicorp/memberlist, the SWIM
// protocol): nodes probe each other and spread what they learn, so a crash is
// known to everybody some seconds after it happened, without a server in the
// middle. [Static] has the same reading methods and a list that somebody else
// keeps. Package election turns such a list into decisions.
//
//	c, err := membership.New(membership.Config{
//		Name:  "kw-01",                                        // the node's name
//		Bind:  netip.MustParseAddrPort("192.0.2.11:7946"),     // the node's address
//		Keys:  [][]byte{membership.DeriveKey(secret)},         // nil: not encrypted
//		Seeds: membership.Addresses(kw02, kw03),               // the other nodes
//	})
//	if err != nil { ... }
//	go func() { done <- c.Run(ctx) }()                             // until ctx is cancelled
//	for range c.Changed() {
//		decide(c.Members())
//	}
//
// # Reading
//
// Members returns a consistent snapshot, sorted by name, that always contains
// the node itself. Changed is a level, not a queue: it holds one signal at the
// most, and a reader that never comes blocks nobody. All methods may be called
// concurrently, before, during and after Run.
//
// # What members say of themselves
//
// Herald's members gossip whether they are eligible (willing to hold
// addresses, [Cluster.SetEligible]) and which of their links are up
// ([Cluster.SetLinks]). This fits the 512 octets that memberlist allows, with
// hundreds of links: names are sent as hashes. A member that sends no such
// description, as MetalLB's speakers do not, counts as eligible and as having
// every link.
//
// Members that are suspected (their probes went unanswered, but they are not
// given up yet) stay members, because everybody's lists must be the same, as
// MetalLB's are; they are marked.
//
// # Joining and healing
//
// The seeds are asked for and joined when Run begins, again within seconds
// until somebody answers, and then every RejoinInterval: memberlist alone
// never finds the other half again after a partition that lasted longer than
// the memory of the dead (metallb#589). A node may come back under its name
// with another address (memberlist#157).
//
// # Leaving
//
// In order, so that no address is without a holder:
//
//	c.Drain(ctx)  // ineligible, and the others have been told
//	cancel()      // Run leaves the cluster, closes its sockets, joins its goroutines
//
// # Compatibility
//
// With the default profile, label and derivation of the key a Cluster and
// MetalLB's speakers (memberlist 0.5) are members of one cluster.
//
// # Security
//
// Whoever holds a key is trusted with everything: memberlist has no identity
// per node. Without keys, whoever reaches the port is. Keys are rotated
// with [Cluster.SetKeys], in three rounds over all nodes: old and new, new and
// old, new alone. Traffic that cannot be decrypted is refused, logged and
// counted in [Stats].
//
// # Limits
//
// This is failure detection, not consensus: while views differ, decisions
// differ. Member.Suspect is what this node found out with its own probes.
// memberlist's own metrics go to the process-wide sink of
// hashicorp/go-metrics, which discards them unless the program installs
// another; this package does not touch it.
package membership
