package bfd

import (
	"math/rand/v2"
	"time"
)

// slow is the least transmit interval of a session that is not up (RFC 5880
// section 6.8.3).
const slow = time.Second

// A session is the state machine of RFC 5880 section 6.8. It does no I/O and
// does not look at the clock: what it does depends on its methods' arguments and
// on rand alone.
type session struct {
	peer Peer // normalized
	rand *rand.Rand

	local  uint32 // bfd.LocalDiscr
	state  State
	diag   Diag
	since  time.Time // of state
	failed bool      // see Status.Failed
	ups    uint64
	downs  uint64

	// What packets advertise, and what timers go by. They differ while a poll
	// sequence has not ended.
	desiredTx, requiredRx time.Duration
	usedTx, usedRx        time.Duration

	// What the last packet said; it came at the time heard. remote is zero while
	// nothing is heard.
	remote            uint32
	remoteState       State
	remoteDiag        Diag
	remoteMult        uint8
	remoteTx          time.Duration
	remoteRx          time.Duration
	remoteDemand      bool
	remoteIndependent bool
	heard             time.Time

	// polling says that a poll sequence is under way. An answer does not say which
	// question it is for; so polls without answer are counted, and as many answers
	// as there were such polls when the advertised values changed are taken for
	// answers to older ones.
	polling    bool
	unanswered int
	stale      int

	final  bool // a poll of the remote system waits for its answer
	urgent bool // a change of state waits to be told

	interval time.Duration // that sendAt was made with
	sentAt   time.Time     // last periodic packet
	sendAt   time.Time     // next
}

func newSession(now time.Time, peer Peer, discriminator uint32, r *rand.Rand) *session {
	s := &session{
		peer: peer, rand: r, local: discriminator,
		state: Down, remoteState: Down, since: now, sendAt: now,
		remoteRx: time.Microsecond, // RFC 5880 section 6.8.1
	}
	if peer.Disabled {
		s.state, s.diag = AdminDown, DiagAdminDown
	}
	s.advertise()
	return s
}

// configure takes new parameters. The session stays what it is; the remote
// system learns of new intervals by a poll sequence.
func (s *session) configure(now time.Time, peer Peer) {
	s.peer = peer
	switch {
	case peer.Disabled && s.state != AdminDown:
		s.disable(now)
	case !peer.Disabled && s.state == AdminDown:
		s.setState(now, Down, s.diag)
	default:
		s.advertise()
	}
}

// disable takes the session down administratively (RFC 5880 section 6.8.16).
func (s *session) disable(now time.Time) {
	s.failed = false
	s.setState(now, AdminDown, DiagAdminDown)
}

// receive takes a packet that belongs to the session (RFC 5880 section 6.8.6).
func (s *session) receive(now time.Time, p Packet) {
	s.heard = now
	s.remote, s.remoteState, s.remoteDiag = p.MyDiscriminator, p.State, p.Diag
	s.remoteMult, s.remoteTx, s.remoteRx = p.Multiplier, p.DesiredMinTx, p.RequiredMinRx
	s.remoteDemand, s.remoteIndependent = p.Demand, p.Independent
	if p.Final {
		s.answered()
	}
	s.reschedule()
	switch {
	case s.state == AdminDown:
		return // without an answer to a poll: the packet counts as discarded
	case p.State == AdminDown:
		s.failed = false
		if s.state != Down {
			s.setState(now, Down, DiagNeighborDown)
		}
	case s.state == Down && p.State == Down:
		s.setState(now, Init, DiagNone)
	case s.state == Down && p.State == Init, s.state == Init && p.State >= Init:
		s.setState(now, Up, DiagNone)
	case s.state == Up && p.State == Down:
		s.failed = true
		s.setState(now, Down, DiagNeighborDown)
	}
	if p.Poll {
		s.final = true
	}
}

// answered takes the answer to a poll. When the remote system must know the new
// values they take effect and the sequence ends.
func (s *session) answered() {
	switch {
	case s.unanswered == 0: // nobody asked
		return
	case s.stale > 0:
		s.stale--
	default:
		s.polling = false
		s.usedTx, s.usedRx = s.desiredTx, s.requiredRx
	}
	s.unanswered--
}

// detection returns how long silence is borne; zero while there is nothing that
// could fall silent (RFC 5880 section 6.8.4).
func (s *session) detection() time.Duration {
	if s.remote == 0 {
		return 0
	}
	return time.Duration(s.remoteMult) * max(s.usedRx, s.remoteTx)
}

