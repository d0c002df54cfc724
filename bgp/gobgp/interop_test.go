package gobgp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/bgptest"
	"github.com/heraldlb/herald/internal/netnstest"
)

// TestRouters runs every feature against every router.
func TestRouters(t *testing.T) {
	features := map[string]func(*lab){
		"external, both families over IPv4": overIPv4,
		"internal, both families over IPv6": overIPv6,
		"password":                          passwords,
		"password rotated":                  rotated,
		"graceful restart":                  restarted,
		"stop":                              stopped,
		"unnumbered":                        unnumbered,
		"passive":                           passive,
		"multihop":                          multihop,
		"bound to a device":                 bound,
		"dynamic AS":                        dynamic,
	}
	for name, start := range routers() {
		for feature, test := range features {
			t.Run(name+"/"+feature, func(t *testing.T) {
				t.Parallel()
				test(newLab(t, start()))
			})
		}
	}
}

func pfx(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func hosts(n int) []bgp.Route {
	routes := make([]bgp.Route, n)
	for i := range routes {
		addr := netip.AddrFrom4([4]byte{100, byte(64 + i>>16), byte(i >> 8), byte(i)})
		routes[i] = bgp.Route{Prefix: netip.PrefixFrom(addr, 32)}
	}
	return routes
}

// expect waits until the router holds exactly these routes. LOCAL_PREF is compared
// where it is wanted.
func (l *lab) expect(want map[string]bgptest.Route) {
	l.Helper()
	var diff string
	l.waitFor("routes as wanted", func() bool {
		got := l.router.routes(l.T)
		wanted := make(map[netip.Prefix]bgptest.Route)
		for p, r := range want {
			prefix := pfx(p)
			if g, ok := got[prefix]; ok && r.LocalPref == nil {
				g.LocalPref = nil
				got[prefix] = g
			}
			wanted[prefix] = r
		}
		diff = cmp.Diff(wanted, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty())
		return diff == ""
	}, func() string { return diff })
}

func (l *lab) waitFor(what string, condition func() bool, state func() string) {
	l.Helper()
	for deadline := time.Now().Add(bgptest.Patience); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.Fatalf("after %s still not: %s\n%s", bgptest.Patience, what, state())
		}
	}
}

func (l *lab) start(p bgp.Peer, routes ...bgp.Route) (e *Engine, stop func() error) {
	l.Helper()
	e = newEngine(l.T, Config{})
	require.NoError(l.T, e.SetPeers([]bgp.Peer{p}))
	require.NoError(l.T, e.SetRoutes(routes))
	return e, l.run(e)
}

func established(s bgp.Session) bool { return s.State == bgp.Established }

func overIPv4(l *lab) {
	l.startRouter()
	e, _ := l.start(l.peer(),
		bgp.Route{Prefix: pfx("203.0.113.1/32"), LocalPref: new(uint32(7)), Communities: []bgp.Community{64512<<16 | 2, 64512<<16 | 1, 64512<<16 | 2}},
		bgp.Route{Prefix: pfx("203.0.113.128/25"), MED: new(uint32(50)), Prepend: 2, LargeCommunities: []bgp.LargeCommunity{{Global: 64512, Local1: 4200000000, Local2: 3}}},
		bgp.Route{Prefix: pfx("2001:db8:ffff::1/128"), Communities: []bgp.Community{64512<<16 | 1}},
	)
	l.expect(map[string]bgptest.Route{
		"203.0.113.1/32":       {NextHop: l.node4, ASPath: []uint32{64512}, Communities: []bgp.Community{64512<<16 | 1, 64512<<16 | 2}},
		"203.0.113.128/25":     {NextHop: l.node4, ASPath: []uint32{64512, 64512, 64512}, MED: new(uint32(50)), LargeCommunities: []bgp.LargeCommunity{{Global: 64512, Local1: 4200000000, Local2: 3}}},
		"2001:db8:ffff::1/128": {NextHop: l.node6, ASPath: []uint32{64512}, Communities: []bgp.Community{64512<<16 | 1}},
	})
	since := bgptest.WaitSession(l.T, e, "router", "established", established).Since
	require.NoError(l.T, e.SetRoutes([]bgp.Route{{Prefix: pfx("2001:db8:ffff::2/128")}}))
	l.expect(map[string]bgptest.Route{"2001:db8:ffff::2/128": {NextHop: l.node6, ASPath: []uint32{64512}}})
	require.Equal(l.T, since, e.Sessions()[0].Since, "the session was reset by a change of routes")
}

