package bfd_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/bgp/bfd"
	"github.com/heraldlb/herald/bgp/bfd/bfdtest"
)

const (
	ms    = time.Millisecond
	textA = "192.0.2.1"
	textB = "192.0.2.2"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// fast is a peer with 50 ms x 3.
func fast(text string) bfd.Peer {
	return bfd.Peer{Addr: addr(text), Transmit: 50 * ms, Receive: 50 * ms}
}

type tester interface {
	Helper()
	Errorf(string, ...any)
	FailNow()
	Cleanup(func())
}

// run starts a monitor in a bubble; stop ends it and checks that it ends well.
func run(t tester, cfg bfd.Config, peers ...bfd.Peer) (m *bfd.Monitor, stop func()) {
	t.Helper()
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	m, err := bfd.New(cfg)
	require.NoError(t, err)
	require.NoError(t, m.SetPeers(peers))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop) // also of a test that failed
	return m, stop
}

func only(t tester, m *bfd.Monitor) bfd.Status {
	t.Helper()
	all := m.Sessions()
	require.Len(t, all, 1)
	return all[0]
}

// twoHosts runs two monitors that watch each other, until they are up.
func twoHosts(t *testing.T, peerOfA, peerOfB bfd.Peer) (nw *bfdtest.Network, a, b *bfd.Monitor, stop func()) {
	t.Helper()
	nw = bfdtest.NewNetwork()
	a, stopA := run(t, bfd.Config{Transport: nw.Host(addr(textA))}, peerOfA)
	b, stopB := run(t, bfd.Config{Transport: nw.Host(addr(textB))}, peerOfB)
	time.Sleep(2 * time.Second)
	require.Equal(t, bfd.Up, only(t, a).State)
	require.Equal(t, bfd.Up, only(t, b).State)
	return nw, a, b, func() {
		stopA()
		stopB()
		require.Zero(t, nw.Open(), "ports are left open")
	}
}

func drained(c <-chan struct{}) (was bool) {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestUpCutUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nw, a, b, stop := twoHosts(t, fast(textB), fast(textA))
		defer stop()
		s := only(t, a)
		require.Equal(t, 50*ms, s.Transmit)
		require.Equal(t, 150*ms, s.Detect)
		require.Equal(t, []any{bfd.Up, 3, 50 * ms, 50 * ms}, []any{s.RemoteState, s.RemoteMultiplier, s.RemoteTransmit, s.RemoteReceive})
		require.Equal(t, only(t, b).Discriminator, s.RemoteDiscriminator)
		require.True(t, drained(a.Changed()))

		for time.Since(s.Since) < 10*time.Minute {
			time.Sleep(time.Minute)
			require.False(t, drained(a.Changed()), "nothing happens while all is well")
		}
		began := time.Now()
		nw.SetLink(bfdtest.Cut)
		<-a.Changed()
		require.LessOrEqual(t, time.Since(began), 150*ms)
		require.GreaterOrEqual(t, time.Since(began), 99*ms)
		s = only(t, a)
		require.Equal(t, []any{bfd.Down, bfd.DiagTimeExpired, true, uint64(1)}, []any{s.State, s.Diag, s.Failed, s.Downs})
		require.Zero(t, s.Detect)

		time.Sleep(time.Minute)
		nw.SetLink(bfdtest.Perfect)
		time.Sleep(2 * time.Second)
		s = only(t, a)
		require.Equal(t, []any{bfd.Up, bfd.DiagTimeExpired, false, uint64(2)}, []any{s.State, s.Diag, s.Failed, s.Ups})
	})
}

// One way is enough to take both down, and the one who hears says why.
func TestOneWayCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nw, a, b, stop := twoHosts(t, fast(textB), fast(textA))
		defer stop()
		nw.SetLink(func(d bfdtest.Datagram) (time.Duration, bool) { return 0, d.From != addr(textA) })
		time.Sleep(200 * ms)
		require.Equal(t, bfd.DiagTimeExpired, only(t, b).Diag)
		s := only(t, a)
		require.Equal(t, []any{bfd.Down, bfd.DiagNeighborDown, bfd.DiagTimeExpired, true}, []any{s.State, s.Diag, s.RemoteDiag, s.Failed})
	})
}

func TestIntervalsChangeWhileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := twoHosts(t, fast(textB), fast(textA))
		defer stop()
		since := only(t, a).Since
		p := fast(textB)
		p.Transmit, p.Receive, p.Multiplier = 400*ms, 200*ms, 5
		require.NoError(t, a.SetPeers([]bfd.Peer{p}))
		time.Sleep(2 * time.Second)
		sa, sb := only(t, a), only(t, b)
		require.Equal(t, []time.Duration{400 * ms, 600 * ms}, []time.Duration{sa.Transmit, sa.Detect})
		require.Equal(t, []time.Duration{200 * ms, 2 * time.Second}, []time.Duration{sb.Transmit, sb.Detect})
		require.Equal(t, since, sa.Since)
		require.Zero(t, sa.Downs+sb.Downs)
	})
}

// A change takes effect when it is made and not when the next packet was due.
func TestFasterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toA, toB := fast(textA), fast(textB)
		toA.Transmit, toB.Transmit = time.Minute, time.Minute
		nw, a, _, stop := twoHosts(t, toB, toA)
		defer stop()
		time.Sleep(10 * time.Minute)
		nw.SetLink(bfdtest.Cut) // an answer would have the same effect
		before := only(t, a).Sent
		toB.Transmit = 50 * ms
		require.NoError(t, a.SetPeers([]bfd.Peer{toB}))
		time.Sleep(time.Second)
		require.Greater(t, only(t, a).Sent, before+15)
	})
}

// Leaving, being removed and being disabled are all no failure for the other.
func TestGoodbye(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, a *bfd.Monitor, stopA func()) (again func()){
		"Run ends": func(_ *testing.T, _ *bfd.Monitor, stopA func()) func() {
			stopA()
			return nil
		},
		"peer removed": func(t *testing.T, a *bfd.Monitor, _ func()) func() {
			require.NoError(t, a.SetPeers(nil))
			require.Empty(t, a.Sessions())
			return func() { require.NoError(t, a.SetPeers([]bfd.Peer{fast(textB)})) }
		},
		"peer disabled": func(t *testing.T, a *bfd.Monitor, _ func()) func() {
			p := fast(textB)
			p.Disabled = true
			require.NoError(t, a.SetPeers([]bfd.Peer{p}))
			require.Equal(t, bfd.AdminDown, only(t, a).State)
			return func() { require.NoError(t, a.SetPeers([]bfd.Peer{fast(textB)})) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nw := bfdtest.NewNetwork()
				a, stopA := run(t, bfd.Config{Transport: nw.Host(addr(textA))}, fast(textB))
				b, _ := run(t, bfd.Config{Transport: nw.Host(addr(textB))}, fast(textA))
				time.Sleep(2 * time.Second)
				require.Equal(t, bfd.Up, only(t, b).State)

				again := leave(t, a, stopA)
				synctest.Wait()
				s := only(t, b)
				require.Equal(t, []any{bfd.Down, bfd.AdminDown, bfd.DiagNeighborDown, false}, []any{s.State, s.RemoteState, s.Diag, s.Failed})
				time.Sleep(time.Minute)
				require.False(t, only(t, b).Failed)
				if again != nil {
					again()
					time.Sleep(5 * time.Second)
					require.Equal(t, bfd.Up, only(t, b).State)
				}
			})
		})
	}
}

func TestPassivePeerComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passive := fast(textA)
		passive.Passive = true
		_, _, _, stop := twoHosts(t, fast(textB), passive)
		stop()
	})
}