// expire notices that the remote system has been silent for too long.
func (s *session) expire(now time.Time) {
	if s.remote == 0 || now.Sub(s.heard) < s.detection() {
		return
	}
	// What is known of the remote system is void, but for its state: after
	// AdminDown silence is no failure.
	s.remote, s.remoteDemand, s.remoteRx = 0, false, time.Microsecond
	s.polling, s.unanswered, s.stale, s.final = false, 0, 0, false
	s.usedTx, s.usedRx = s.desiredTx, s.requiredRx
	if s.state == Init || s.state == Up {
		s.failed = s.failed || s.state == Up
		s.setState(now, Down, DiagTimeExpired)
	}
	s.reschedule()
}

func (s *session) setState(now time.Time, state State, diag Diag) {
	if s.state == Up {
		s.downs++
	}
	switch state {
	case Up:
		s.ups++
		s.failed = false
	case Down, AdminDown:
		s.diag = diag // RFC 5880 section 6.8.1: it outlives the next Up
	case Init:
	}
	s.state, s.since, s.urgent = state, now, true
	s.advertise()
}

// advertise sets the intervals that packets carry, and starts a poll sequence if
// they have changed (RFC 5880 section 6.8.3).
func (s *session) advertise() {
	tx, rx := s.peer.Transmit, s.peer.Receive
	if s.state != Up {
		tx = max(tx, slow)
	}
	if tx != s.desiredTx || rx != s.requiredRx {
		s.desiredTx, s.requiredRx = tx, rx
		if s.remote != 0 { // else nobody would answer
			s.polling, s.stale = true, s.unanswered
		}
	}
	if s.state == Up && s.polling {
		// Neither may the remote system be sent too little for what it still
		// expects, nor may it be expected to send more than it knows of.
		s.usedTx, s.usedRx = min(s.usedTx, tx), max(s.usedRx, rx)
	} else {
		s.usedTx, s.usedRx = tx, rx
	}
	s.reschedule()
}

// transmission returns the time between periodic packets, before jitter.
func (s *session) transmission() time.Duration { return max(s.usedTx, s.remoteRx) }

// reschedule moves the next packet if the interval is not what it was.
func (s *session) reschedule() {
	if t := s.transmission(); t != s.interval {
		s.interval = t
		if !s.sentAt.IsZero() {
			s.sendAt = s.sentAt.Add(s.jittered())
		}
	}
}

// jittered returns the interval less up to a quarter, so that packets of many
// sessions do not fall into step. With a multiplier of one, at least a tenth is
// taken (RFC 5880 section 6.8.7).
func (s *session) jittered() time.Duration {
	least, most := s.interval*3/4, s.interval
	if s.peer.Multiplier == 1 {
		most = s.interval * 9 / 10
	}
	return least + time.Duration(s.rand.Int64N(int64(most-least)+1))
}

// silent says that nothing at all may be sent.
func (s *session) silent() bool { return s.peer.Passive && s.remote == 0 }

// periodic says that packets are sent by the clock (RFC 5880 section 6.8.7).
func (s *session) periodic() bool {
	demand := s.remoteDemand && s.state == Up && s.remoteState == Up
	return s.remoteRx != 0 && (!demand || s.polling)
}

// emit returns a packet that is to be sent now, if there is one. It is called
// until there is none.
func (s *session) emit(now time.Time) (Packet, bool) {
	switch {
	case s.silent():
		s.final, s.urgent = false, false
		return Packet{}, false
	case s.final:
		s.final, s.urgent = false, false
		p := s.packet()
		p.Poll, p.Final = false, true
		return p, true
	case s.urgent, s.periodic() && !now.Before(s.sendAt):
		s.urgent = false
		s.sentAt, s.sendAt = now, now.Add(s.jittered())
		if s.polling {
			s.unanswered++
		}
		return s.packet(), true
	}
	return Packet{}, false
}

// packet returns what there is to say.
func (s *session) packet() Packet {
	return Packet{
		Diag:              s.diag,
		State:             s.state,
		Poll:              s.polling,
		Multiplier:        uint8(s.peer.Multiplier),
		MyDiscriminator:   s.local,
		YourDiscriminator: s.remote,
		DesiredMinTx:      s.desiredTx,
		RequiredMinRx:     s.requiredRx,
	}
}

// nextSend returns when emit has something by the clock.
func (s *session) nextSend() time.Time {
	if s.silent() || !s.periodic() {
		return never()
	}
	return s.sendAt
}

// expiry returns when expire has something to do if no packet comes.
func (s *session) expiry() time.Time {
	if s.remote == 0 {
		return never()
	}
	return s.heard.Add(s.detection())
}

// never is later than anything that is to be done.
func never() time.Time { return time.Unix(1<<40, 0) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
