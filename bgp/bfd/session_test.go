package bfd

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// start is the time at which sessions under test begin.
func start() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func normalized(t testing.TB, p Peer) Peer {
	t.Helper()
	if !p.Addr.IsValid() {
		p.Addr = netip.MustParseAddr("192.0.2.2")
	}
	p, err := p.Normalize()
	require.NoError(t, err)
	return p
}

// A rig drives one session by hand.
type rig struct {
	t   *testing.T
	s   *session
	now time.Time
}

func newRig(t *testing.T, p Peer) *rig {
	r := &rig{t: t, now: start()}
	r.s = newSession(r.now, normalized(t, p), 100, testRand())
	return r
}

// hear gives the session a packet; what is not set is as from a peer with 50 ms x 3.
func (r *rig) hear(p Packet) {
	if p.MyDiscriminator == 0 {
		p.MyDiscriminator = 200
	}
	if p.Multiplier == 0 {
		p.Multiplier = 3
	}
	if p.DesiredMinTx == 0 {
		p.DesiredMinTx = 50 * time.Millisecond
	}
	if p.RequiredMinRx == 0 {
		p.RequiredMinRx = 50 * time.Millisecond
	}
	p.YourDiscriminator = r.s.local
	r.s.receive(r.now, p)
}

// said returns what the session sends now.
func (r *rig) said() []Packet {
	var out []Packet
	for {
		p, ok := r.s.emit(r.now)
		if !ok {
			return out
		}
		out = append(out, p)
		require.Less(r.t, len(out), 3, "a storm")
	}
}

// up brings the session up and lets it say what it has to.
func (r *rig) up() {
	r.said()
	r.hear(Packet{State: Down})
	r.hear(Packet{State: Init})
	require.Equal(r.t, Up, r.s.state)
	r.said()
}

// pass lets time go by until d has passed, doing what is due, and returns the
// times between packets. With keep the remote system keeps the session alive.
func (r *rig) pass(d time.Duration, keep bool) (gaps []time.Duration) {
	end, last := r.now.Add(d), r.now
	for {
		next := earlier(r.s.nextSend(), r.s.expiry())
		if next.After(end) {
			r.now = end
			return gaps
		}
		r.now = next
		if keep {
			r.s.heard = r.now
		}
		r.s.expire(r.now)
		for range r.said() {
			gaps = append(gaps, r.now.Sub(last))
			last = r.now
		}
	}
}

// RFC 5880 section 6.8.6: every state, every state heard.
func TestTransitions(t *testing.T) {
	table := map[State][4]State{ // by what is heard: AdminDown, Down, Init, Up
		AdminDown: {AdminDown, AdminDown, AdminDown, AdminDown},
		Down:      {Down, Init, Up, Down},
		Init:      {Down, Init, Up, Up},
		Up:        {Down, Down, Up, Up},
	}
	for from, want := range table {
		for heard := range want {
			t.Run(fmt.Sprintf("%v hears %v", from, State(heard)), func(t *testing.T) {
				r := newRig(t, Peer{Disabled: from == AdminDown})
				switch from {
				case Init:
					r.hear(Packet{State: Down})
				case Up:
					r.up()
				case Down, AdminDown:
				}
				require.Equal(t, from, r.s.state)
				r.said()
				r.now = r.now.Add(time.Millisecond)
				r.hear(Packet{State: State(heard)})
				require.Equal(t, want[heard], r.s.state)

				said := r.said()
				if r.s.state == from {
					require.Empty(t, said)
					return
				}
				require.Equal(t, r.now, r.s.since)
				require.Len(t, said, 1, "a change of state is told at once")
				require.Equal(t, r.s.state, said[0].State)
				require.EqualValues(t, 200, said[0].YourDiscriminator)
				if r.s.state == Down {
					require.Equal(t, DiagNeighborDown, said[0].Diag)
					require.Equal(t, from == Up && State(heard) == Down, r.s.failed, "AdminDown is no failure")
				}
			})
		}
	}
}

