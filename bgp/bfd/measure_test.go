//go:build linux

package bfd_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp/bfd"
	"github.com/heraldlb/herald/internal/netnstest"
)

// BenchmarkDetection measures the time from the cut of a path to the change of the
// session, at 50 ms x 3. An iteration takes about two seconds, nearly all of them
// until the session is up again:
//
//	go test -run '^$' -bench Detection -benchtime 20x ./bgp/bfd
func BenchmarkDetection(b *testing.B) {
	for name, newRemote := range map[string]func(testing.TB, *netnstest.NS) remote{"by=FRR": newFRR, "by=BIRD": newBIRD, "by=Herald": nil} {
		b.Run(name, func(b *testing.B) {
			l := newLAN(b)
			ours, theirs := with(kinds(true)[:1], 50*ms, 50*ms, 3), with(kinds(false)[:1], 50*ms, 50*ms, 3)
			if newRemote == nil {
				startIn(b, l.b, theirs...)
			} else {
				r := newRemote(b, l.b)
				r.configure(theirs)
				r.start()
			}
			m := startIn(b, l.a, ours...)
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				settled(b, m)
				// At any moment between two packets.
				time.Sleep(rand.N(50 * ms))
				b.StartTimer()
				began := time.Now()
				l.cut(b)
				for only(b, m).State == bfd.Up {
					<-m.Changed()
				}
				took = append(took, time.Since(began))
				b.StopTimer()
				l.join(b)
				b.StartTimer()
			}
			report(b, took)
		})
	}
}

// settled waits until the one session is up and its intervals are agreed.
func settled(tb testing.TB, m *bfd.Monitor) {
	tb.Helper()
	eventually(tb, func() bool {
		s := only(tb, m)
		return s.State == bfd.Up && s.Detect == 150*ms && s.Transmit == 50*ms
	}, "does not come up: %v", sessions{m})
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(percent int) float64 {
		return float64(took[min(len(took)*percent/100, len(took)-1)].Microseconds()) / 1000
	}
	b.ReportMetric(at(50), "ms-median")
	b.ReportMetric(at(95), "ms-p95")
	b.ReportMetric(at(100), "ms-max")
}

// BenchmarkSessions holds 256 sessions at 50 ms x 3 for ten seconds an iteration,
// both ends in this process, and reports the share of one CPU that one end takes
// and how often sessions went down; also with other processes that keep half of the
// CPUs busy, or all of them.
//
//	go test -run '^$' -bench Sessions -benchtime 1x ./bgp/bfd
func BenchmarkSessions(b *testing.B) {
	const side = 16
	for name, busy := range map[string]int{"load=none": 0, "load=half": (runtime.NumCPU() + 1) / 2, "load=full": runtime.NumCPU()} {
		b.Run(name, func(b *testing.B) {
			hosts := [2]*netnstest.NS{netnstest.New(b), netnstest.New(b)}
			netnstest.Veth(b, hosts[0], "eth0", hosts[1], "eth0")
			var peers [2][]bfd.Peer
			for i := range side {
				hosts[0].AddAddr(b, "eth0", fmt.Sprintf("10.0.0.%d/16", i+1))
				hosts[1].AddAddr(b, "eth0", fmt.Sprintf("10.0.1.%d/16", i+1))
				for j := range side {
					p := bfd.Peer{Addr: addr(fmt.Sprintf("10.0.1.%d", j+1)), Local: addr(fmt.Sprintf("10.0.0.%d", i+1)), Transmit: 50 * ms, Receive: 50 * ms}
					peers[0] = append(peers[0], p)
					p.Addr, p.Local = p.Local, p.Addr
					peers[1] = append(peers[1], p)
				}
			}
			near, far := startIn(b, hosts[0], peers[0]...), startIn(b, hosts[1], peers[1]...)
			all(b, near, bfd.Up)
			all(b, far, bfd.Up)
			defer burn(b, busy)()
			before, began, cpu := count(near), time.Now(), cpuTime(b)
			for b.Loop() {
				time.Sleep(10 * time.Second)
			}
			after := count(near)
			share := (cpuTime(b) - cpu).Seconds() / time.Since(began).Seconds()
			b.ReportMetric(100*share/2, "%cpu-per-end")
			b.ReportMetric(float64(after.packets-before.packets)/time.Since(began).Seconds(), "packets/s")
			b.ReportMetric(float64(after.downs-before.downs), "flaps")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// burn keeps processes busy until stop is called.
func burn(b *testing.B, processes int) (stop func()) {
	cmds := make([]*exec.Cmd, processes)
	for i := range cmds {
		cmds[i] = exec.Command("sh", "-c", "while :; do :; done")
		require.NoError(b, cmds[i].Start())
	}
	return func() {
		for _, c := range cmds {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

type totals struct{ packets, downs uint64 }

func count(m *bfd.Monitor) (t totals) {
	for _, s := range m.Sessions() {
		t.packets += s.Sent + s.Received
		t.downs += s.Downs
	}
	return t
}

// cpuTime returns what this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
