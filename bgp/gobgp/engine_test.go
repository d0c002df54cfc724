package gobgp

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/bgptest"
)

func TestNewChecksRouterID(t *testing.T) {
	for _, id := range []string{"0.0.0.0", "224.0.0.1", "2001:db8::1"} {
		_, err := New(Config{RouterID: netip.MustParseAddr(id)})
		require.ErrorIs(t, err, bgp.ErrInvalid, id)
	}
}

// TestLimits: what this engine cannot do is refused by name, never ignored.
func TestLimits(t *testing.T) {
	tests := []struct {
		name  string
		cfg   Config
		edit  func(*bgp.Peer)
		field string
		words string
	}{
		{"no hold timer", Config{}, func(p *bgp.Peer) { p.HoldTime = new(time.Duration(0)) }, "HoldTime", "3 seconds"},
		{"link-local without zone", Config{}, func(p *bgp.Peer) { p.Addr = netip.MustParseAddr("fe80::1") }, "Addr", "fe80::1%eth0"},
		{"password with zone", Config{}, func(p *bgp.Peer) { p.Addr, p.Password = netip.MustParseAddr("fe80::1%eth0"), "x" }, "Password", "zone"},
		{"password with interface", Config{}, func(p *bgp.Peer) { p.Addr, p.Interface, p.PasswordFile = netip.Addr{}, "eth0", "/x" }, "Password", "link-local"},
		{"passive on an interface", Config{}, func(p *bgp.Peer) { p.Addr, p.Interface, p.Passive = netip.Addr{}, "eth0", true }, "Passive", "connected to"},
		{"no router ID", Config{}, func(p *bgp.Peer) { p.RouterID = netip.Addr{} }, "RouterID", "required"},
		{"BFD", Config{}, func(p *bgp.Peer) { p.BFDProfile = "fast" }, "BFDProfile", "no BFD"},
		{"BFD by others", Config{BFD: true}, func(p *bgp.Peer) { p.BFDProfile = "fast" }, "", ""},
		{"router ID of the engine", Config{RouterID: netip.MustParseAddr("192.0.2.1")}, func(p *bgp.Peer) { p.RouterID = netip.Addr{} }, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := bgp.Peer{Name: "p", LocalASN: 1, PeerASN: 2, Addr: netip.MustParseAddr("192.0.2.1"), RouterID: netip.MustParseAddr("192.0.2.2")}
			tt.edit(&p)
			e := newEngine(t, tt.cfg)
			err := e.SetPeers([]bgp.Peer{p})
			if tt.field == "" {
				require.NoError(t, err)
				require.Len(t, e.Sessions(), 1)
				return
			}
			var fault *bgp.PeerError
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, tt.field, fault.Field)
			assert.Contains(t, fault.Error(), tt.words)
			assert.Empty(t, e.Sessions())
		})
	}
}

func TestPassivePeersNeedPlacesOfTheirOwn(t *testing.T) {
	passive := func(name, addr, source string) bgp.Peer {
		p := bgp.Peer{Name: name, LocalASN: 1, PeerASN: 2, Addr: netip.MustParseAddr(addr), RouterID: netip.MustParseAddr("192.0.2.2"), Passive: true}
		if source != "" {
			p.Source = netip.MustParseAddr(source)
		}
		return p
	}
	e := newEngine(t, Config{})
	err := e.SetPeers([]bgp.Peer{
		passive("a", "192.0.2.1", ""), passive("b", "192.0.2.3", ""), passive("c", "192.0.2.4", "192.0.2.2"), passive("d", "2001:db8::1", ""),
	})
	faults := bgp.PeerErrors(err)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Error(), `peer "b"`)
	require.Contains(t, faults[0].Error(), `"a"`)
	require.Len(t, e.Sessions(), 3)
}

