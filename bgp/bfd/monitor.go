package bfd

import (
	cryptorand "crypto/rand"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a [Monitor]. The zero value is good.
type Config struct {
	// Transport carries the packets. Nil means UDP sockets of the kernel.
	Transport Transport

	// Rand is the source of discriminators and jitter. Nil means one that is seeded
	// and cannot be predicted. It is used by one goroutine at a time.
	Rand *rand.Rand

	// Logger gets changes of sessions (Info) and sockets that fail and are tried
	// again (Warn). Nil discards.
	Logger *slog.Logger
}

// A Monitor runs sessions with a set of peers. Its methods may be called
// concurrently, before, during and after Run.
type Monitor struct {
	log       *slog.Logger
	transport Transport
	changed   chan struct{} // capacity 1, for the user
	wake      chan struct{} // capacity 1, for the loop
	started   atomic.Bool

	mu        sync.Mutex
	rand      *rand.Rand
	entries   []*entry // in the order of their keys
	byAddr    map[netip.Addr][]*entry
	byDiscr   map[uint32]*entry
	listeners map[port]*listener
	planned   time.Time // when the loop will look by itself
	stats     Stats
	in        [bufferSize]byte
	out       []byte
}

// An entry is a session and its link to the world.
type entry struct {
	*session
	sender Sender // nil until dialed
	redial time.Time
	err    error
	auth   authState

	sent, received, discarded uint64
}

// Status is a snapshot of a session.
type Status struct {
	// Peer is as configured, with defaults filled in.
	Peer Peer

	State State
	Since time.Time // when State was entered

	// Diag is why the session went down the last time. It is not reset when the
	// session comes up.
	Diag Diag

	// Failed says that the path has failed: the session was up and went down, and
	// neither system did that on purpose. It ends when the session is up again or
	// either system says AdminDown, which is no failure (RFC 5882 section 3.2).
	Failed bool

	// Ups and Downs count how often the session came up and ceased to be up, so
	// that a short interruption is seen although State is up again.
	Ups, Downs uint64

	// Transmit is the negotiated time between packets sent, before jitter. Detect
	// is how long silence of the remote system is borne; zero while it is silent.
	Transmit, Detect time.Duration

	// What the remote system said last. Independent is its C bit: its BFD does not
	// share fate with its control plane, so that a failure is one of the path even
	// during a graceful restart (RFC 5882 section 4.3). This package never sets it.
	RemoteState         State
	RemoteDiag          Diag
	RemoteIndependent   bool
	RemoteMultiplier    int
	RemoteTransmit      time.Duration // Desired Min TX Interval
	RemoteReceive       time.Duration // Required Min RX Interval
	RemoteDiscriminator uint32        // zero while the remote system is silent
	Discriminator       uint32

	// Packets. Those that belong to the session but have a TTL that is too small or
	// are not authentic are Discarded and not Received.
	Sent, Received, Discarded uint64

	// Err is why packets cannot be sent or received at present; it is being
	// retried.
	Err error
}

// Stats count what belongs to no single session.
type Stats struct {
	// Packets that were discarded, by reason.
	Malformed       uint64 // see ParsePacket
	UnknownSession  uint64 // of no session, or on the wrong path
	TTL             uint64 // TTL too small
	Unauthenticated uint64 // wrong or missing authentication, or a replay

	SendErrors uint64
}

// New validates the configuration. It opens nothing; Run does.
func New(cfg Config) (*Monitor, error) {
	if cfg.Transport == nil {
		cfg.Transport = kernelUDP()
	}
	if cfg.Rand == nil {
		var seed [32]byte
		_, _ = cryptorand.Read(seed[:]) // it does not fail
		cfg.Rand = rand.New(rand.NewChaCha8(seed))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Monitor{
		log:       cfg.Logger,
		transport: cfg.Transport,
		rand:      cfg.Rand,
		changed:   make(chan struct{}, 1),
		wake:      make(chan struct{}, 1),
		byAddr:    make(map[netip.Addr][]*entry),
		byDiscr:   make(map[uint32]*entry),
		listeners: make(map[port]*listener),
	}, nil
}

// SetPeers replaces the set of peers. Sessions of peers that stay go on, up if
// they are: new intervals are agreed by a poll sequence (RFC 5880 section 6.8.3).
// Peers that are gone are told AdminDown. Equal input does nothing.
//
// If a peer is at fault or given twice the whole set is refused, and the error
// joins a *[PeerError] for each. Peers that cannot be reached, or whose interface
// does not exist, are no error.
func (m *Monitor) SetPeers(peers []Peer) error {
	wanted, err := normalizeAll(peers)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var kept []*entry
	for _, e := range m.entries {
		peer, ok := wanted[e.peer.key()]
		if !ok {
			m.remove(now, e)
			continue
		}
		kept = append(kept, e)
		delete(wanted, peer.key())
		if peer != e.peer {
			if peer.Auth != e.peer.Auth {
				e.auth.known = false
			}
			m.update(e, func() { e.configure(now, peer) })
			m.flush(e, now)
		}
	}
	if len(wanted) == 0 && len(kept) == len(m.entries) {
		m.hurry()
		return nil
	}
	for _, peer := range wanted {
		e := &entry{session: newSession(now, peer, m.discriminator(), m.rand)}
		e.auth.sent = m.rand.Uint32()
		m.byDiscr[e.local] = e
		kept = append(kept, e)
	}
	slices.SortFunc(kept, func(a, b *entry) int { return a.peer.key().compare(b.peer.key()) })
	m.entries = kept
	clear(m.byAddr)
	for _, e := range kept {
		m.byAddr[e.peer.Addr] = append(m.byAddr[e.peer.Addr], e)
	}
	notify(m.changed)
	notify(m.wake)
	return nil
}

// remove says goodbye to a peer and forgets its session.
func (m *Monitor) remove(now time.Time, e *entry) {
	m.goodbye(now, e)
	delete(m.byDiscr, e.local)
	e.close()
}

// goodbyes is how many packets say AdminDown to a peer whose session ends. They
// stand for those of a whole detection time, for which nobody waits.
const goodbyes = 3

// goodbye tells the remote system, if it is there, that this end is no failure.
func (m *Monitor) goodbye(now time.Time, e *entry) {
	if e.state != AdminDown {
		m.update(e, func() { e.disable(now) })
	}
	if e.remote == 0 {
		return
	}
	for range goodbyes {
		m.send(e, e.packet())
	}
}

// discriminator returns a number that no session has.
func (m *Monitor) discriminator() uint32 {
	for {
		d := m.rand.Uint32()
		if _, taken := m.byDiscr[d]; d != 0 && !taken {
			return d
		}
	}
}

// Sessions returns the sessions by address.
func (m *Monitor) Sessions() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Status, len(m.entries))
	for i, e := range m.entries {
		out[i] = e.status()
	}
	return out
}

