package bgp

import (
	"net/netip"
	"time"
)

// State is that of a session.
type State string

const (
	// Held is a session that the engine does not try to bring up; LastError says
	// why: a password file that is missing, a path that is down.
	Held State = "held"
	// Connecting is a session that is tried and is not there: Idle, Connect and
	// Active of RFC 4271 section 8.
	Connecting State = "connecting"
	// Opening is a session with a connection that negotiates: OpenSent and OpenConfirm.
	Opening State = "opening"
	// Established is a session that carries routes.
	Established State = "established"
)

// Session is a snapshot of one session.
type Session struct {
	Peer  string     // name
	Addr  netip.Addr // of the peer; found out where the peer is an interface
	State State
	// Since is when the state was entered; the uptime of an established session
	// is counted from it.
	Since time.Time
	// LastError says why the session is not there, or why it went last. Empty
	// when it never failed.
	LastError     string
	LastErrorTime time.Time

	// What was negotiated; zero while the session is not established.
	Negotiated Negotiated

	// Announced is the number of prefixes that the peer has been given, and
	// Pending how many changes wait for it.
	Announced, Pending int
	// Withheld is the number of prefixes that the peer should get and does not,
	// because there is no next hop for them; WithheldReason names what is missing.
	Withheld       int
	WithheldReason string

	Counters Counters
}

// Negotiated is what both sides of a session have agreed on.
type Negotiated struct {
	LocalAddr           netip.Addr
	PeerASN             uint32
	PeerRouterID        netip.Addr
	Hold, Keepalive     time.Duration
	Families            Families
	GracefulRestart     bool          // the peer keeps routes when the session breaks
	PeerRestartTime     time.Duration // the time that the peer asks for itself
	ExtendedNextHop     bool          // IPv4 routes may have IPv6 next hops (RFC 8950)
	FourOctetASN        bool          // RFC 6793
	NotificationRestart bool          // RFC 8538
}

// Counters count since the peer was set. They never go back.
type Counters struct {
	Established uint64 // times that the session came up
	Announced   uint64 // prefixes announced, repetitions included
	Withdrawn   uint64 // prefixes withdrawn

	Sent, Received Messages
}

// Messages counts BGP messages by type.
type Messages struct {
	Open, Update, Notification, Keepalive, RouteRefresh, Total uint64
}

// Add returns the sum.
func (m Messages) Add(o Messages) Messages {
	return Messages{
		Open: m.Open + o.Open, Update: m.Update + o.Update, Notification: m.Notification + o.Notification,
		Keepalive: m.Keepalive + o.Keepalive, RouteRefresh: m.RouteRefresh + o.RouteRefresh, Total: m.Total + o.Total,
	}
}

// Stats sums up the sessions of an engine.
type Stats struct {
	Sessions, Established int
	Routes                int // prefixes that are to be announced to anybody
	Counters              Counters
}

// Summarize counts sessions; routes is left to the engine.
func Summarize(sessions []Session) Stats {
	var s Stats
	for i := range sessions {
		c := &sessions[i].Counters
		s.Sessions++
		if sessions[i].State == Established {
			s.Established++
		}
		s.Counters.Established += c.Established
		s.Counters.Announced += c.Announced
		s.Counters.Withdrawn += c.Withdrawn
		s.Counters.Sent = s.Counters.Sent.Add(c.Sent)
		s.Counters.Received = s.Counters.Received.Add(c.Received)
	}
	return s
}
