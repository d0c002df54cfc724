package gobgp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/bgptest"
)

// sizes are the cases of the benchmarks that send everything.
func sizes(b *testing.B, run func(b *testing.B, prefixes, peers int)) {
	for _, peers := range []int{1, 8} {
		for _, prefixes := range []int{1_000, 10_000, 50_000} {
			b.Run(fmt.Sprintf("prefixes=%d/peers=%d", prefixes, peers), func(b *testing.B) { run(b, prefixes, peers) })
		}
	}
}

func receivers(b *testing.B, n int) []*bgptest.Peer {
	list := make([]*bgptest.Peer, n)
	for i := range list {
		// GoBGP knows peers by address, so each has its own.
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))})
		require.NoError(b, err)
		list[i] = bgptest.NewPeer(b, bgptest.PeerConfig{ASN: 64513 + uint32(i), Quiet: true, Listener: l})
	}
	return list
}

// measure times announcing and withdrawing until every receiver has noticed.
func measure(b *testing.B, prefixes int, receivers []*bgptest.Peer, announce, withdraw func()) {
	var up, down time.Duration
	for b.Loop() {
		start := time.Now()
		announce()
		for _, r := range receivers {
			r.WaitCount(b, prefixes)
		}
		middle := time.Now()
		withdraw()
		for _, r := range receivers {
			r.WaitCount(b, 0)
		}
		up, down = up+middle.Sub(start), down+time.Since(middle)
	}
	b.ReportMetric(up.Seconds()*1000/float64(b.N), "announce-ms")
	b.ReportMetric(down.Seconds()*1000/float64(b.N), "withdraw-ms")
	b.ReportMetric(0, "ns/op")
}

func benchEngine(b *testing.B, receivers []*bgptest.Peer) *Engine {
	e, err := New(Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	peers := make([]bgp.Peer, len(receivers))
	for i, r := range receivers {
		peers[i] = r.Peer(fmt.Sprint("p", i), 64512)
	}
	require.NoError(b, e.SetPeers(peers))
	runEngine(b, e)
	for _, p := range peers {
		bgptest.WaitSession(b, e, p.Name, "established", established)
	}
	return e
}

// BenchmarkSetRoutes announces everything to sessions that are there, and takes it
// back; BenchmarkPlainServer is the same with one GoBGP server and nothing of ours.
func BenchmarkSetRoutes(b *testing.B) {
	sizes(b, func(b *testing.B, prefixes, peers int) {
		to := receivers(b, peers)
		e := benchEngine(b, to)
		routes := hosts(prefixes)
		measure(b, prefixes, to, func() { _ = e.SetRoutes(routes) }, func() { _ = e.SetRoutes(nil) })
	})
}

func BenchmarkPlainServer(b *testing.B) {
	sizes(b, func(b *testing.B, prefixes, peers int) {
		to := receivers(b, peers)
		in := plainServer(b, to)
		ops := plainOperations(prefixes)
		apply := func(remove bool) {
			for i := range ops {
				ops[i].remove = remove
			}
			require.NoError(b, in.apply(context.Background(), ops))
		}
		measure(b, prefixes, to, func() { apply(false) }, func() { apply(true) })
	})
}

// plainServer is a GoBGP server as its users have it, with all peers in it.
func plainServer(b *testing.B, to []*bgptest.Peer) *instance {
	in := shared.take()
	ctx := context.Background()
	require.NoError(b, in.clean(ctx))
	require.NoError(b, shared.start(ctx, in, &api.Global{Asn: 64512, RouterId: "198.51.100.200", ListenPort: -1}))
	in.used = true
	for _, r := range to {
		p := r.Peer("", 64512)
		require.NoError(b, in.server.AddPeer(ctx, &api.AddPeerRequest{Peer: neighbour(&p, r.Addr().Addr(), "")}))
	}
	for _, r := range to {
		r.WaitEstablished(b)
	}
	b.Cleanup(func() {
		for _, r := range to {
			in.address = r.Addr().Addr().String()
			require.NoError(b, in.deletePeer(ctx))
		}
		require.NoError(b, in.clean(ctx))
		shared.put(in)
	})
	return in
}

func plainOperations(n int) []operation {
	enc := newEncoder(&bgp.Peer{LocalASN: 64512, PeerASN: 64513})
	ops := make([]operation, n)
	for i, r := range hosts(n) {
		ops[i] = operation{prefix: r.Prefix, attrs: enc.encode(&r, netip.IPv4Unspecified())}
	}
	return ops
}

// BenchmarkChangeOne changes the attributes of one route among many, until the
// peer has it: by telling the change, and by telling everything.
func BenchmarkChangeOne(b *testing.B) {
	for _, prefixes := range []int{10, 50_000} {
		to := receivers(b, 1)
		e := benchEngine(b, to)
		routes := hosts(prefixes)
		require.NoError(b, e.SetRoutes(routes))
		to[0].WaitCount(b, prefixes)
		n := uint32(0)
		change := func(b *testing.B, tell func(r bgp.Route)) {
			for b.Loop() {
				n++
				routes[3].MED = new(n)
				tell(routes[3])
				to[0].Wait(b, "the change", func(v bgptest.View) bool {
					r, _ := v.Route(routes[3].Prefix)
					return r.MED != nil && *r.MED == n
				})
			}
		}
		b.Run(fmt.Sprintf("update/prefixes=%d", prefixes), func(b *testing.B) {
			change(b, func(r bgp.Route) {
				_ = e.UpdateRoutes([]bgp.Change{{Prefix: r.Prefix, Routes: []bgp.Route{r}}})
			})
		})
		b.Run(fmt.Sprintf("set/prefixes=%d", prefixes), func(b *testing.B) {
			change(b, func(bgp.Route) { _ = e.SetRoutes(routes) })
		})
		b.Run(fmt.Sprintf("equal/prefixes=%d", prefixes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = e.SetRoutes(routes)
			}
		})
	}
}

// BenchmarkSessionStart measures a session from nothing to all routes, less the
// second or two that GoBGP waits before it connects.
func BenchmarkSessionStart(b *testing.B) {
	for _, prefixes := range []int{1_000, 50_000} {
		b.Run(fmt.Sprintf("prefixes=%d", prefixes), func(b *testing.B) {
			to := receivers(b, 1)
			e := benchEngine(b, to)
			require.NoError(b, e.SetRoutes(hosts(prefixes)))
			to[0].WaitCount(b, prefixes)
			var total time.Duration
			for b.Loop() {
				sessions, _ := to[0].Sessions()
				to[0].Break()
				to[0].Wait(b, "back", func(v bgptest.View) bool { return v.Sessions() > sessions })
				start := time.Now()
				to[0].WaitCount(b, prefixes)
				total += time.Since(start)
			}
			b.ReportMetric(total.Seconds()*1000/float64(b.N), "routes-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
