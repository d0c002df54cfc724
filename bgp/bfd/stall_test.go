package bfd

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// paused is a transport, and all that it returns, whose reader gets no CPU.
type paused struct{ mail []Packet }

func (*paused) Listen(context.Context, uint16, bool) (Receiver, error) { panic("not in this test") }
func (*paused) Dial(Peer) (Sender, error)                              { panic("not in this test") }
func (*paused) Serve(func()) error                                     { panic("not in this test") }
func (*paused) Send([]byte) error                                      { return nil }
func (*paused) Interface() int                                         { return 0 }
func (*paused) Close() error                                           { return nil }

func (p *paused) Next(buf []byte) (int, Meta, bool) {
	if len(p.mail) == 0 {
		return 0, Meta{}, false
	}
	b, err := p.mail[0].AppendBinary(buf[:0])
	p.mail = p.mail[1:]
	return len(b), Meta{From: netip.MustParseAddr("192.0.2.2"), TTL: 255}, err == nil
}

// A process that got no CPU for longer than the detection time looks at its mail
// before it calls others dead.
func TestStall(t *testing.T) {
	for name, tt := range map[string]struct {
		mail int // packets that have arrived meanwhile
		want State
	}{
		"there is mail":        {3 * batch, Up},
		"there is a last word": {1, Up},
		"there is none":        {0, Down},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := New(Config{Transport: &paused{}, Rand: testRand()})
				require.NoError(t, err)
				require.NoError(t, m.SetPeers([]Peer{{Addr: netip.MustParseAddr("192.0.2.2"), Receive: 50 * time.Millisecond}}))
				e, in := m.entries[0], &paused{}
				e.sender = &paused{}
				m.listeners[port{}] = &listener{receiver: in}
				hear := func(s State) {
					in.mail = append(in.mail, Packet{
						State: s, Multiplier: 3, MyDiscriminator: 9, YourDiscriminator: e.local,
						DesiredMinTx: 50 * time.Millisecond, RequiredMinRx: 50 * time.Millisecond,
					})
				}
				hear(Down)
				hear(Init)
				m.drain(in, port{})
				require.Equal(t, Up, e.state)

				time.Sleep(500 * time.Millisecond)
				for range tt.mail {
					hear(Up)
				}
				next := m.advance(time.Now())
				require.Equal(t, tt.want, e.state)
				require.Empty(t, in.mail)
				require.True(t, next.After(time.Now()))
			})
		})
	}
}