func TestAuthenticatedPair(t *testing.T) {
	for _, typ := range []bfd.AuthType{bfd.AuthMD5, bfd.AuthMeticulousMD5, bfd.AuthSHA1, bfd.AuthMeticulousSHA1} {
		synctest.Test(t, func(t *testing.T) {
			toA, toB := fast(textA), fast(textB)
			toA.Auth = bfd.Auth{Type: typ, KeyID: 1, Key: "secret"}
			toB.Auth = toA.Auth
			nw, a, b, stop := twoHosts(t, toB, toA)
			defer stop()
			time.Sleep(time.Minute)
			require.Zero(t, only(t, a).Downs)
			require.Zero(t, a.Stats().Unauthenticated)

			// A packet that was seen on the wire is of no use later.
			var seen bfdtest.Datagram
			nw.SetLink(func(d bfdtest.Datagram) (time.Duration, bool) {
				if d.To == addr(textA) {
					seen = d
				}
				return 0, true
			})
			time.Sleep(time.Second)
			nw.SetLink(bfdtest.Perfect)
			synctest.Wait()
			replay := seen
			time.Sleep(time.Second)
			nw.Deliver(replay, 255)
			synctest.Wait()
			require.EqualValues(t, 1, a.Stats().Unauthenticated)

			// Another key: no session, in neither direction, until both have it.
			toB.Auth.Key = "rotated"
			require.NoError(t, a.SetPeers([]bfd.Peer{toB}))
			time.Sleep(time.Second)
			require.NotEqual(t, bfd.Up, only(t, a).State)
			require.NotEqual(t, bfd.Up, only(t, b).State)
			toA.Auth.Key = "rotated"
			require.NoError(t, b.SetPeers([]bfd.Peer{toA}))
			time.Sleep(5 * time.Second)
			require.Equal(t, bfd.Up, only(t, a).State)
		})
	}
}

// Packets that look right but have come the wrong way.
func TestStrangersAreDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nw := bfdtest.NewNetwork()
		var last bfdtest.Datagram
		nw.SetLink(func(d bfdtest.Datagram) (time.Duration, bool) {
			if d.From == addr(textB) && d.Data[1]>>6 == byte(bfd.Up) {
				last = d
			}
			return 0, true
		})
		toB := fast(textB)
		toB.Local = addr(textA)
		a, stopA := run(t, bfd.Config{Transport: nw.Host(addr(textA), addr("192.0.2.9"))},
			toB, bfd.Peer{Addr: addr("192.0.2.3"), Multihop: true})
		b, stopB := run(t, bfd.Config{Transport: nw.Host(addr(textB))}, fast(textA))
		time.Sleep(5 * time.Second)
		require.Equal(t, bfd.Up, only(t, b).State)
		stopB()
		time.Sleep(time.Second)
		before, base := a.Sessions()[0], a.Stats()
		require.Equal(t, []any{addr(textB), bfd.Down}, []any{before.Peer.Addr, before.State})

		for name, deliver := range map[string]func(d bfdtest.Datagram){
			"TTL 254":             func(d bfdtest.Datagram) { nw.Deliver(d, 254) },
			"TTL unknown":         func(d bfdtest.Datagram) { nw.Deliver(d, 0) },
			"other source":        func(d bfdtest.Datagram) { d.From = addr("192.0.2.4"); nw.Deliver(d, 255) },
			"other destination":   func(d bfdtest.Datagram) { d.To = addr("192.0.2.9"); nw.Deliver(d, 255) },
			"other port":          func(d bfdtest.Datagram) { d.Port = bfd.PortMultihop; nw.Deliver(d, 255) },
			"other discriminator": func(d bfdtest.Datagram) { d.Data[8] ^= 1; nw.Deliver(d, 255) },
			"authenticated": func(d bfdtest.Datagram) {
				d.Data[1] |= 4
				d.Data[3] = 26
				d.Data = append(d.Data, 9, 2)
				nw.Deliver(d, 255)
			},
			"garbage":                 func(d bfdtest.Datagram) { d.Data = []byte("hello"); nw.Deliver(d, 255) },
			"of a multihop peer, 253": func(d bfdtest.Datagram) { nw.Deliver(firstPacket(t, "192.0.2.3", bfd.PortMultihop), 253) },
		} {
			d := last
			d.Data = bytes.Clone(last.Data)
			deliver(d)
			synctest.Wait()
			after := a.Sessions()[0]
			require.Equal(t, name == "TTL 254" || name == "TTL unknown" || name == "authenticated", after.Discarded > before.Discarded, name)
			before.Discarded = after.Discarded
			require.Equal(t, before, after, name)
			require.Zero(t, a.Sessions()[1].Received, name)
		}
		s := a.Stats()
		require.Equal(t, bfd.Stats{Malformed: 1, UnknownSession: 4, TTL: 3, Unauthenticated: 1}, bfd.Stats{
			Malformed: s.Malformed - base.Malformed, UnknownSession: s.UnknownSession - base.UnknownSession,
			TTL: s.TTL - base.TTL, Unauthenticated: s.Unauthenticated - base.Unauthenticated,
		})
		nw.Deliver(last, 255)
		nw.Deliver(firstPacket(t, "192.0.2.3", bfd.PortMultihop), 254)
		synctest.Wait()
		require.Equal(t, before.Received+1, a.Sessions()[0].Received, "and the right one is taken")
		require.EqualValues(t, 1, a.Sessions()[1].Received)
		stopA()
	})
}

