package speaker

import (
	"slices"
	"time"

	"github.com/heraldlb/herald/membership"
)

// lonely is how long a node that is held after its start looks for others before it concludes that an address has
// nobody else.
const lonely = 3 * time.Second

// hold is what keeps a node from being elected after it came back too often (election.Damper). Once over it stays so:
// to take eligibility back would be one more move.
type hold struct {
	eligible Eligible // nil: nobody to tell, nothing is held
	until    time.Time
	started  time.Time
	over     bool
}

// newHold tells the others, before they hear anything else, that a node that is held is not eligible.
func newHold(m Membership, until time.Time) hold {
	h := hold{until: until}
	h.eligible, _ = m.(Eligible)
	if h.eligible != nil && time.Now().Before(until) {
		h.eligible.SetEligible(false)
	}
	return h
}

// admit tells the others that this node may be elected, now that it knows enough, unless it is held.
func (s *Speaker) admit(snap Snapshot, decisions []Decision) {
	h := &s.hold
	if h.eligible == nil || h.over {
		return
	}
	if held := time.Now().Before(h.until); held {
		why := s.release(snap, decisions)
		if why == "" {
			return
		}
		s.log.Info("hold-down given up", "cause", why, "until", h.until)
	}
	s.leaving.Lock()
	defer s.leaving.Unlock()
	if s.frozen.Load() {
		return
	}
	h.over = true
	h.eligible.SetEligible(true)
}

// release says what ends a hold-down before its time, "" if nothing does. A member that says nothing of itself (a speaker
// of MetalLB) does not hear that this node is not eligible, and would leave it addresses that nobody holds then. And a
// node that flaps is better than none.
func (s *Speaker) release(snap Snapshot, decisions []Decision) string {
	for _, m := range snap.Members {
		if m.Name != s.cfg.Node && !m.Described {
			return "member " + m.Name + " does not know of eligibility"
		}
	}
	if time.Since(s.hold.started) < lonely {
		return ""
	}
	snap.Members = slices.Clone(snap.Members)
	self := membership.Member{Name: s.cfg.Node}
	if i := slices.IndexFunc(snap.Members, func(m membership.Member) bool { return m.Name == s.cfg.Node }); i >= 0 {
		self = snap.Members[i]
		snap.Members = slices.Delete(snap.Members, i, i+1)
	}
	self.Eligible = true
	snap.Members = append(snap.Members, self)
	for i, d := range Decide(snap) { // in the same order
		if d.Protocol == Layer2 && d.Announce && decisions[i].Announcer == "" {
			return "nobody else can announce " + d.Address.String()
		}
	}
	return ""
}
