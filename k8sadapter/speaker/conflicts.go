package speaker

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/heraldlb/herald/announce"
)

// ConflictDetector is what an Announcer has in addition that notices other hosts which claim its addresses.
// ConflictsChanged is a level signal of capacity 1: after it, Conflicts is read anew.
type ConflictDetector interface {
	Conflicts() []announce.Conflict
	ConflictsChanged() <-chan struct{}
}

// conflictsChanged is the signal of the announcer; nil when it does not detect conflicts.
func (s *Speaker) conflictsChanged() <-chan struct{} {
	if detector, ok := s.cfg.Announcer.(ConflictDetector); ok {
		return detector.ConflictsChanged()
	}
	return nil
}

// conflicts says for every address in conflict who claims it, for people. The text changes only when something begins or
// ends, not with every claim.
func (s *Speaker) conflicts() map[netip.Addr]string {
	detector, ok := s.cfg.Announcer.(ConflictDetector)
	if !ok {
		return nil
	}
	parts := make(map[netip.Addr][]string)
	for _, c := range detector.Conflicts() { // sorted by address and link
		part := fmt.Sprintf("%s on link %q", c.MAC, c.Link)
		if c.Yielded {
			part += " (left to it, by --conflict-policy yield)"
		}
		parts[c.Addr] = append(parts[c.Addr], part)
	}
	texts := make(map[netip.Addr]string, len(parts))
	for addr, claimants := range parts {
		texts[addr] = fmt.Sprintf("node %q announces %s, but another host claims it: %s", s.cfg.Node, addr, strings.Join(claimants, ", "))
	}
	return texts
}