// firstPacket is the first packet of a system that has heard nothing.
func firstPacket(t tester, from string, port uint16) bfdtest.Datagram {
	b, err := bfd.Packet{
		State: bfd.Down, Multiplier: 3, MyDiscriminator: 7, DesiredMinTx: time.Second, RequiredMinRx: time.Second,
	}.AppendBinary(nil)
	require.NoError(t, err)
	return bfdtest.Datagram{From: addr(from), To: addr(textA), Port: port, Data: b}
}

// The most specific session gets a first packet.
func TestDemultiplexing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nw := bfdtest.NewNetwork()
		nw.SetLink(bfdtest.Cut)
		peers := []bfd.Peer{
			{Addr: addr(textB)},
			{Addr: addr(textB), Multihop: true},
			{Addr: addr(textB), Local: addr(textA)},
			{Addr: addr(textB), Interface: "eth0"},
			{Addr: addr(textB), Interface: "eth0", Local: addr("192.0.2.9")},
		}
		a, _ := run(t, bfd.Config{Transport: nw.Host(addr(textA), addr("192.0.2.9"))}, peers...)
		synctest.Wait()
		for _, want := range []struct {
			port uint16
			to   string
			peer string
		}{
			{bfd.PortSingleHop, textA, "192.0.2.2 on eth0"},
			{bfd.PortSingleHop, "192.0.2.9", "192.0.2.2 on eth0 from 192.0.2.9"},
			{bfd.PortMultihop, textA, "192.0.2.2 (multihop)"},
		} {
			before := a.Sessions()
			d := firstPacket(t, textB, want.port)
			d.To = addr(want.to)
			nw.Deliver(d, 255)
			synctest.Wait()
			for i, s := range a.Sessions() {
				require.Equal(t, s.Peer.String() == want.peer, s.Received != before[i].Received, "%v got it, want %s", s.Peer, want.peer)
			}
		}
		require.NoError(t, a.SetPeers(peers[:3]))
		nw.Deliver(firstPacket(t, textB, bfd.PortSingleHop), 255)
		synctest.Wait()
		require.EqualValues(t, 1, a.Sessions()[0].Received)
		require.Equal(t, "192.0.2.2 from 192.0.2.1", a.Sessions()[0].Peer.String())
	})
}

