package announce

import (
	"errors"
	"net/netip"
	"time"
)

// Joins are spread: each makes the kernel send an MLD report.
const (
	joinBatch = 64
	joinPause = 10 * time.Millisecond
)

// memberships keeps one link in the solicited-node groups of the IPv6 addresses
// announced there. Addresses that share a group count as one: the group is left
// when the last of them is gone. It is used by Run's goroutine, except for the
// numbers in a port's stats.
type memberships struct {
	conn    Groups // nil while it could not be opened
	joined  map[netip.Addr]struct{}
	pending []netip.Addr // wanted, not joined, not tried in this pass
	failed  int          // of this pass
	stale   bool         // the wanted groups have changed
}

func newMemberships() *memberships {
	return &memberships{joined: make(map[netip.Addr]struct{}), stale: true}
}

// wantedGroups returns the groups of the addresses in t that link announces.
func wantedGroups(t *table, link string) map[netip.Addr]struct{} {
	wanted := make(map[netip.Addr]struct{})
	for a, e := range t.v6 {
		if e.allows(link) {
			wanted[solicitedNode(a)] = struct{}{}
		}
	}
	return wanted
}

// want starts a pass: it leaves what is no longer wanted and notes what is to be
// joined.
func (m *memberships) want(wanted map[netip.Addr]struct{}) error {
	var errs []error
	for g := range m.joined {
		if _, ok := wanted[g]; ok {
			continue
		}
		delete(m.joined, g)
		if err := m.conn.Leave(g); err != nil {
			errs = append(errs, err)
		}
	}
	m.stale, m.failed, m.pending = false, 0, m.pending[:0]
	for g := range wanted {
		if _, ok := m.joined[g]; !ok {
			m.pending = append(m.pending, g)
		}
	}
	return errors.Join(errs...)
}

// step joins up to limit pending groups and returns how many failed and one of
// the reasons.
func (m *memberships) step(limit int) (failed int, err error) {
	n := min(limit, len(m.pending))
	for _, g := range m.pending[:n] {
		if e := m.conn.Join(g); e != nil {
			failed, err = failed+1, e
			continue
		}
		m.joined[g] = struct{}{}
	}
	m.pending = m.pending[n:]
	m.failed += failed
	return failed, err
}

func (m *memberships) close() error {
	if m.conn == nil {
		return nil
	}
	return m.conn.Close()
}