func overIPv6(l *lab) {
	l.cfg.ASN, l.cfg.Node, l.cfg.Self = 64512, l.node6, l.router6
	l.startRouter()
	l.start(l.peer(),
		bgp.Route{Prefix: pfx("203.0.113.1/32"), LocalPref: new(uint32(200))},
		bgp.Route{Prefix: pfx("2001:db8:ffff::1/128"), LocalPref: new(uint32(0)), MED: new(uint32(9))},
		bgp.Route{Prefix: pfx("2001:db8:ffff::2/128")},
	)
	l.expect(map[string]bgptest.Route{
		"203.0.113.1/32":       {NextHop: l.node4, LocalPref: new(uint32(200))},
		"2001:db8:ffff::1/128": {NextHop: l.node6, LocalPref: new(uint32(0)), MED: new(uint32(9))},
		"2001:db8:ffff::2/128": {NextHop: l.node6, LocalPref: new(uint32(100))},
	})
}

func passwords(l *lab) {
	l.cfg.Password = "right-password"
	l.startRouter()
	p := l.peer()
	p.Password = "wrong-password"
	e, _ := l.start(p, hosts(1)...)
	got := bgptest.WaitSession(l.T, e, "router", "failed", func(s bgp.Session) bool { return s.LastError != "" })
	require.NotEqual(l.T, bgp.Established, got.State)
	require.Contains(l.T, got.LastError, "password")
	require.NotContains(l.T, got.LastError, "wrong-password")
	p.Password = "right-password"
	require.NoError(l.T, e.SetPeers([]bgp.Peer{p}))
	bgptest.WaitSession(l.T, e, "router", "established", established)
	wait(l.T, "route", func() bool { return l.router.count(l.T) == 1 })
}

// rotated: the session goes when the file changes, and comes when the router has
// the new password too.
func rotated(l *lab) {
	l.cfg.Password = "first"
	l.startRouter()
	p := l.peer()
	p.PasswordFile = filepath.Join(l.TempDir(), "password")
	e, _ := l.start(p, hosts(1)...)
	bgptest.WaitSession(l.T, e, "router", "held", func(s bgp.Session) bool { return s.State == bgp.Held })
	require.NoError(l.T, os.WriteFile(p.PasswordFile, []byte("first\n"), 0o600))
	bgptest.WaitSession(l.T, e, "router", "established", established)
	require.NoError(l.T, os.WriteFile(p.PasswordFile, []byte("second\n"), 0o600))
	bgptest.WaitSession(l.T, e, "router", "down", func(s bgp.Session) bool { return s.State != bgp.Established })
	l.cfg.Password = "second"
	l.router.reconfigure(l.T, l.cfg)
	bgptest.WaitSession(l.T, e, "router", "established", established)
	require.NoError(l.T, os.Remove(p.PasswordFile))
	bgptest.WaitSession(l.T, e, "router", "held", func(s bgp.Session) bool { return s.State == bgp.Held })
	wait(l.T, "no route", func() bool { return l.router.count(l.T) == 0 })
}

// restarted: a process ends and another takes over, and the router loses nothing.
func restarted(l *lab) {
	l.cfg.Graceful = true
	l.startRouter()
	p := l.peer()
	p.GracefulRestart = true
	first := startChild(l.T, p, 20)
	wait(l.T, "routes of the first process", func() bool { return l.router.count(l.T) == 20 })
	first.keep()
	require.Equal(l.T, 20, l.router.count(l.T), "the first process has ended")
	second := startChild(l.T, p, 21)
	wait(l.T, "routes of the second process", func() bool {
		n := l.router.count(l.T)
		require.GreaterOrEqual(l.T, n, 20, "routes were lost")
		return n == 21
	})
	if b, ok := l.router.(*bird); ok {
		require.NotContains(l.T, b.log(l.T), "] 100.64.0.7/32 unicast [removed", "BIRD removed a route")
		require.NotRegexp(l.T, `node > removed`, b.log(l.T))
	}
	// An end that is no upgrade withdraws.
	second.stop()
	wait(l.T, "no routes", func() bool { return l.router.count(l.T) == 0 })
}

// stopped: within a second after Run has ended the router has no route.
func stopped(l *lab) {
	l.startRouter()
	_, stop := l.start(l.peer(), hosts(20)...)
	wait(l.T, "routes", func() bool { return l.router.count(l.T) == 20 })
	start := time.Now()
	require.NoError(l.T, stop())
	wait(l.T, "no routes", func() bool { return l.router.count(l.T) == 0 })
	require.Less(l.T, time.Since(start), 2*time.Second) // 1 s is asked for; asking the router takes time
}