// TestTwoEngines: one waits for the other, with a password, on loopback.
func TestTwoEngines(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, l.Close())

	waiting, calling := newEngine(t, Config{}), newEngine(t, Config{})
	a := bgp.Peer{
		Name: "caller", LocalASN: 4200000001, PeerASN: 64512, Addr: netip.MustParseAddr("127.0.0.3"), Source: netip.MustParseAddr("127.0.0.2"),
		Passive: true, ListenPort: port, RouterID: netip.MustParseAddr("192.0.2.1"), Password: "secret",
	}
	b := bgp.Peer{
		Name: "waiter", LocalASN: 64512, PeerASN: 4200000001, Addr: netip.MustParseAddr("127.0.0.2"), Source: netip.MustParseAddr("127.0.0.3"),
		Port: port, RouterID: netip.MustParseAddr("192.0.2.2"), Password: "secret", ConnectRetry: new(time.Second),
	}
	require.NoError(t, waiting.SetPeers([]bgp.Peer{a}))
	require.NoError(t, calling.SetPeers([]bgp.Peer{b}))
	stop := runEngine(t, waiting)
	runEngine(t, calling)
	bgptest.WaitSession(t, calling, "waiter", "established", established)
	got := bgptest.WaitSession(t, waiting, "caller", "established", established)
	require.Equal(t, uint32(64512), got.Negotiated.PeerASN)
	require.NoError(t, calling.SetRoutes(hosts(100)))
	bgptest.WaitSession(t, waiting, "caller", "told", func(s bgp.Session) bool { return s.Counters.Received.Update >= 100 })

	require.NoError(t, stop())
	again, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	require.NoError(t, err, "the port is in use after Run")
	require.NoError(t, again.Close())
	down := bgptest.WaitSession(t, calling, "waiter", "down", func(s bgp.Session) bool { return s.State != bgp.Established })
	require.Contains(t, down.LastError, "peer deconfigured")
}

// TestNothingListens: without a passive peer no port is taken.
func TestNothingListens(t *testing.T) {
	router := bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64513})
	e := newEngine(t, Config{})
	require.NoError(t, e.SetPeers([]bgp.Peer{router.Peer("router", 64512)}))
	runEngine(t, e)
	router.WaitEstablished(t)
	l, err := net.Listen("tcp", "127.0.0.9:179")
	if os.Geteuid() != 0 && err != nil {
		t.Skip("only root may listen on port 179")
	}
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// TestServersAreReused: engines and peers come and go, and leave the servers of
// the most sessions there were at one time, and nothing else.
func TestServersAreReused(t *testing.T) {
	const peers = 3
	var routers []*bgptest.Peer
	var list []bgp.Peer
	for i := range peers {
		r := bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64513})
		routers = append(routers, r)
		list = append(list, r.Peer(fmt.Sprint("p", i), 64512))
	}
	before := goleak.IgnoreCurrent()
	servers, buffers := running("server.(*BgpServer).Serve("), running("channels.(*InfiniteChannel).infiniteBuffer(")
	for range 4 {
		e := newEngine(t, Config{})
		require.NoError(t, e.SetPeers(list))
		require.NoError(t, e.SetRoutes(hosts(50)))
		stop := runEngine(t, e)
		for _, r := range routers {
			r.WaitCount(t, 50)
		}
		require.NoError(t, e.SetPeers(list[:1]))
		require.NoError(t, e.SetPeers(list))
		require.NoError(t, stop())
		for _, r := range routers {
			r.Wait(t, "down", func(v bgptest.View) bool { return !v.Established() })
		}
	}
	// A removed peer closes while its successor opens: then there are two for a moment.
	require.LessOrEqual(t, running("server.(*BgpServer).Serve("), servers+2*peers)
	goleak.VerifyNone(t, append(gobgpLeaves(), before)...)
	// One would be enough for each session that was not closed.
	wait(t, "GoBGP's channels are closed", func() bool { return running("channels.(*InfiniteChannel).infiniteBuffer(") <= buffers+2 })
}

// running counts the goroutines that are in a function.
func running(function string) int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function)
}

