package announce

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// benchTable holds n IPv4 addresses from 10.0.0.0 on, and as many of IPv6.
func benchTable(tb testing.TB, n int) *table {
	tb.Helper()
	ads := make([]Advertisement, 0, 2*n)
	for i := range n {
		ads = append(ads,
			Advertisement{Addr: netip.AddrFrom4(benchAddr(i)), Owner: "bench"},
			Advertisement{Addr: netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 12: byte(i >> 24), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}), Owner: "bench"})
	}
	t, err := newTable(ads, &table{})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func benchAddr(i int) (a [4]byte) {
	binary.BigEndian.PutUint32(a[:], 10<<24+uint32(i))
	return a
}

// BenchmarkLookup is the decision about one request, alternately for an address
// that is held and for one that is not, without the making of the reply.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 10_000, 100_000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			var a Announcer
			a.table.Store(benchTable(b, n))
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			keys := make([][4]byte, 4096)
			for i := range keys {
				keys[i] = benchAddr(rng.IntN(n) + i%2*n)
			}
			b.ReportAllocs()
			i, hits := 0, 0
			for b.Loop() {
				if e := a.table.Load().lookup4(keys[i%len(keys)]); e != nil && e.allows("eth0") {
					hits++
				}
				i++
			}
			if i > 1 && (hits == 0 || hits > i/2+1) {
				b.Fatalf("%d hits of %d", hits, i)
			}
		})
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	tab := benchTable(t, 1000)
	restricted := tableOf(t, ad(vip4, "eth0", "eth1", "eth2"))
	foreign, unknown6 := edit(arpRequest(), 38, 11, 1, 2, 3), edit(nsFrame(), nsTarget, 0x20, 2)
	known := arpRequest()
	buf := make([]byte, 0, 128)
	for name, f := range map[string]func(){
		"hit":         func() { _ = restricted.lookup4([4]byte{192, 0, 2, 50}).allows("eth2") },
		"foreign ARP": func() { _, _, _ = answerARP(buf, foreign, tab, "eth0", ownMAC()) },
		"foreign NDP": func() { _, _, _ = answerNDP(buf, unknown6, tab, "eth0", ownMAC()) },
		"other link":  func() { _, _, _ = answerARP(buf, known, restricted, "eth9", ownMAC()) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkServe is all that a responder does with a batch of questions but for the
// system calls, in ns per question.
func BenchmarkServe(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			a, err := New(Config{})
			if err != nil {
				b.Fatal(err)
			}
			a.table.Store(benchTable(b, n))
			r := &responder{a: a, protocol: ARP, link: "eth0", lane: a.lane("eth0"), own: ownMAC(), conn: nowhere{}}
			frames := make([][]byte, 64*batchSize)
			for i := range frames {
				to := benchAddr(i * 7919 % n)
				frames[i] = edit(arpRequest(), arpTarget, to[:]...)
			}
			out := answers{buf: makeFrames(batchSize, arpFrameSize)}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.answer(frames[i%64*batchSize:][:batchSize], &out)
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i*batchSize), "ns/question")
		})
	}
}

type nowhere struct{ Conn }

func (nowhere) WriteFrames(frames [][]byte) (int, error) { return len(frames), nil }

// BenchmarkHear is what conflict detection adds to a question that is no claim.
func BenchmarkHear(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			t := benchTable(b, n)
			r := &responder{protocol: ARP, own: ownMAC()}
			frames := make([][]byte, 4096)
			for i := range frames {
				frames[i] = edit(arpRequest(), 30, byte(i>>8), byte(i))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				r.hear(frames[i%len(frames)], t, nil)
			}
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	tab := tableOf(b, ad(vip4), ad(vip6))
	ask, ns := arpRequest(), nsFrame()
	buf := make([]byte, 0, 128)
	for name, f := range map[string]func(){
		"arp": func() { _, _, _ = answerARP(buf, ask, tab, "eth0", ownMAC()) },
		"ndp": func() { _, _, _ = answerNDP(buf, ns, tab, "eth0", ownMAC()) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// BenchmarkSetAddrs replaces one of n addresses.
func BenchmarkSetAddrs(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			a, err := New(Config{})
			if err != nil {
				b.Fatal(err)
			}
			ads := make([]Advertisement, n)
			for i := range ads {
				ads[i] = Advertisement{Addr: netip.AddrFrom4(benchAddr(i)), Owner: "bench"}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				ads[i%n].Addr = netip.AddrFrom4(benchAddr(i%n + i%2*n))
				if err := a.SetAddrs(ads); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