func TestDetection(t *testing.T) {
	for name, tt := range map[string]struct {
		peer Peer
		says Packet
		want time.Duration
	}{
		"theirs is slower":            {Peer{Receive: 50 * time.Millisecond}, Packet{DesiredMinTx: 100 * time.Millisecond, Multiplier: 3}, 300 * time.Millisecond},
		"ours is slower":              {Peer{Receive: 100 * time.Millisecond}, Packet{DesiredMinTx: 50 * time.Millisecond, Multiplier: 3}, 300 * time.Millisecond},
		"their multiplier, not ours":  {Peer{Receive: 50 * time.Millisecond, Multiplier: 9}, Packet{Multiplier: 2}, 100 * time.Millisecond},
		"largest values do not wrap":  {Peer{}, Packet{DesiredMinTx: microseconds(1<<32 - 1), Multiplier: 255}, 255 * microseconds(1<<32-1)},
		"Transmit plays no part here": {Peer{Receive: 50 * time.Millisecond, Transmit: time.Second}, Packet{Multiplier: 3}, 150 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.peer)
			r.up()
			tt.says.State = Up
			tt.says.Final = true
			r.hear(tt.says)
			require.Equal(t, tt.want, r.s.detection())
			require.Equal(t, r.now.Add(tt.want), r.s.expiry())

			r.now = r.now.Add(tt.want - 1)
			r.s.expire(r.now)
			require.Equal(t, Up, r.s.state)
			r.now = r.now.Add(1)
			r.s.expire(r.now)
			require.Equal(t, Down, r.s.state)
			require.Equal(t, DiagTimeExpired, r.s.diag)
			require.True(t, r.s.failed)
			require.Equal(t, []uint64{1, 1}, []uint64{r.s.ups, r.s.downs})
			said := r.said()
			require.Len(t, said, 1)
			require.Zero(t, said[0].YourDiscriminator)
			require.False(t, said[0].Poll, "there is nobody to answer")
			require.Equal(t, slow, said[0].DesiredMinTx)
		})
	}
}

func TestSlowWhileNotUp(t *testing.T) {
	r := newRig(t, Peer{Transmit: 50 * time.Millisecond})
	said := r.said()
	require.Len(t, said, 1, "the first packet is sent at once")
	require.Equal(t, time.Second, said[0].DesiredMinTx)
	for _, gap := range r.pass(time.Minute, true) {
		require.GreaterOrEqual(t, gap, 750*time.Millisecond)
		require.LessOrEqual(t, gap, time.Second)
	}
	r.up()
	require.Equal(t, 50*time.Millisecond, r.s.transmission(), "faster at once, before the poll ends")
	require.True(t, r.s.polling)

	slower := newRig(t, Peer{Transmit: 5 * time.Second})
	require.Equal(t, 5*time.Second, slower.said()[0].DesiredMinTx)
}

func TestJitter(t *testing.T) {
	for _, tt := range []struct {
		multiplier  int
		least, most time.Duration
	}{
		{3, 75 * time.Millisecond, 100 * time.Millisecond},
		{1, 75 * time.Millisecond, 90 * time.Millisecond},
	} {
		r := newRig(t, Peer{Transmit: 100 * time.Millisecond, Multiplier: tt.multiplier})
		r.up()
		gaps := r.pass(time.Minute, true)[1:]
		var least, most, sum time.Duration = time.Hour, 0, 0
		for _, g := range gaps {
			least, most, sum = min(least, g), max(most, g), sum+g
		}
		require.GreaterOrEqual(t, least, tt.least)
		require.LessOrEqual(t, most, tt.most)
		spread := tt.most - tt.least
		require.Less(t, least, tt.least+spread/10, "the whole range is used")
		require.Greater(t, most, tt.most-spread/10)
		require.InDelta(t, float64(tt.least+spread/2), float64(sum)/float64(len(gaps)), float64(time.Millisecond))
	}
}