// TestStuckPeer: a peer that reads nothing while megabytes wait for it keeps
// neither Run nor the others.
func TestStuckPeer(t *testing.T) {
	stuck, healthy := bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64513}), bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64514})
	e := newEngine(t, Config{})
	require.NoError(t, e.SetPeers([]bgp.Peer{stuck.Peer("stuck", 64512), healthy.Peer("healthy", 64512)}))
	stop := runEngine(t, e)
	stuck.WaitEstablished(t)
	healthy.WaitEstablished(t)
	stuck.Deafen(true)
	routes := hosts(6000)
	for i := range routes {
		routes[i].Communities = make([]bgp.Community, 500)
		for c := range routes[i].Communities {
			routes[i].Communities[c] = bgp.Community(i<<16 | c)
		}
	}
	require.NoError(t, e.SetRoutes(routes))
	healthy.WaitCount(t, len(routes))
	bgptest.WaitSession(t, e, "stuck", "given everything", func(s bgp.Session) bool { return s.Announced == len(routes) })

	start := time.Now()
	err := stop()
	require.Less(t, time.Since(start), 3*time.Second)
	require.ErrorContains(t, err, `"stuck"`)
	require.NotContains(t, err.Error(), "healthy")
	healthy.Wait(t, "closed", func(v bgptest.View) bool { return !v.Established() && v.Count() == 0 })
	stuck.Break() // lets GoBGP end what it tries
	stuck.Deafen(false)
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	router := bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64513})
	e := newEngine(t, Config{})
	stop := runEngine(t, e)
	p := router.Peer("router", 64512)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 50 {
				q := p
				q.HoldTime = new(time.Duration(30+i) * time.Second)
				assert.NoError(t, e.SetPeers([]bgp.Peer{q}))
				assert.NoError(t, e.SetRoutes(hosts(n+i)))
				assert.NoError(t, e.UpdateRoutes([]bgp.Change{{Prefix: pfx("203.0.113.0/24"), Routes: []bgp.Route{{Prefix: pfx("203.0.113.0/24")}}}}))
				assert.NoError(t, e.SetPath("router", bgp.Path{State: bgp.PathState(n % 2)}))
				_, _ = e.Sessions(), e.Stats()
			}
		})
	}
	wg.Wait()
	require.NoError(t, e.SetPeers([]bgp.Peer{p}))
	require.NoError(t, e.SetRoutes(hosts(7)))
	router.WaitCount(t, 7)
	stats := e.Stats()
	require.Equal(t, 7, stats.Routes)
	require.Equal(t, 1, stats.Sessions)
	require.NoError(t, stop())
	require.Error(t, e.Run(context.Background()), "a second Run")
}

// TestWithheld: a route of the other family without a next hop is counted and
// explained, and sent when there is one.
func TestWithheld(t *testing.T) {
	l := newLab(t, &bird{})
	l.removeAddr(l.node, l.link, l.node6.String()+"/64")
	l.startRouter()
	e, _ := l.start(l.peer(), bgp.Route{Prefix: pfx("203.0.113.1/32")}, bgp.Route{Prefix: pfx("2001:db8:ffff::1/128")},
		bgp.Route{Prefix: pfx("203.0.113.2/32"), NextHop: netip.MustParseAddr("2001:db8::1")})
	got := bgptest.WaitSession(t, e, "router", "withheld", func(s bgp.Session) bool { return s.Withheld == 2 && s.Announced == 1 })
	require.NotEmpty(t, got.WithheldReason)
	l.expect(map[string]bgptest.Route{"203.0.113.1/32": {NextHop: l.node4, ASPath: []uint32{64512}}})
	l.node.AddAddr(t, l.link, l.node6.String()+"/64")
	l.expect(map[string]bgptest.Route{
		"203.0.113.1/32":       {NextHop: l.node4, ASPath: []uint32{64512}},
		"2001:db8:ffff::1/128": {NextHop: l.node6, ASPath: []uint32{64512}},
	})
}

func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	p := bgp.Peer{PasswordFile: path}
	for content, want := range map[string]bgp.Secret{"secret": "secret", "secret\n": "secret", "secret\r\n": "secret", "two\nlines\n": "two\nlines", " x ": " x "} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		got, err := password(&p)
		require.NoError(t, err)
		require.True(t, want == got, "content %q", content)
	}
	for _, content := range []string{"", "\n", strings.Repeat("x", 81)} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := password(&p)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "xxxx")
	}
	require.NoError(t, os.Remove(path))
	_, err := password(&p)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestLogHidesPassword: at the lowest level, with a session that comes and goes.
func TestLogHidesPassword(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	handler := slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), &slog.HandlerOptions{Level: slog.LevelDebug})
	router := bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64513})
	p := router.Peer("router", 64512)
	p.Password = "hunter2" // which the router does not have
	e := newEngine(t, Config{Logger: slog.New(handler)})
	require.NoError(t, e.SetPeers([]bgp.Peer{p}))
	stop := runEngine(t, e)
	got := bgptest.WaitSession(t, e, "router", "failed", func(s bgp.Session) bool { return s.LastError != "" })
	require.Contains(t, got.LastError, "password differs")
	p.Password = ""
	require.NoError(t, e.SetPeers([]bgp.Peer{p}))
	bgptest.WaitSession(t, e, "router", "established", established)
	require.NoError(t, stop())
	mu.Lock()
	defer mu.Unlock()
	require.NotContains(t, log.String(), "hunter2")
	require.Contains(t, log.String(), `says="Peer Up"`)
	require.Contains(t, log.String(), "peer=router")
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