// unnumbered: only the link is known, and both families have the link-local
// address as next hop.
func unnumbered(l *lab) {
	for _, family := range []struct{ addr, prefix string }{{l.node4.String(), "/24"}, {l.node6.String(), "/64"}} {
		l.removeAddr(l.node, l.link, family.addr+family.prefix)
	}
	l.cfg.Link, l.cfg.Node, l.cfg.Self = "eth0", l.linkLocal(l.node, l.link), l.linkLocal(l.far, "eth0")
	l.cfg.NodeASN = "64512"
	l.startRouter()
	p := l.peer()
	p.Addr, p.Interface = netip.Addr{}, l.link
	e, _ := l.start(p, bgp.Route{Prefix: pfx("203.0.113.1/32")}, bgp.Route{Prefix: pfx("2001:db8:ffff::1/128")})
	got := bgptest.WaitSession(l.T, e, "router", "established", established)
	require.Equal(l.T, l.linkLocal(l.far, "eth0").WithZone(l.link), got.Addr)
	require.True(l.T, got.Negotiated.ExtendedNextHop)
	l.expect(map[string]bgptest.Route{
		"203.0.113.1/32":       {NextHop: l.cfg.Node, ASPath: []uint32{64512}},
		"2001:db8:ffff::1/128": {NextHop: l.cfg.Node, ASPath: []uint32{64512}},
	})
}

func passive(l *lab) {
	l.cfg.Connect, l.cfg.NodePort, l.cfg.Password = true, 1790, "secret"
	l.startRouter()
	p := l.peer()
	p.Passive, p.ListenPort, p.Source, p.Password = true, 1790, l.node4, "secret"
	_, stop := l.start(p, hosts(3)...)
	wait(l.T, "routes", func() bool { return l.router.count(l.T) == 3 })
	require.NoError(l.T, stop())
	// The port is free again.
	e, _ := l.start(p, hosts(2)...)
	bgptest.WaitSession(l.T, e, "router", "established", established)
	wait(l.T, "routes", func() bool { return l.router.count(l.T) == 2 })
}

// multihop: a router behind another hop is reached only with EBGPMultihop.
func multihop(l *lab) {
	behind := netnstest.New(l.T)
	netnstest.Veth(l.T, l.far, "eth1", behind, "eth0")
	l.far.AddAddr(l.T, "eth1", "172.31.0.1/24")
	behind.AddAddr(l.T, "eth0", "172.31.0.2/24")
	l.far.Sysctl(l.T, "net/ipv4/ip_forward", "1")
	self := netip.AddrFrom4([4]byte{172, 30, l.node4.As4()[2], 1})
	behind.AddAddr(l.T, "lo", self.String()+"/32")
	l.addRoute(l.node, self.String()+"/32", l.router4)
	l.addRoute(l.far, self.String()+"/32", netip.MustParseAddr("172.31.0.2"))
	l.addRoute(behind, l.node4.String()+"/32", netip.MustParseAddr("172.31.0.1"))
	l.cfg.Self, l.cfg.Multihop = self, true
	l.router.start(l.T, behind, l.cfg)
	p := l.peer()
	p.Families = bgp.IPv4
	e, _ := l.start(p, hosts(3)...)
	bgptest.WaitSession(l.T, e, "router", "failed", func(s bgp.Session) bool { return s.LastError != "" && s.State != bgp.Established })
	p.EBGPMultihop = true
	require.NoError(l.T, e.SetPeers([]bgp.Peer{p}))
	wait(l.T, "routes", func() bool { return l.router.count(l.T) == 3 })
}

// bound: the session leaves by the device, whatever the routes say.
func bound(l *lab) {
	l.startRouter()
	p := l.peer()
	p.VRF = "lo"
	e, _ := l.start(p, hosts(3)...)
	bgptest.WaitSession(l.T, e, "router", "failed", func(s bgp.Session) bool { return s.LastError != "" })
	p.VRF = l.link
	require.NoError(l.T, e.SetPeers([]bgp.Peer{p}))
	wait(l.T, "routes", func() bool { return l.router.count(l.T) == 3 })
}