// SetPeers touches nothing but what has changed.
func TestSetPeersLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := twoHosts(t, fast(textB), fast(textA))
		defer stop()
		before := only(t, a)
		drained(a.Changed())
		for range 100 {
			require.NoError(t, a.SetPeers([]bfd.Peer{fast(textB)}))
		}
		require.False(t, drained(a.Changed()), "equal input is no change")
		require.Equal(t, before, only(t, a))

		require.NoError(t, a.SetPeers([]bfd.Peer{{Addr: addr("192.0.2.77")}, fast(textB), {Addr: addr("192.0.2.1"), Multihop: true}}))
		require.True(t, drained(a.Changed()))
		time.Sleep(time.Second)
		require.Equal(t, before.Since, a.Sessions()[1].Since)
		err := a.SetPeers([]bfd.Peer{{Addr: addr("192.0.2.88")}, {}})
		require.ErrorIs(t, err, bfd.ErrPeer)
		require.Len(t, a.Sessions(), 3, "all or nothing")
		require.NoError(t, a.SetPeers([]bfd.Peer{fast(textB)}))
		time.Sleep(time.Second)
		require.Equal(t, before.Since, only(t, a).Since)
		require.Zero(t, only(t, b).Downs)
	})
}

// flaky is a transport that fails when it is told to.
type flaky struct {
	bfd.Transport
	mu                 sync.Mutex
	listen, dial, send error
	receive            chan error
	dials              int
}

func (f *flaky) set(listen, dial, send error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listen, f.dial, f.send = listen, dial, send
}

func (f *flaky) Listen(ctx context.Context, port uint16, ipv6 bool) (bfd.Receiver, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listen != nil {
		return nil, f.listen
	}
	r, err := f.Transport.Listen(ctx, port, ipv6)
	return &flakyReceiver{r, f.receive}, err
}

type flakyReceiver struct {
	bfd.Receiver
	fail chan error
}

func (r *flakyReceiver) Serve(ready func()) error {
	done := make(chan error, 1)
	go func() { done <- r.Receiver.Serve(ready) }()
	select {
	case err := <-r.fail:
		return errors.Join(err, r.Close(), <-done)
	case err := <-done:
		return err
	}
}

func (f *flaky) Dial(p bfd.Peer) (bfd.Sender, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials++
	if f.dial != nil {
		return nil, f.dial
	}
	s, err := f.Transport.Dial(p)
	return &flakySender{s, f}, err
}

type flakySender struct {
	bfd.Sender
	f *flaky
}

func (s *flakySender) Send(b []byte) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.send != nil {
		return s.f.send
	}
	return s.Sender.Send(b)
}

// What fails is shown, tried again, and logged once.
func TestSocketsFail(t *testing.T) {
	broken := errors.New("no luck")
	for name, set := range map[string]func(f *flaky, err error){
		"listen": func(f *flaky, err error) { f.set(err, nil, nil) },
		"dial":   func(f *flaky, err error) { f.set(nil, err, nil) },
		"send":   func(f *flaky, err error) { f.set(nil, nil, err) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nw := bfdtest.NewNetwork()
				f := &flaky{Transport: nw.Host(addr(textA))}
				set(f, broken)
				toB := fast(textB)
				toB.Interface = "eth0"
				var log bytes.Buffer
				a, stopA := run(t, bfd.Config{Transport: f, Logger: slog.New(slog.NewTextHandler(&log, nil))}, toB)
				b, stopB := run(t, bfd.Config{Transport: nw.Host(addr(textB))}, fast(textA))
				time.Sleep(time.Minute)
				synctest.Wait() // a try may be due in this very moment
				require.ErrorIs(t, only(t, a).Err, broken)
				require.NotEqual(t, bfd.Up, only(t, a).State)
				require.Equal(t, bfd.Down, only(t, b).State, "nothing was sent")
				require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("WARN")), log.String())
				require.LessOrEqual(t, f.dials, 61, "not in a hurry")

				set(f, nil)
				time.Sleep(5 * time.Second)
				require.NoError(t, only(t, a).Err)
				require.Equal(t, bfd.Up, only(t, a).State)
				stopA()
				stopB()
			})
		})
	}
	t.Run("receive", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			nw := bfdtest.NewNetwork()
			f := &flaky{Transport: nw.Host(addr(textA)), receive: make(chan error, 1)}
			a, stopA := run(t, bfd.Config{Transport: f}, fast(textB))
			_, stopB := run(t, bfd.Config{Transport: nw.Host(addr(textB))}, fast(textA))
			time.Sleep(2 * time.Second)
			require.Equal(t, bfd.Up, only(t, a).State)
			f.receive <- broken
			time.Sleep(5 * time.Second)
			require.Equal(t, bfd.Up, only(t, a).State)
			require.Zero(t, only(t, a).Downs, "the port is opened again at once")
			stopA()
			stopB()
			require.Zero(t, nw.Open())
		})
	})
}

func TestRunOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stop := run(t, bfd.Config{Transport: bfdtest.NewNetwork().Host()})
		synctest.Wait()
		require.ErrorContains(t, m.Run(t.Context()), "before")
		stop()
	})
}

// Ports are open while they are needed.
func TestPortsFollowPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nw := bfdtest.NewNetwork()
		m, stop := run(t, bfd.Config{Transport: nw.Host(addr(textA), addr("2001:db8::1"))})
		for _, tt := range []struct {
			peers []bfd.Peer
			want  int
		}{
			{nil, 0},
			{[]bfd.Peer{fast(textB)}, 1},
			{[]bfd.Peer{fast(textB), {Addr: addr("192.0.2.3")}}, 1},
			{[]bfd.Peer{fast(textB), {Addr: addr(textB), Multihop: true}, fast("2001:db8::2"), {Addr: addr("2001:db8::2"), Multihop: true}}, 4},
			{[]bfd.Peer{fast("2001:db8::2")}, 1},
			{nil, 0},
		} {
			require.NoError(t, m.SetPeers(tt.peers))
			synctest.Wait()
			require.Equal(t, tt.want, nw.Open())
		}
		stop()
	})
}

// Two monitors over a wire that loses, delays and reorders, with random changes:
// in the end, on a good wire, they are up with what was last asked for, and they
// leave nothing behind.
func TestMonitorsOnBadNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, onBadNetwork) })
}

func onBadNetwork(t *rapid.T) {
	nw := bfdtest.NewNetwork()
	src := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	var mu sync.Mutex
	link := func(loss int, delay time.Duration) bfdtest.Link {
		return func(bfdtest.Datagram) (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(src.Int64N(int64(delay) + 1)), src.IntN(100) >= loss
		}
	}
	peer := func(text string) bfd.Peer {
		return bfd.Peer{
			Addr:       addr(text),
			Transmit:   time.Duration(rapid.IntRange(10, 1000).Draw(t, "transmit")) * ms,
			Receive:    time.Duration(rapid.IntRange(10, 1000).Draw(t, "receive")) * ms,
			Multiplier: rapid.IntRange(2, 5).Draw(t, "multiplier"),
			Disabled:   rapid.IntRange(0, 9).Draw(t, "disabled") == 0,
		}
	}
	toA, toB := peer(textA), peer(textB)
	a, stopA := run(t, bfd.Config{Transport: nw.Host(addr(textA))}, toB)
	b, stopB := run(t, bfd.Config{Transport: nw.Host(addr(textB))}, toA)
	for range rapid.IntRange(1, 5).Draw(t, "phases") {
		nw.SetLink(link(rapid.SampledFrom([]int{0, 5, 30, 100}).Draw(t, "loss"), time.Duration(rapid.IntRange(0, 100).Draw(t, "delay"))*ms))
		time.Sleep(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "ms")) * ms)
		toB = peer(textB)
		require.NoError(t, a.SetPeers([]bfd.Peer{toB}))
	}
	toA.Disabled, toB.Disabled = false, false
	require.NoError(t, a.SetPeers([]bfd.Peer{toB}))
	require.NoError(t, b.SetPeers([]bfd.Peer{toA}))
	nw.SetLink(bfdtest.Perfect)
	time.Sleep(time.Minute)
	sa, sb := only(t, a), only(t, b)
	require.Equal(t, []bfd.State{bfd.Up, bfd.Up}, []bfd.State{sa.State, sb.State})
	require.Equal(t, max(toB.Transmit, toA.Receive), sa.Transmit)
	require.Equal(t, time.Duration(toB.Multiplier)*max(toA.Receive, toB.Transmit), sb.Detect)
	stopA()
	stopB()
	require.Zero(t, nw.Open())
}
