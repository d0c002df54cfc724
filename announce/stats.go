package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// A DropReason says why a received frame got no answer.
type DropReason uint8

// The reasons. Frames that the kernel filter holds back are not counted.
const (
	DropMalformed   DropReason = iota + 1 // not what the RFC allows
	DropDestination                       // Ethernet destination is neither ours nor a group
	DropEcho                              // sent by ourselves
	DropNotRequest                        // not an ARP request or neighbour solicitation
	DropHopLimit                          // hop limit is not 255: it came through a router
	DropUnknown                           // asks for an address that we do not hold
	DropLink                              // we hold it, but do not announce it on this link
	DropYielded                           // we hold it, but have yielded it to another host (see Yield)
	numReasons      = iota + 1
)

// String returns a short word, fit for a metric label.
func (r DropReason) String() string {
	switch r {
	case DropMalformed:
		return "malformed"
	case DropDestination:
		return "destination"
	case DropEcho:
		return "echo"
	case DropNotRequest:
		return "notRequest"
	case DropHopLimit:
		return "hopLimit"
	case DropUnknown:
		return "unknown"
	case DropLink:
		return "link"
	case DropYielded:
		return "yielded"
	default:
		return fmt.Sprintf("DropReason(%d)", uint8(r))
	}
}

// Stats are counters since the start, and what is served at the moment. They
// are read one by one, so they need not agree exactly with each other.
type Stats struct {
	Addresses []AddrStats // by address
	Links     []LinkStats // by name
	Drops     map[DropReason]uint64
	Errors    ErrorStats
}

// AddrStats are the counters of one held address since it is held.
type AddrStats struct {
	Addr       netip.Addr
	Owners     []Owner  // who asks for it, sorted
	Links      []string // where it is announced, sorted; nil: on every link
	Requests   uint64   // questions for it
	Replies    uint64   // answers sent
	Gratuitous uint64   // gratuitous frames sent: two a round for IPv4, one for IPv6, on each link

	Claims    uint64 // frames in which another host claimed it, during moves too
	Conflicts uint64 // conflicts that began; see Conflicts

	// OnLinks are the same counters by link, sorted by its name, for the links in use.
	// Those of a link that is gone are in the sums only.
	OnLinks []AddrLinkStats
}

// AddrLinkStats are the counters of one held address on one link.
type AddrLinkStats struct {
	Link                          string
	Requests, Replies, Gratuitous uint64
	Claims, Conflicts             uint64
}

// LinkStats says how well an eligible link is served. A link in use with ARP or
// NDP false cannot answer for that family at present; it is being retried.
type LinkStats struct {
	Name          string
	ARP, NDP      bool // the socket is open
	Groups        int  // solicited-node groups joined
	GroupsMissing int  // groups that are wanted but not joined (yet)

	// Drops are the frames that got no answer, since the link is in use.
	Drops map[DropReason]uint64
}

// ErrorStats count failures by what failed.
type ErrorStats struct {
	Listen uint64 // a socket could not be opened
	Read   uint64
	Write  uint64
	Join   uint64 // a group could not be joined or left
	Links  uint64 // the links could not be listed
	Filter uint64 // the kernel refused a filter
}

// counters are what Stats reads, but for the tenures and the lanes.
type counters struct {
	drops                                   [numReasons]atomic.Uint64 // of lanes that are no more
	listen, read, write, join, list, filter atomic.Uint64
}

// Stats returns the counters.
func (a *Announcer) Stats() Stats {
	a.mu.Lock() // a lane must not be released in between: what it counted would be missing, or count twice
	defer a.mu.Unlock()
	t := a.table.Load()
	s := Stats{
		Addresses: make([]AddrStats, 0, t.len()),
		Links:     make([]LinkStats, 0, len(a.ports)),
		Drops:     dropStats(&a.counters.drops),
		Errors: ErrorStats{
			Listen: a.counters.listen.Load(),
			Read:   a.counters.read.Load(),
			Write:  a.counters.write.Load(),
			Join:   a.counters.join.Load(),
			Links:  a.counters.list.Load(),
			Filter: a.counters.filter.Load(),
		},
	}
	for _, p := range a.ports {
		s.Links = append(s.Links, p.stats())
	}
	for e := range t.all {
		s.Addresses = append(s.Addresses, a.addrStats(e))
	}
	for _, l := range a.lanes {
		if l != nil {
			for why, n := range dropStats(&l.drops) {
				s.Drops[why] += n
			}
		}
	}
	slices.SortFunc(s.Addresses, func(a, b AddrStats) int { return a.Addr.Compare(b.Addr) })
	slices.SortFunc(s.Links, func(a, b LinkStats) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// addrStats sums up the cells of an entry. The caller holds Announcer.mu.
func (a *Announcer) addrStats(e *entry) AddrStats {
	s := AddrStats{
		Addr:       e.addr,
		Owners:     slices.Clone(e.owners),
		Links:      slices.Clone(e.links),
		Requests:   e.gone.requests.Load(),
		Replies:    e.gone.replies.Load(),
		Gratuitous: e.gone.gratuitous.Load(),
		Claims:     e.gone.claims.Load(),
		Conflicts:  e.gone.conflicts.Load(),
	}
	for slot, l := range a.lanes {
		c := e.find(slot)
		if l == nil || c == nil {
			continue
		}
		on := AddrLinkStats{
			Link: l.name, Requests: c.requests.Load(), Replies: c.replies.Load(), Gratuitous: c.gratuitous.Load(),
			Claims: c.claims.Load(), Conflicts: c.conflicts.Load(),
		}
		s.OnLinks = append(s.OnLinks, on)
		s.Requests += on.Requests
		s.Replies += on.Replies
		s.Gratuitous += on.Gratuitous
		s.Claims += on.Claims
		s.Conflicts += on.Conflicts
	}
	slices.SortFunc(s.OnLinks, func(a, b AddrLinkStats) int { return strings.Compare(a.Link, b.Link) })
	return s
}

// dropStats returns the reasons that have occurred.
func dropStats(drops *[numReasons]atomic.Uint64) map[DropReason]uint64 {
	out := make(map[DropReason]uint64)
	for r := DropReason(1); r < numReasons; r++ {
		if n := drops[r].Load(); n > 0 {
			out[r] = n
		}
	}
	return out
}
