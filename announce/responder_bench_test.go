//go:build linux

package announce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"

	"github.com/heraldlb/herald/internal/netnstest"
)

// BenchmarkResponder asks over a veth pair, with a number of questions
// outstanding, and measures answers per second and the time to an answer.
//
// In the same run, in turns, the same client asks two baselines over pairs of
// their own: the smallest responder that works on one frame at a time
// ("echo1"), and the same with recvmmsg and sendmmsg ("echo64"). Neither looks
// anything up. The ratios are the figures to compare between machines.
func BenchmarkResponder(b *testing.B) {
	for _, addresses := range []int{1, 10_000} {
		for _, window := range []int{1, 128} {
			b.Run(fmt.Sprintf("addresses=%d/window=%d", addresses, window), func(b *testing.B) {
				benchmarkResponder(b, addresses, window)
			})
		}
	}
}

func benchmarkResponder(b *testing.B, addresses, window int) {
	client, node := netnstest.New(b), netnstest.New(b)
	var askers [3]*asker
	for i, name := range []string{"echo1", "echo64", "eth0"} {
		client.Sysctl(b, "net/ipv6/conf/default/disable_ipv6", "1")
		node.Sysctl(b, "net/ipv6/conf/default/disable_ipv6", "1")
		netnstest.Veth(b, client, name, node, name)
		askers[i] = newAsker(b, client, name, window, addresses)
	}
	echo(b, node, "echo1", 1)
	echo(b, node, "echo64", batchSize)
	serve(b, node, addresses)

	var rates [3]float64
	const slice = 200 * time.Millisecond
	measure := func(i int) {
		start, n := time.Now(), 0
		for time.Since(start) < slice {
			n += askers[i].turn(b)
		}
		rates[i] += float64(n)
		askers[i].busy += time.Since(start)
	}
	for i := range askers {
		askers[i].turn(b) // warm up, and wait for the links
	}
	b.ResetTimer()
	for b.Loop() { // one iteration: a slice of time for each, in turns
		for i := range askers {
			measure(i)
		}
	}
	for i, a := range askers {
		rates[i] /= a.busy.Seconds()
	}
	herald := askers[2]
	slices.Sort(herald.took)
	quantile := func(q float64) float64 {
		return float64(herald.took[int(q*float64(len(herald.took)-1))].Nanoseconds()) / 1e3
	}
	b.ReportMetric(0, "ns/op") // an iteration is a fixed time
	b.ReportMetric(rates[2], "replies/s")
	b.ReportMetric(quantile(0.5), "p50-µs")
	b.ReportMetric(quantile(0.99), "p99-µs")
	b.ReportMetric(float64(herald.lost), "stalls")
	b.ReportMetric(rates[2]/rates[0], "×echo1")
	b.ReportMetric(rates[2]/rates[1], "×echo64")
}