// dynamic: both sides take what comes, as long as it is of the kind.
func dynamic(l *lab) {
	l.cfg.ASN, l.cfg.NodeASN = 4200000013, "external"
	l.startRouter()
	p := l.peer()
	p.LocalASN, p.PeerASN, p.Dynamic = 4200000012, 0, bgp.External
	l.start(p, bgp.Route{Prefix: pfx("203.0.113.1/32")})
	l.expect(map[string]bgptest.Route{"203.0.113.1/32": {NextHop: l.node4, ASPath: []uint32{4200000012}}})
}

// TestFiftyThousand: that many routes there and away, and the session stays.
func TestFiftyThousand(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 5_000
	}
	for name, start := range routers() {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, start())
			l.startRouter()
			e, _ := l.start(l.peer())
			since := bgptest.WaitSession(t, e, "router", "established", established).Since
			require.NoError(t, e.SetRoutes(hosts(n)))
			waitLong(t, "all routes", func() bool { return l.router.count(t) == n })
			require.NoError(t, e.SetRoutes(nil))
			waitLong(t, "no routes", func() bool { return l.router.count(t) == 0 })
			require.Equal(t, since, e.Sessions()[0].Since, "the session was reset")
		})
	}
}

// TestOldASN: BIRD without AS numbers of four octets gets AS_TRANS in the path, and
// the true path beside it.
func TestOldASN(t *testing.T) {
	l := newLab(t, &bird{})
	l.cfg.OldASN, l.cfg.NodeASN = true, "external"
	l.startRouter()
	p := l.peer()
	p.LocalASN = 4200000001
	e, _ := l.start(p, bgp.Route{Prefix: pfx("203.0.113.1/32")})
	l.expect(map[string]bgptest.Route{"203.0.113.1/32": {NextHop: l.node4, ASPath: []uint32{4200000001}}})
	require.False(t, e.Sessions()[0].Negotiated.FourOctetASN)
}

// TestReflector: a router that sends our routes back to us hears the withdrawal.
func TestReflector(t *testing.T) {
	l := newLab(t, &bird{})
	l.cfg.ASN, l.cfg.Reflector = 64512, true
	l.startRouter()
	e, _ := l.start(l.peer(), hosts(2)...)
	wait(t, "routes", func() bool { return l.router.count(t) == 2 })
	require.NoError(t, e.SetRoutes(hosts(1)))
	wait(t, "withdrawal", func() bool { return l.router.count(t) == 1 })
}

func (l *lab) linkLocal(ns *netnstest.NS, link string) netip.Addr {
	l.Helper()
	var found netip.Addr
	wait(l.T, "a link-local address of "+link, func() bool {
		addrs, err := ns.Netlink().AddrList(ns.Link(l.T, link), 10 /* AF_INET6 */)
		require.NoError(l.T, err)
		for _, a := range addrs {
			if ip, _ := netip.AddrFromSlice(a.IP); ip.IsLinkLocalUnicast() {
				found = ip
				return true
			}
		}
		return false
	})
	return found
}

// A process with an engine, to be ended without a word.

const childArg = "herald-gobgp-child"

type childConfig struct {
	Addr      netip.Addr
	PeerASN   uint32
	Interface string
	Routes    int
}

type childProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startChild(t *testing.T, p bgp.Peer, routes int) *childProcess {
	t.Helper()
	config, err := json.Marshal(childConfig{Addr: p.Addr, PeerASN: p.PeerASN, Routes: routes})
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe", childArg, string(config))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &childProcess{t: t, cmd: cmd, in: in}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

func (c *childProcess) end(how string) {
	c.t.Helper()
	_, err := fmt.Fprintln(c.in, how)
	require.NoError(c.t, err)
	require.NoError(c.t, c.cmd.Wait())
}

func (c *childProcess) keep() { c.t.Helper(); c.end("keep") }
func (c *childProcess) stop() { c.t.Helper(); c.end("stop") }

// child is the process: it runs until it is told how to end.
func child() int {
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Args[2]), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	e, err := New(Config{RouterID: netip.MustParseAddr("192.0.2.77")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	retry := time.Second
	err = e.SetPeers([]bgp.Peer{{
		Name: "router", LocalASN: 64512, PeerASN: cfg.PeerASN, Addr: cfg.Addr, ConnectRetry: &retry,
		Families: bgp.IPv4 | bgp.IPv6, GracefulRestart: true, RestartTime: time.Minute,
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := e.SetRoutes(hosts(cfg.Routes)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return runChild(e)
}

func runChild(e *Engine) int {
	ctx, cancel := contextWithCancel()
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	how, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(how) == "keep" {
		e.Keep()
	}
	cancel()
	if err := <-done; err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
