package announce

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Times of conflict detection.
const (
	// DefendInterval is the least time between two defences of an address on a link
	// (DEFEND_INTERVAL of RFC 5227 section 1.1).
	DefendInterval = 10 * time.Second

	// ConflictQuiet is how long a conflict is silent before the link is asked
	// whether another host still has the address. Without an answer it is over.
	ConflictQuiet = time.Minute
)

// A ConflictPolicy says what to do when another host claims an address. It applies
// once a conflict is certain, and not to a ClaimProbe, which is answered.
type ConflictPolicy uint8

// The policies.
const (
	// Report tells of the conflict, and goes on answering.
	Report ConflictPolicy = iota

	// Defend also announces the address once more, at most once in DefendInterval.
	// Two defenders of one address disturb each other for ever, at that rate.
	Defend

	// Yield leaves the address to the other host on that link until the conflict is
	// over: it is neither answered nor announced there. Whoever can send a frame on the
	// link can thus make an address fall silent.
	Yield
)

// String returns "report", "defend" or "yield".
func (p ConflictPolicy) String() string {
	switch p {
	case Report:
		return "report"
	case Defend:
		return "defend"
	case Yield:
		return "yield"
	default:
		return fmt.Sprintf("ConflictPolicy(%d)", uint8(p))
	}
}

// MarshalText returns what String does.
func (p ConflictPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what String returns.
func (p *ConflictPolicy) UnmarshalText(text []byte) error {
	for _, known := range []ConflictPolicy{Report, Defend, Yield} {
		if string(text) == known.String() {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("announce: conflict policy is %q: want report, defend or yield", text)
}

// A Conflict is an address that is announced on a link where another host claims
// it too.
type Conflict struct {
	Addr    netip.Addr
	Link    string
	MAC     net.HardwareAddr // of the other host; of one of them if there are several
	Kind    ClaimKind        // the strongest form of its claims
	At      time.Time        // when it first did
	Yielded bool             // this host is silent there; see Yield
}

// Conflicts returns the conflicts at the moment, by address and link, at most
// 256. A conflict begins when a foreign claim has been heard and the address is
// still held after
// Config.ClaimGrace. It ends when the address is given up, or nobody has
// claimed it for ConflictQuiet and nobody answers a probe. Claims of our own MACs,
// of any link of the host, and of those that Config.Known knows are none.
func (a *Announcer) Conflicts() []Conflict {
	conflicts := slices.Clone(*a.conflicts.Load())
	for i := range conflicts {
		conflicts[i].MAC = slices.Clone(conflicts[i].MAC)
	}
	return conflicts
}

// ConflictsChanged carries a token after the result of Conflicts has changed. It
// has a capacity of one and is for one receiver.
func (a *Announcer) ConflictsChanged() <-chan struct{} { return a.conflictsChanged }
