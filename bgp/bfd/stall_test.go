package bfd

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deaf is a transport that sends into the void.
type deaf struct{}

func (deaf) Listen(context.Context, uint16, bool) (Receiver, error) { panic("not in this test") }
func (deaf) Dial(Peer) (Sender, error)                              { panic("not in this test") }
func (deaf) Send([]byte) error                                      { return nil }
func (deaf) Interface() int                                         { return 0 }
func (deaf) Close() error                                           { return nil }

// stalled returns a monitor whose one session is up and has a detection time of
// 150 ms, and what makes it hear a packet. Its loop does not run: the tests say
// when it would have.
func stalled(t *testing.T) (m *Monitor, hear func(State)) {
	m, err := New(Config{Transport: deaf{}, Rand: testRand()})
	require.NoError(t, err)
	addr := netip.MustParseAddr("192.0.2.2")
	require.NoError(t, m.SetPeers([]Peer{{Addr: addr, Receive: 50 * time.Millisecond}}))
	m.entries[0].sender = deaf{}
	hear = func(s State) {
		p := Packet{
			State: s, Multiplier: 3, MyDiscriminator: 9, YourDiscriminator: m.entries[0].local,
			DesiredMinTx: 50 * time.Millisecond, RequiredMinRx: 50 * time.Millisecond,
		}
		b, err := p.AppendBinary(nil)
		require.NoError(t, err)
		m.handle(b, Meta{From: addr, TTL: 255}, false)
	}
	hear(Down)
	hear(Init)
	require.Equal(t, Up, m.entries[0].state)
	m.planned = m.advance(time.Now())
	return m, hear
}

// A process that got no CPU for longer than the detection time looks at its mail
// before it calls others dead.
func TestStallIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, hear := stalled(t)
		time.Sleep(500 * time.Millisecond)
		m.planned = m.advance(time.Now())
		require.Equal(t, Up, m.entries[0].state)
		require.Equal(t, stall, time.Until(m.planned))
		hear(Up) // it was in the socket
		time.Sleep(stall)
		m.planned = m.advance(time.Now())
		require.Equal(t, Up, m.entries[0].state)
	})
}

func TestStallHidesNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, hear := stalled(t)
		time.Sleep(500 * time.Millisecond)
		m.planned = m.advance(time.Now())
		time.Sleep(2 * stall) // late again: that counts once a second
		m.planned = m.advance(time.Now())
		require.Equal(t, Down, m.entries[0].state)

		hear(Down)
		hear(Init)
		m.planned = m.advance(time.Now())
		time.Sleep(time.Until(m.entries[0].expiry())) // on time for this one
		m.planned = time.Now()
		m.advance(time.Now())
		require.Equal(t, Down, m.entries[0].state, "no mercy without a stall")
	})
}
