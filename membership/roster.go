package membership

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// signal is a level: set at most once until somebody takes it.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// raise never blocks.
func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// roster is the list of members. Writers hold its lock for the time of a map
// access and a copy, readers take none: memberlist calls the writers while it
// holds its own lock, so nothing here may wait or call memberlist.
type roster struct {
	changed  signal
	snapshot atomic.Pointer[[]Member] // sorted, immutable

	mu     sync.Mutex
	self   string
	all    map[string]Member
	frozen bool // the node is leaving: what it saw last stays
}

func newRoster(self Member) *roster {
	r := &roster{changed: newSignal(), self: self.Name, all: map[string]Member{self.Name: self}}
	r.publishLocked()
	return r
}

// members returns a copy of the snapshot.
func (r *roster) members() []Member { return slices.Clone(*r.snapshot.Load()) }

// update changes the member of that name, which it creates if need be. It
// reports whether this made a difference.
func (r *roster) update(name string, change func(m *Member)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updateLocked(name, change)
}

// suspect marks a member, if there is one of that name.
func (r *roster) suspect(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.all[name]; !ok || name == r.self {
		return false
	}
	return r.updateLocked(name, func(m *Member) { m.Suspect = true })
}

// seen takes the mark from the member of that name at that address, if there is
// one.
func (r *roster) seen(name string, addr netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.all[name]; m.Suspect && netip.AddrPortFrom(m.Addr, m.Port) == addr {
		r.updateLocked(name, func(m *Member) { m.Suspect = false })
	}
}

func (r *roster) updateLocked(name string, change func(m *Member)) bool {
	if r.frozen {
		return false
	}
	old, ok := r.all[name]
	m := old
	m.Name = name
	change(&m)
	if ok && m.Equal(old) {
		return false
	}
	r.all[name] = m
	r.publishLocked()
	r.changed.raise()
	return true
}

// remove takes a member out, but never the node itself.
func (r *roster) remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.all[name]; !ok || r.frozen || name == r.self {
		return false
	}
	delete(r.all, name)
	r.publishLocked()
	r.changed.raise()
	return true
}

// freeze ignores all that comes after it. While the node leaves it stops
// hearing of the others; if they vanished from its list it would elect itself
// for everything.
func (r *roster) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// addrs returns where the members are reached.
func (r *roster) addrs() map[netip.AddrPort]bool {
	addrs := make(map[netip.AddrPort]bool)
	for _, m := range *r.snapshot.Load() {
		addrs[netip.AddrPortFrom(m.Addr, m.Port)] = true
	}
	return addrs
}

func (r *roster) publishLocked() {
	snapshot := make([]Member, 0, len(r.all))
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		snapshot = append(snapshot, r.all[name])
	}
	r.snapshot.Store(&snapshot)
}
