package gobgp

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/heraldlb/herald/bgp"
)

// session is what the engine, the worker of one peer, and GoBGP's goroutines
// share. Its methods never wait for anything but its lock.
type session struct {
	engine  *Engine
	wake    chan struct{} // something below has changed
	gone    chan struct{} // closed when the peer is no longer wanted
	started bool          // has a worker; guarded by the engine's lock

	mu     sync.Mutex
	want   bgp.Peer
	path   bgp.Path
	status bgp.Session
	all    bool             // every prefix is to be looked at
	queue  [][]netip.Prefix // prefixes to be looked at, if not all

	// What GoBGP has said since the worker looked last.
	fsm fsmEvents
}

// fsmEvents are the changes of GoBGP's state machine.
type fsmEvents struct {
	state   bgp.State
	ups     uint64 // times that the session came up
	failure string // why it went, or did not come up; empty: nothing new
	fatal   string // why it must not go on
}

func newSession(e *Engine, p bgp.Peer) *session {
	return &session{
		engine: e, want: p, all: true,
		wake:   make(chan struct{}, 1),
		gone:   make(chan struct{}),
		status: bgp.Session{Peer: p.Name, Addr: p.Addr, State: bgp.Connecting, Since: time.Now()},
	}
}

func (s *session) setPeer(p bgp.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.want.Equal(&p) {
		s.want = p
		signal(s.wake)
	}
}

func (s *session) setPath(p bgp.Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != p {
		s.path = p
		signal(s.wake)
	}
}

func (s *session) desired() (bgp.Peer, bgp.Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want, s.path
}

// enqueue has the worker look at prefixes. The slice is shared and not changed.
func (s *session) enqueue(prefixes []netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all {
		s.queue = append(s.queue, prefixes)
	}
	signal(s.wake)
}

// lookAtAll has the worker look at every prefix.
func (s *session) lookAtAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.queue = true, nil
	signal(s.wake)
}

// next takes up to n prefixes off the queue. All says that every prefix is meant.
func (s *session) next(n int) (prefixes []netip.Prefix, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		s.all = false
		return nil, true
	}
	for len(s.queue) > 0 && len(prefixes) < n {
		k := min(n-len(prefixes), len(s.queue[0]))
		prefixes = append(prefixes, s.queue[0][:k]...)
		if s.queue[0] = s.queue[0][k:]; len(s.queue[0]) == 0 {
			s.queue[0] = nil
			s.queue = s.queue[1:]
		}
	}
	return prefixes, false
}

// fill puts prefixes at the front of the queue.
func (s *session) fill(prefixes []netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all && len(prefixes) > 0 {
		s.queue = slices.Insert(s.queue, 0, prefixes)
	}
}

// moved is called by GoBGP, with locks held, when its state machine has moved.
func (s *session) moved(state bgp.State, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.fsm.state
	s.fsm.state = state
	switch {
	case state == bgp.Established:
		s.fsm.ups++
	case state == bgp.Connecting && (before == bgp.Established || before == bgp.Opening):
		s.fsm.failure = reason
	}
	signal(s.wake)
}

// failed is called by GoBGP when an attempt has failed.
func (s *session) failed(reason string, fatal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fsm.failure = reason
	if fatal {
		s.fsm.fatal = reason
	}
	signal(s.wake)
}

// opening reports whether the two sides are negotiating.
func (s *session) opening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fsm.state == bgp.Opening
}

// forget drops what the server before has said.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fsm = fsmEvents{}
}

// events returns what GoBGP has said since the last call.
func (s *session) events() fsmEvents {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev := s.fsm
	s.fsm.ups, s.fsm.failure, s.fsm.fatal = 0, "", ""
	return ev
}

// edit changes the status. A change other than of counters is notified.
func (s *session) edit(f func(*bgp.Session)) {
	s.mu.Lock()
	before := s.status
	f(&s.status)
	after := s.status
	if after.State != before.State {
		s.status.Since = time.Now()
	}
	if after.LastError != before.LastError {
		s.status.LastErrorTime = time.Now()
	}
	s.mu.Unlock()
	before.Counters, before.Pending = after.Counters, after.Pending
	if before != after {
		signal(s.engine.changed)
	}
}

func (s *session) snapshot() bgp.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Pending = 0
	for _, q := range s.queue {
		status.Pending += len(q)
	}
	return status
}
