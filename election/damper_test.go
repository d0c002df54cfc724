package election

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func damper(t require.TestingT, cfg DamperConfig) *Damper {
	d, err := NewDamper(cfg)
	require.NoError(t, err)
	return d
}

func midnight() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }

// afterRestart is a Damper of a new process that read what the old one wrote.
func afterRestart(t require.TestingT, old *Damper) *Damper {
	text, err := json.Marshal(old)
	require.NoError(t, err)
	d := &Damper{cfg: old.cfg}
	require.NoError(t, json.Unmarshal(text, d))
	return d
}

func TestDamper(t *testing.T) {
	type step struct {
		after time.Duration // since the step before
		event Event
		hold  time.Duration // -1: not up
	}
	minute := time.Minute
	tests := []struct {
		name  string
		cfg   DamperConfig
		steps []step
	}{
		{
			name:  "one restart costs nothing",
			steps: []step{{0, Up, 0}, {24 * time.Hour, Down, -1}, {minute, Up, 0}},
		},
		{
			name: "each return doubles, up to an hour",
			steps: []step{
				{0, Up, 0},
				{minute, Up, 0},
				{minute, Up, minute},
				{minute, Up, 2 * minute},
				{minute, Up, 4 * minute},
				{minute, Up, 8 * minute},
				{minute, Up, 16 * minute},
				{minute, Up, 32 * minute},
				{minute, Up, 60 * minute},
				{minute, Up, 60 * minute},
			},
		},
		{
			name: "a quiet window forgives the last return, two halve, many forgive all",
			steps: []step{
				{0, Up, 0},
				{minute, Up, 0},
				{minute, Up, minute},
				{minute, Up, 2 * minute},
				{minute, Up, 4 * minute},
				{60 * minute, Up, 4 * minute},
				{120 * minute, Up, 2 * minute},
				{1000 * time.Hour, Up, 0},
			},
		},
		{
			name: "what is forgiven does not pile up beyond the longest",
			cfg:  DamperConfig{Base: minute, Max: 2 * minute, Window: 10 * minute},
			steps: []step{
				{0, Up, 0},
				{1, Up, 0},
				{1, Up, minute},
				{1, Up, 2 * minute},
				{1, Up, 2 * minute},
				{1, Up, 2 * minute},
				{10 * minute, Up, minute},
				{10 * minute, Up, minute},
				{20 * minute, Up, 0},
			},
		},
		{
			name:  "down while held",
			steps: []step{{0, Up, 0}, {minute, Up, 0}, {minute, Up, minute}, {1, Down, -1}, {1, Up, 2 * minute}},
		},
		{
			name:  "the clock is set back",
			steps: []step{{0, Up, 0}, {0, Up, 0}, {-1000 * time.Hour, Up, minute}, {0, Up, 2 * minute}},
		},
		{
			name:  "an unknown event is nothing",
			steps: []step{{0, Event(9), -1}, {0, Up, 0}, {0, Event(9), 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, now := damper(t, tt.cfg), midnight()
			assert.False(t, d.Standing(now).Eligible(), "not there yet")
			for i, s := range tt.steps {
				now = now.Add(s.after)
				got := d.Observe(s.event, now)
				want := Standing{Up: s.hold >= 0}
				if s.hold > 0 {
					want.Until = now.Add(s.hold)
				}
				require.Equal(t, want, got, "step %d", i)
				require.Equal(t, s.hold == 0, got.Eligible())
				require.Equal(t, got, afterRestart(t, d).Standing(now))
				if s.hold > 0 {
					require.False(t, d.Standing(want.Until.Add(-1)).Eligible())
					require.True(t, d.Standing(want.Until).Eligible())
				}
			}
		})
	}
}

func TestDamperRelease(t *testing.T) {
	d, now := damper(t, DamperConfig{}), midnight()
	for range 3 {
		d.Observe(Up, now)
	}
	require.False(t, d.Standing(now).Eligible())
	d.Release()
	assert.True(t, d.Standing(now).Eligible())
	assert.Equal(t, Standing{Up: true, Until: now.Add(2 * time.Minute)}, d.Observe(Up, now), "not forgiven")
}

func TestDamperClockSetBackWhileHeld(t *testing.T) {
	d, now := damper(t, DamperConfig{}), midnight()
	for range 3 {
		d.Observe(Up, now)
	}
	past := now.Add(-48 * time.Hour)
	assert.Equal(t, past.Add(time.Hour), d.Standing(past).Until, "not two days")
}

func TestNewDamper(t *testing.T) {
	for _, cfg := range []DamperConfig{
		{Base: -1}, {Max: -1}, {Window: -1}, {Base: time.Minute, Max: time.Second}, {Max: time.Second},
	} {
		_, err := NewDamper(cfg)
		assert.ErrorContains(t, err, "election: DamperConfig", "%+v", cfg)
	}
	assert.Equal(t, DamperConfig{Base: time.Minute, Max: time.Hour, Window: time.Hour}, damper(t, DamperConfig{}).cfg)
	assert.Equal(t, DamperConfig{Base: 2 * time.Hour, Max: 2 * time.Hour, Window: 2 * time.Hour}, damper(t, DamperConfig{Base: 2 * time.Hour}).cfg)
}

func TestDamperState(t *testing.T) {
	d := damper(t, DamperConfig{})
	text, err := json.Marshal(d)
	require.NoError(t, err)
	assert.JSONEq(t, `{"up":false,"returns":0}`, string(text))
	for range 3 {
		d.Observe(Up, midnight())
	}
	text, err = json.Marshal(d)
	require.NoError(t, err)
	assert.JSONEq(t, `{"up":true,"returns":2,"last":"2026-11-01T00:00:00Z","until":"2026-11-01T00:01:00Z"}`, string(text))

	for _, bad := range []string{``, `[]`, `{"returns":-1}`, `{"returns":63}`, `{"last":"yesterday"}`} {
		assert.ErrorIs(t, d.UnmarshalJSON([]byte(bad)), ErrDamperState, bad)
		assert.Equal(t, midnight().Add(time.Minute), d.Standing(midnight()).Until, "unchanged")
	}
	require.NoError(t, d.UnmarshalJSON([]byte(`{"returns":62,"last":"2026-11-01T00:00:00Z"}`)))
	assert.Equal(t, midnight().Add(time.Hour), d.Observe(Up, midnight()).Until)
}

func TestEventString(t *testing.T) {
	assert.Equal(t, []string{"up", "down", "Event(7)"}, []string{Up.String(), Down.String(), Event(7).String()})
}

// day simulates a node among others that stay, second by second, and counts how
// often addresses move to it or away from it: by the damper, which a new process
// restores at each restart, and by MetalLB's rule, by which whoever is there is a
// candidate. A restart takes 5 s.
func day(t require.TestingT, cfg DamperConfig, restarts []int) (damped, metallb int) {
	const seconds, outage = 24 * 60 * 60, 5
	restarts = slices.Clone(restarts)
	slices.Sort(restarts)
	d := damper(t, cfg)
	others := kw(1, 2, 3, 4)
	var addr netip.Addr
	all := append(slices.Clone(others), "flapping")
	for i := 0; ; i++ { // an address that the node holds when it may
		addr = numbered(i + 1)[i]
		if node, _ := Winner(addr, all); node == "flapping" {
			break
		}
	}
	substitute, _ := Winner(addr, others)
	holder := func(eligible bool) string {
		if eligible {
			return "flapping"
		}
		return substitute
	}
	now := midnight()
	d.Observe(Up, now)
	backAt, heldBy, heldByRule := -1, holder(true), holder(true)
	for second := range seconds {
		for len(restarts) > 0 && restarts[0] == second {
			restarts = restarts[1:]
			d.Observe(Down, now)
			backAt = second + outage
		}
		if second == backAt {
			d = afterRestart(t, d)
			d.Observe(Up, now)
		}
		standing := d.Standing(now)
		if h := holder(standing.Eligible()); h != heldBy {
			heldBy = h
			damped++
		}
		if h := holder(standing.Up); h != heldByRule {
			heldByRule = h
			metallb++
		}
		now = now.Add(time.Second)
	}
	return damped, metallb
}

// TestDayOfRestarts: 360 restarts in a day, every four minutes and at random.
func TestDayOfRestarts(t *testing.T) {
	const restarts = 360
	even := make([]int, restarts)
	for i := range even {
		even[i] = 120 + i*240
	}
	damped, metallb := day(t, DamperConfig{}, even)
	t.Logf("every four minutes: addresses move %d times, %d times by MetalLB's rule", damped, metallb)
	assert.LessOrEqual(t, damped, 10)
	assert.Equal(t, 2*restarts, metallb)

	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 0))
		at := make([]int, restarts)
		for i := range at {
			at[i] = random.IntN(24 * 60 * 60)
		}
		damped, metallb := day(t, DamperConfig{}, at)
		t.Logf("at random (%d): addresses move %d times, %d times by MetalLB's rule", seed, damped, metallb)
		assert.LessOrEqual(t, damped, 10)
		assert.Greater(t, metallb, restarts)
	}
}

// TestPropertyDamper: whatever happens, nobody is held longer than Max, or after
// a first return, and what is encoded is what was.
func TestPropertyDamper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := DamperConfig{Base: time.Second, Max: 30 * time.Second, Window: time.Minute}
		d, now, ups := damper(t, cfg), midnight(), 0
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 120).Draw(t, "seconds")) * time.Second)
			e := rapid.SampledFrom([]Event{Up, Up, Down}).Draw(t, "event")
			s := d.Observe(e, now)
			if e == Up {
				ups++
			}
			require.Equal(t, e == Up, s.Up)
			require.False(t, s.Until.After(now.Add(cfg.Max)))
			require.Equal(t, s.Up, d.Standing(now.Add(cfg.Max)).Eligible())
			require.True(t, ups > 2 || s.Until.IsZero())
			d = afterRestart(t, d)
			require.Equal(t, s, d.Standing(now))
		}
	})
}