func TestRemoteSetsThePace(t *testing.T) {
	r := newRig(t, Peer{Transmit: 50 * time.Millisecond})
	r.up()
	r.hear(Packet{State: Up, RequiredMinRx: 200 * time.Millisecond, Final: true})
	require.Equal(t, 200*time.Millisecond, r.s.transmission())
	for _, gap := range r.pass(10*time.Second, true)[1:] {
		require.GreaterOrEqual(t, gap, 150*time.Millisecond)
	}
	r.hear(Packet{State: Up, RequiredMinRx: 10 * time.Millisecond})
	require.Equal(t, 50*time.Millisecond, r.s.transmission())
	require.LessOrEqual(t, r.s.sendAt.Sub(r.s.sentAt), 50*time.Millisecond, "also the packet that was planned already")

	// Zero: no periodic packets, but answers and changes of state.
	r.s.receive(r.now, Packet{State: Up, MyDiscriminator: 200, Multiplier: 3, DesiredMinTx: time.Hour})
	require.Empty(t, r.pass(time.Minute, true))
	r.s.receive(r.now, Packet{State: Up, MyDiscriminator: 200, Multiplier: 3, DesiredMinTx: time.Hour, Poll: true})
	require.Len(t, r.said(), 1)
	r.s.receive(r.now, Packet{State: Down, MyDiscriminator: 200, Multiplier: 3, DesiredMinTx: time.Hour})
	require.Len(t, r.said(), 1)
}

func TestPollIsAnswered(t *testing.T) {
	r := newRig(t, Peer{})
	r.up()
	before := r.s.sendAt
	r.hear(Packet{State: Up, Poll: true})
	said := r.said()
	require.Len(t, said, 1)
	require.True(t, said[0].Final)
	require.False(t, said[0].Poll, "not even when this system polls itself")
	require.True(t, r.s.polling)
	require.Equal(t, before, r.s.sendAt, "an answer does not move the clock")
}

// RFC 5880 section 6.8.3: nobody is surprised by a change.
func TestParameterChange(t *testing.T) {
	ms := time.Millisecond
	settle := func(t *testing.T) *rig {
		r := newRig(t, Peer{Transmit: 100 * ms, Receive: 100 * ms})
		r.up()
		r.hear(Packet{State: Up, Final: true})
		require.False(t, r.s.polling)
		return r
	}
	for name, tt := range map[string]struct {
		transmit, receive       time.Duration
		sendDuring, sendAfter   time.Duration
		allowDuring, allowAfter time.Duration
	}{
		"transmit slower": {400 * ms, 100 * ms, 100 * ms, 400 * ms, 300 * ms, 300 * ms},
		"transmit faster": {60 * ms, 100 * ms, 60 * ms, 60 * ms, 300 * ms, 300 * ms},
		"receive slower":  {100 * ms, 400 * ms, 100 * ms, 100 * ms, 1200 * ms, 1200 * ms},
		"receive faster":  {100 * ms, 60 * ms, 100 * ms, 100 * ms, 300 * ms, 180 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			r := settle(t)
			p := r.s.peer
			p.Transmit, p.Receive = tt.transmit, tt.receive
			r.s.configure(r.now, p)
			require.Equal(t, Up, r.s.state)
			require.Zero(t, r.s.downs)
			require.Equal(t, tt.sendDuring, r.s.transmission())
			require.Equal(t, tt.allowDuring, r.s.detection())

			r.now = r.s.sendAt
			said := r.said()
			require.Len(t, said, 1, "the poll goes with the periodic packets")
			require.True(t, said[0].Poll)
			require.Equal(t, [2]time.Duration{tt.transmit, tt.receive}, [2]time.Duration{said[0].DesiredMinTx, said[0].RequiredMinRx})

			r.hear(Packet{State: Up})
			require.True(t, r.s.polling, "only a Final ends it")
			r.hear(Packet{State: Up, Final: true})
			require.False(t, r.s.polling)
			require.Equal(t, tt.sendAfter, r.s.transmission())
			require.Equal(t, tt.allowAfter, r.s.detection())
		})
	}
	t.Run("again during the poll", func(t *testing.T) {
		r := settle(t)
		p := r.s.peer
		poll := func() {
			r.now = r.s.sendAt
			said := r.said()
			require.Len(t, said, 1)
			require.True(t, said[0].Poll)
		}
		p.Transmit = 400 * ms
		r.s.configure(r.now, p)
		poll()
		poll()
		p.Transmit = 800 * ms
		r.s.configure(r.now, p)
		poll()
		for range 2 { // these may be answers to 400 ms
			r.hear(Packet{State: Up, Final: true})
			require.True(t, r.s.polling)
			require.Equal(t, 100*ms, r.s.transmission())
		}
		r.hear(Packet{State: Up, Final: true})
		require.False(t, r.s.polling)
		require.Equal(t, 800*ms, r.s.transmission())
	})
	t.Run("an answer without a question", func(t *testing.T) {
		r := settle(t)
		p := r.s.peer
		p.Transmit = 400 * ms
		r.s.configure(r.now, p)
		r.hear(Packet{State: Up, Final: true})
		require.True(t, r.s.polling)
		require.Equal(t, 100*ms, r.s.transmission())
	})
	t.Run("equal", func(t *testing.T) {
		r := settle(t)
		r.s.configure(r.now, r.s.peer)
		require.False(t, r.s.polling)
	})
}