// serve runs an announcer with addresses in a namespace, on eth0 only.
func serve(b *testing.B, node *netnstest.NS, addresses int) *Announcer {
	b.Helper()
	a, err := New(Config{Exclude: []string{"^echo", "^lo$"}, Repeat: 1})
	if err != nil {
		b.Fatal(err)
	}
	if err := a.SetAddrs(benchAds(addresses)); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- node.Do(func() error { return a.Run(b.Context()) }) }()
	b.Cleanup(func() { // the context ends before the clean-up
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	awaitAnnounced(b, a)
	return a
}

// awaitAnnounced waits until every address was announced once.
func awaitAnnounced(b *testing.B, a *Announcer) {
	b.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for e := range a.table.Load().all {
		for e.cell(0).gratuitous.Load() < 2 {
			if time.Now().After(deadline) {
				b.Fatal("not announced")
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// BenchmarkAnnounce is the time from SetAddrs to the last of n addresses being
// announced in both forms, on a veth pair.
func BenchmarkAnnounce(b *testing.B) {
	for _, n := range []int{1, 1_000, 10_000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			client, node := netnstest.New(b), netnstest.New(b)
			netnstest.Veth(b, client, "eth0", node, "eth0")
			a := serve(b, node, 1)
			ads := benchAds(n)
			for b.Loop() {
				if err := a.SetAddrs(ads); err != nil {
					b.Fatal(err)
				}
				awaitAnnounced(b, a)
				b.StopTimer()
				if err := a.SetAddrs(nil); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func benchAds(n int) []Advertisement {
	ads := make([]Advertisement, n)
	for i := range ads {
		ads[i] = Advertisement{Addr: netip.AddrFrom4(benchAddr(i)), Owner: "bench"}
	}
	return ads
}

// listenFrames opens a socket for ARP frames with the given operation. Of replies
// it takes only those to this link, so that announcements do not fill its buffer.
func listenFrames(b *testing.B, ns *netnstest.NS, link string, op uint32) (*packetConn, mac) {
	b.Helper()
	var c *packetConn
	var own mac
	err := ns.Do(func() error {
		ifi, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		own = mac(ifi.HardwareAddr)
		conditions := []condition{{20, 2, op}}
		if op == 2 {
			conditions = append(conditions,
				condition{0, 4, binary.BigEndian.Uint32(own[:4])}, condition{4, 2, uint32(binary.BigEndian.Uint16(own[4:]))})
		}
		var prog []bpf.Instruction
		for _, c := range conditions {
			prog = append(prog, c.check()...)
		}
		filter, err := bpf.Assemble(append(prog, bpf.RetConstant{Val: 1 << 16}))
		if err != nil {
			return err
		}
		pc, err := packet.Listen(ifi, packet.Raw, typeARP, &packet.Config{Filter: filter})
		if err != nil {
			return err
		}
		rc, err := pc.SyscallConn()
		if err != nil {
			return errors.Join(err, pc.Close())
		}
		c = newPacketConn(pc, rc, ARP)
		return tune(rc, ifi.Index, ARP)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c, own
}

// echo answers whatever is asked, batch frames at a time.
func echo(b *testing.B, ns *netnstest.NS, link string, batch int) {
	b.Helper()
	c, own := listenFrames(b, ns, link, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		frames := makeFrames(batch, arpFrameSize)
		for {
			n, err := c.ReadFrames(frames)
			if err != nil {
				return
			}
			for _, f := range frames[:n] {
				var target [4]byte
				copy(target[:], f[38:42])
				copy(f[0:6], f[22:28])
				copy(f[6:12], own[:])
				f[21] = 2
				copy(f[32:42], f[22:32])
				copy(f[22:28], own[:])
				copy(f[28:32], target[:])
			}
			if _, err := c.WriteFrames(frames[:n]); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		_ = c.Close()
		<-done
	})
}

// An asker keeps a window of questions outstanding. The sender address of a
// question is its number in the window, by which its answer is known.
type asker struct {
	conn   *packetConn
	asks   [][]byte
	sentAt []time.Time
	recv   [][]byte
	out    [][]byte
	took   []time.Duration
	busy   time.Duration
	rng    *rand.Rand
	n      int
	lost   int
}

func newAsker(b *testing.B, ns *netnstest.NS, link string, window, addresses int) *asker {
	b.Helper()
	conn, own := listenFrames(b, ns, link, 2)
	a := &asker{
		conn: conn, sentAt: make([]time.Time, window), recv: makeFrames(batchSize, arpFrameSize),
		rng: rand.New(rand.NewPCG(1, 2)), n: addresses,
	}
	for i := range window {
		frame := slices.Concat(arpRequest(), make([]byte, 18))
		copy(frame[6:12], own[:])
		copy(frame[22:28], own[:])
		binary.BigEndian.PutUint32(frame[28:], uint32(i)+1)
		a.asks = append(a.asks, frame)
	}
	return a
}

// turn receives what has come and asks anew; the first turn asks everything.
func (a *asker) turn(b *testing.B) int {
	now := time.Now()
	a.out = a.out[:0]
	got := 0
	if a.sentAt[0].IsZero() {
		for i := range a.asks {
			a.prepare(i, now)
		}
	} else {
		if err := a.conn.pc.SetReadDeadline(now.Add(time.Second)); err != nil {
			b.Fatal(err)
		}
		n, err := a.conn.ReadFrames(a.recv)
		if errors.Is(err, os.ErrDeadlineExceeded) { // all were lost: ask again
			a.sentAt[0] = time.Time{}
			a.lost++
			return 0
		}
		if err != nil {
			b.Fatal(err)
		}
		now = time.Now()
		for _, f := range a.recv[:n] {
			i := int(binary.BigEndian.Uint32(f[38:])) - 1
			if i < 0 || i >= len(a.asks) {
				continue // gratuitous
			}
			if len(a.took) < 1<<21 {
				a.took = append(a.took, now.Sub(a.sentAt[i]))
			}
			got++
			a.prepare(i, now)
		}
	}
	if _, err := a.conn.WriteFrames(a.out); err != nil {
		b.Fatal(err)
	}
	return got
}

func (a *asker) prepare(i int, now time.Time) {
	target := benchAddr(a.rng.IntN(a.n))
	copy(a.asks[i][38:], target[:])
	a.sentAt[i] = now
	a.out = append(a.out, a.asks[i])
}