func (e *entry) status() Status {
	return Status{
		Peer: e.peer, State: e.state, Since: e.since, Diag: e.diag, Failed: e.failed, Ups: e.ups, Downs: e.downs,
		Transmit: e.transmission(), Detect: e.detection(),
		RemoteState: e.remoteState, RemoteDiag: e.remoteDiag, RemoteIndependent: e.remoteIndependent,
		RemoteMultiplier: int(e.remoteMult), RemoteTransmit: e.remoteTx, RemoteReceive: e.remoteRx,
		RemoteDiscriminator: e.remote, Discriminator: e.local,
		Sent: e.sent, Received: e.received, Discarded: e.discarded, Err: e.err,
	}
}

// Changed carries a token after something has changed in the result of Sessions
// other than counters. It has a capacity of one and is for one receiver.
func (m *Monitor) Changed() <-chan struct{} { return m.changed }

// Stats returns the counters.
func (m *Monitor) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// update lets f change a session and tells the user what came of it.
func (m *Monitor) update(e *entry, f func()) {
	before := e.status()
	f()
	after := e.status()
	if after.State != before.State {
		m.log.Info("session changed", "peer", e.peer, "state", after.State.String(), "was", before.State.String(), "diag", after.Diag.String(),
			"remoteState", after.RemoteState.String(), "remoteDiag", after.RemoteDiag.String())
	}
	before.Err, after.Err = nil, nil // may not be comparable
	if before != after {
		notify(m.changed)
	}
}

// setErr notes whether packets of a session can be sent and received.
func (m *Monitor) setErr(e *entry, err error) {
	if err != nil && (e.err == nil || e.err.Error() != err.Error()) {
		m.log.Warn("session is impaired, will retry", "peer", e.peer, "err", err)
	}
	if (err == nil) != (e.err == nil) {
		notify(m.changed)
	}
	e.err = err
}

// hurry makes the loop look at the sessions, if it would not in time.
func (m *Monitor) hurry() {
	for _, e := range m.entries {
		if e.next().Before(m.planned) {
			notify(m.wake)
			return
		}
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