func TestPassive(t *testing.T) {
	r := newRig(t, Peer{Passive: true})
	require.Empty(t, r.pass(time.Minute, false))
	r.hear(Packet{State: Down, DesiredMinTx: time.Second})
	require.Len(t, r.said(), 1)
	require.NotEmpty(t, r.pass(2*time.Second, true))
	r.pass(10*time.Second, false)
	require.Equal(t, Down, r.s.state)
	require.Empty(t, r.pass(time.Minute, false), "silent again after the remote system is")
}

func TestDemand(t *testing.T) {
	r := newRig(t, Peer{})
	r.up()
	r.hear(Packet{State: Up, Demand: true})
	require.NotEmpty(t, r.pass(2*time.Second, true), "the poll is still open")
	r.hear(Packet{State: Up, Demand: true, Final: true})
	require.Empty(t, r.pass(time.Minute, true))
	r.hear(Packet{State: Up})
	require.NotEmpty(t, r.pass(time.Minute, true))
}

func TestDisable(t *testing.T) {
	r := newRig(t, Peer{})
	r.up()
	p := r.s.peer
	p.Disabled = true
	r.s.configure(r.now, p)
	said := r.said()
	require.Len(t, said, 1)
	require.Equal(t, []any{AdminDown, DiagAdminDown}, []any{said[0].State, said[0].Diag})
	require.False(t, r.s.failed)
	r.hear(Packet{State: Down, Poll: true})
	require.Equal(t, AdminDown, r.s.state)
	require.NotEmpty(t, r.pass(10*time.Second, true), "it goes on saying so")

	p.Disabled = false
	r.s.configure(r.now, p)
	require.Equal(t, Down, r.s.state)
	r.up()
	require.EqualValues(t, 2, r.s.ups)
}

// The neighbour goes AdminDown and then silent: no failure, from first to last.
func TestAdminDownThenSilence(t *testing.T) {
	r := newRig(t, Peer{})
	r.up()
	r.hear(Packet{State: AdminDown, Diag: DiagAdminDown})
	require.Equal(t, []any{Down, false}, []any{r.s.state, r.s.failed})
	r.pass(time.Minute, false)
	require.Equal(t, []any{Down, false, AdminDown, uint32(0)}, []any{r.s.state, r.s.failed, r.s.remoteState, r.s.remote})
}

// A neighbour that restarted has a new discriminator and begins anew.
func TestNeighborRestarts(t *testing.T) {
	r := newRig(t, Peer{})
	r.up()
	r.s.receive(r.now, Packet{State: Down, MyDiscriminator: 201, Multiplier: 3, DesiredMinTx: time.Second, RequiredMinRx: time.Millisecond})
	require.Equal(t, []any{Down, true}, []any{r.s.state, r.s.failed})
	require.EqualValues(t, 201, r.said()[0].YourDiscriminator)
	r.s.receive(r.now, Packet{State: Init, MyDiscriminator: 201, Multiplier: 3, DesiredMinTx: time.Second, RequiredMinRx: time.Millisecond})
	require.Equal(t, []any{Up, false}, []any{r.s.state, r.s.failed})
}
