package membership

import "sync/atomic"

// Stats is a snapshot of what a [Cluster] has counted since it was made.
type Stats struct {
	// Members is the number of members, this node included.
	Members int
	// Suspects is the number of members that are suspected.
	Suspects int
	// Health is memberlist's measure of this node's own trouble in keeping up:
	// 0 is well, and probes are slowed down by as many intervals. 0 while the
	// node does not run.
	Health int
	// Joined, Left and Updated count what happened to other members: they came;
	// they left or failed; they said something new of themselves.
	Joined, Left, Updated uint64
	// Suspicions counts members that began to be suspected by this node.
	Suspicions uint64
	// Conflicts counts messages in which a second node claimed a name.
	Conflicts uint64
	// Refused counts messages that were sent with another key or label, or
	// without encryption.
	Refused uint64
	// SeedErrors counts failures of the SeedSource.
	SeedErrors uint64
	// JoinAttempts counts seeds that were to be joined, and JoinFailures those
	// that were not reached.
	JoinAttempts, JoinFailures uint64
}

type counters struct {
	joined, left, updated      atomic.Uint64
	suspicions                 atomic.Uint64
	conflicts                  atomic.Uint64
	refused                    atomic.Uint64
	seedErrors                 atomic.Uint64
	joinAttempts, joinFailures atomic.Uint64
}

// Stats returns the counters. It takes no lock that gossip waits for.
func (c *Cluster) Stats() Stats {
	s := Stats{
		Joined:       c.counters.joined.Load(),
		Left:         c.counters.left.Load(),
		Updated:      c.counters.updated.Load(),
		Suspicions:   c.counters.suspicions.Load(),
		Conflicts:    c.counters.conflicts.Load(),
		Refused:      c.counters.refused.Load(),
		SeedErrors:   c.counters.seedErrors.Load(),
		JoinAttempts: c.counters.joinAttempts.Load(),
		JoinFailures: c.counters.joinFailures.Load(),
	}
	for _, m := range c.Members() {
		s.Members++
		if m.Suspect {
			s.Suspects++
		}
	}
	if list := c.list.Load(); list != nil {
		s.Health = list.GetHealthScore()
	}
	return s
}
