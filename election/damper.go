package election

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Event is what happens to the node that a [Damper] watches.
type Event uint8

// Events of a node.
const (
	// Up: the node, or its process, starts or comes back.
	Up Event = iota + 1
	// Down: the node goes. It need not be told: an Up after an Up is a return
	// all the same, as after a crash.
	Down
)

// String returns "up" or "down".
func (e Event) String() string {
	switch e {
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return fmt.Sprintf("Event(%d)", uint8(e))
	}
}

// DamperConfig configures a [Damper].
type DamperConfig struct {
	// Base is the hold-down of the second return inside a Window; each further
	// one doubles it. The first return is free, so that a single restart costs
	// nothing. Zero means one minute.
	Base time.Duration
	// Max is the longest hold-down. Zero means one hour, or Base if that is
	// longer.
	Max time.Duration
	// Window is how long a node must not return to be forgiven one return, which
	// halves what the next one costs. A Window shorter than Max lets a node that
	// returns once in a while in between move its addresses for ever. Zero means
	// one hour, or Max if that is longer.
	Window time.Duration
}

// Standing says whether a node may hold addresses.
type Standing struct {
	// Up is set if the node is there.
	Up bool
	// Until is when the hold-down ends, the zero Time if the node is not held or
	// not there.
	Until time.Time
}

// Eligible reports whether the node may hold addresses.
func (s Standing) Eligible() bool { return s.Up && s.Until.IsZero() }

// Damper keeps a node that comes and goes from moving addresses each time: such
// a node earns a hold-down, in which it is there but not eligible, so that what
// it lost stays where it is. The hold-down doubles with each return, and decays
// while the node stays. It begins with the return that earned it.
//
// A Damper is a state machine without a clock: time is an argument. The usual
// place for it is the node itself, which tells the others whether it is eligible
// (package membership carries that), so that all nodes decide alike. To survive
// a restart of the process, which is what it is there to damp, its state can be
// encoded as JSON and kept in a file.
//
// A Damper is not safe for concurrent use.
type Damper struct {
	cfg   DamperConfig
	state damperState
}

// damperState is what is remembered, and the form of the JSON.
type damperState struct {
	Up      bool      `json:"up"`
	Returns int       `json:"returns"`       // those that are not forgiven
	Last    time.Time `json:"last,omitzero"` // the last Up
	Until   time.Time `json:"until,omitzero"`
}

// maxReturns bounds a state that was not encoded by a Damper. The hold-down of
// any sensible configuration is at its longest long before.
const maxReturns = 62

// NewDamper returns a Damper for a node that was never there.
func NewDamper(cfg DamperConfig) (*Damper, error) {
	if cfg.Base < 0 || cfg.Max < 0 || cfg.Window < 0 {
		return nil, fmt.Errorf("election: DamperConfig: Base %v, Max %v and Window %v must not be negative", cfg.Base, cfg.Max, cfg.Window)
	}
	base := cmp.Or(cfg.Base, time.Minute)
	if cfg.Max != 0 && cfg.Max < base {
		return nil, fmt.Errorf("election: DamperConfig: Max %v is less than Base %v", cfg.Max, base)
	}
	longest := cmp.Or(cfg.Max, max(time.Hour, base))
	window := cmp.Or(cfg.Window, max(time.Hour, longest))
	return &Damper{cfg: DamperConfig{Base: base, Max: longest, Window: window}}, nil
}

// Observe takes note of an event, and returns how the node stands after it.
// A time before the last one (the clock was set back) counts as the last one.
func (d *Damper) Observe(e Event, now time.Time) Standing {
	switch e {
	case Down:
		d.state.Up = false
	case Up:
		d.up(now)
	}
	return d.Standing(now)
}

func (d *Damper) up(now time.Time) {
	s := &d.state
	s.Up, s.Until = true, time.Time{}
	if s.Last.IsZero() {
		s.Last = now
		return // the first time is no return
	}
	quiet := max(now.Sub(s.Last), 0)
	s.Last = now
	s.Returns = max(s.Returns-int(min(quiet/d.cfg.Window, maxReturns)), 0)
	if hold := d.hold(s.Returns); hold > 0 {
		s.Until = now.Add(hold)
	}
	if d.hold(s.Returns) < d.cfg.Max {
		s.Returns++ // no higher: it would only have to be forgiven
	}
}

// hold is the hold-down after so many earlier returns.
func (d *Damper) hold(returns int) time.Duration {
	if returns == 0 {
		return 0
	}
	hold := d.cfg.Base
	for ; returns > 1; returns-- {
		if hold > d.cfg.Max/2 {
			return d.cfg.Max
		}
		hold *= 2
	}
	return hold
}

// Standing returns how the node stands at a time.
func (d *Damper) Standing(now time.Time) Standing {
	s := Standing{Up: d.state.Up}
	if s.Up && now.Before(d.state.Until) {
		s.Until = d.state.Until
		// Of a clock that was set back no hold-down gets longer.
		if limit := now.Add(d.cfg.Max); s.Until.After(limit) {
			s.Until = limit
		}
	}
	return s
}

// Release ends the hold-down, for instance because nobody else can hold an
// address. What the node has earned is not forgiven.
func (d *Damper) Release() { d.state.Until = time.Time{} }

// MarshalJSON encodes the state, without the configuration.
func (d *Damper) MarshalJSON() ([]byte, error) { return json.Marshal(d.state) }

// ErrDamperState says that a text is no state of a [Damper].
var ErrDamperState = errors.New("no state of a damper")

// UnmarshalJSON restores a state. It returns an error wrapping [ErrDamperState],
// and changes nothing, if data is not one.
func (d *Damper) UnmarshalJSON(data []byte) error {
	var s damperState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("election: %w: %w", ErrDamperState, err)
	}
	if s.Returns < 0 || s.Returns > maxReturns {
		return fmt.Errorf("election: %w: returns %d is not in 0..%d", ErrDamperState, s.Returns, maxReturns)
	}
	d.state = s
	return nil
}
