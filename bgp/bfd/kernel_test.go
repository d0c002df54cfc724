//go:build linux

package bfd_test

import (
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/heraldlb/herald/bgp/bfd"
	"github.com/heraldlb/herald/internal/netnstest"
)

// These tests send real packets, in network namespaces.

const patience = 20 * time.Second

func eventually(t testing.TB, ok func() bool, format string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf(format, args...)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// startIn runs a monitor in a namespace until the test ends.
func startIn(t testing.TB, ns *netnstest.NS, peers ...bfd.Peer) *bfd.Monitor {
	t.Helper()
	m, err := bfd.New(bfd.Config{})
	require.NoError(t, err)
	require.NoError(t, m.SetPeers(peers))
	done := make(chan error, 1)
	go func() { done <- ns.Do(func() error { return m.Run(t.Context()) }) }()
	t.Cleanup(func() { require.NoError(t, <-done) }) // the context ends before the clean-up
	return m
}

// all waits until every session is in a state.
func all(t testing.TB, m *bfd.Monitor, state bfd.State) {
	t.Helper()
	eventually(t, func() bool {
		return !slices.ContainsFunc(m.Sessions(), func(s bfd.Status) bool { return s.State != state })
	}, "not all %v: %v", state, sessions{m})
}

// sessions formats late.
type sessions struct{ m *bfd.Monitor }

func (s sessions) String() string {
	text := ""
	for _, st := range s.m.Sessions() {
		text += "\n" + st.Peer.String() + " " + st.State.String() + ", " + st.Diag.String() +
			", remote " + st.RemoteState.String() + ", " + st.RemoteDiag.String()
		if st.Err != nil {
			text += ", " + st.Err.Error()
		}
	}
	return text
}

// lan is two hosts on a bridge whose cables can be pulled without that either
// host loses its carrier.
type lan struct {
	bridge, a, b *netnstest.NS
}

// newLAN gives a and b the addresses .1 and .2, ::1 and ::2, fe80::1 and fe80::2,
// and a second pair with .11 and .12 for sessions over several hops.
func newLAN(t testing.TB) *lan {
	t.Helper()
	l := &lan{netnstest.New(t), netnstest.New(t), netnstest.New(t)}
	netnstest.Veth(t, l.bridge, "a", l.a, "eth0")
	netnstest.Veth(t, l.bridge, "b", l.b, "eth0")
	l.bridge.AddBridge(t, "br0", "a", "b")
	for _, cidr := range []string{"192.0.2.1/24", "192.0.2.11/24", "2001:db8::1/64", "2001:db8::11/64", "fe80::1/64"} {
		l.a.AddAddr(t, "eth0", cidr)
	}
	for _, cidr := range []string{"192.0.2.2/24", "192.0.2.12/24", "2001:db8::2/64", "2001:db8::12/64", "fe80::2/64"} {
		l.b.AddAddr(t, "eth0", cidr)
	}
	return l
}

func (l *lan) cut(t testing.TB) {
	t.Helper()
	require.NoError(t, l.bridge.Netlink().LinkSetNoMaster(l.bridge.Link(t, "b")))
}

func (l *lan) join(t testing.TB) {
	t.Helper()
	require.NoError(t, l.bridge.Netlink().LinkSetMaster(l.bridge.Link(t, "b"), l.bridge.Link(t, "br0")))
}

// kinds are the sessions that host a of a LAN can have with host b; the other way
// round for b.
func kinds(a bool) []bfd.Peer {
	self, other := "1", "2"
	if !a {
		self, other = other, self
	}
	peers := []bfd.Peer{
		{Addr: addr("192.0.2." + other)},
		{Addr: addr("192.0.2.1" + other), Local: addr("192.0.2.1" + self), Multihop: true},
		{Addr: addr("2001:db8::" + other), Local: addr("2001:db8::" + self), Interface: "eth0"},
		{Addr: addr("2001:db8::1" + other), Local: addr("2001:db8::1" + self), Multihop: true},
		{Addr: addr("fe80::" + other), Local: addr("fe80::" + self), Interface: "eth0"},
	}
	for i := range peers {
		peers[i].Transmit, peers[i].Receive = 50*ms, 50*ms
	}
	return peers
}

func TestKernelPair(t *testing.T) {
	l := newLAN(t)
	a, b := startIn(t, l.a, kinds(true)...), startIn(t, l.b, kinds(false)...)
	all(t, a, bfd.Up)
	all(t, b, bfd.Up)
	for range 2 {
		l.cut(t)
		all(t, a, bfd.Down)
		for _, s := range a.Sessions() {
			require.True(t, s.Failed, s.Peer)
		}
		l.join(t)
		all(t, a, bfd.Up)
		all(t, b, bfd.Up)
	}
	stats := a.Stats()
	stats.UnknownSession = 0 // the first packet of b may be there before a has its sessions
	require.Zero(t, stats)
	require.NoError(t, a.SetPeers(nil))
	eventually(t, func() bool {
		return !slices.ContainsFunc(b.Sessions(), func(s bfd.Status) bool { return s.RemoteState != bfd.AdminDown || s.Failed })
	}, "not told: %v", sessions{b})
}

// forge sends a packet with a TTL of choice.
func forge(t *testing.T, ns *netnstest.NS, from, to string, ttl int, data []byte) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: addr(from).AsSlice()}, &net.UDPAddr{IP: addr(to).AsSlice(), Port: bfd.PortSingleHop})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		if cerr := raw.Control(func(fd uintptr) {
			if addr(to).Is4() {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl)
			} else {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl)
			}
		}); cerr != nil || err != nil {
			return os.NewSyscallError("set TTL", err)
		}
		_, err = c.Write(data)
		return err
	}))
}

// RFC 5881 section 5: a packet from beyond the link does not reach a session.
func TestKernelTTL(t *testing.T) {
	for from, to := range map[string]string{"192.0.2.2": "192.0.2.1", "2001:db8::2": "2001:db8::1"} {
		t.Run(to, func(t *testing.T) {
			l := newLAN(t)
			m := startIn(t, l.a, bfd.Peer{Addr: addr(from), Passive: true})
			data := firstPacket(t, from, bfd.PortSingleHop).Data
			// Until the port is open nothing is counted.
			eventually(t, func() bool { forge(t, l.b, from, to, 254, data); return m.Stats().TTL > 0 }, "no packet arrived")
			for _, ttl := range []int{1, 64, 253} {
				before := m.Stats().TTL
				forge(t, l.b, from, to, ttl, data)
				eventually(t, func() bool { return m.Stats().TTL > before }, "TTL %d is not counted", ttl)
			}
			require.Equal(t, []any{bfd.Down, uint64(0)}, []any{only(t, m).State, only(t, m).Received})
			forge(t, l.b, from, to, 255, data)
			eventually(t, func() bool { return only(t, m).State == bfd.Init }, "TTL 255 is not taken: %v", sessions{m})
		})
	}
}

// Two routers on the way: the default lets one pass.
func TestKernelMultihop(t *testing.T) {
	a, r1, r2, b := netnstest.New(t), netnstest.New(t), netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, a, "eth0", r1, "left")
	netnstest.Veth(t, r1, "right", r2, "left")
	netnstest.Veth(t, r2, "right", b, "eth0")
	for _, r := range []*netnstest.NS{r1, r2} {
		r.Sysctl(t, "net/ipv4/ip_forward", "1")
	}
	a.AddAddr(t, "eth0", "10.1.0.1/24")
	r1.AddAddr(t, "left", "10.1.0.2/24")
	r1.AddAddr(t, "right", "10.2.0.1/24")
	r2.AddAddr(t, "left", "10.2.0.2/24")
	r2.AddAddr(t, "right", "10.3.0.1/24")
	b.AddAddr(t, "eth0", "10.3.0.2/24")
	route(t, a, "0.0.0.0/0", "10.1.0.2")
	route(t, r1, "10.3.0.0/24", "10.2.0.2")
	route(t, r2, "10.1.0.0/24", "10.2.0.1")
	route(t, b, "0.0.0.0/0", "10.3.0.1")

	peer := bfd.Peer{Addr: addr("10.3.0.2"), Multihop: true, Transmit: 50 * ms, Receive: 50 * ms}
	back := bfd.Peer{Addr: addr("10.1.0.1"), Multihop: true, MinTTL: 253, Transmit: 50 * ms, Receive: 50 * ms}
	m, far := startIn(t, a, peer), startIn(t, b, back)
	eventually(t, func() bool { return m.Stats().TTL > 3 }, "packets with TTL 253 are not discarded")
	require.Zero(t, only(t, m).Received)
	peer.MinTTL = 253
	require.NoError(t, m.SetPeers([]bfd.Peer{peer}))
	all(t, m, bfd.Up)
	all(t, far, bfd.Up)
}

// Interfaces come late, go, and come back with another index.
func TestKernelInterfaceComesAndGoes(t *testing.T) {
	a, b := netnstest.New(t), netnstest.New(t)
	pa := bfd.Peer{Addr: addr("fe80::2%eth0"), Transmit: 50 * ms, Receive: 50 * ms}
	pb := bfd.Peer{Addr: addr("fe80::1%eth0"), Transmit: 50 * ms, Receive: 50 * ms}
	m, far := startIn(t, a, pa), startIn(t, b, pb)
	eventually(t, func() bool { return only(t, m).Err != nil }, "a missing interface is not reported")
	require.ErrorContains(t, only(t, m).Err, `interface "eth0"`)
	for range 2 {
		netnstest.Veth(t, a, "eth0", b, "eth0")
		a.AddAddr(t, "eth0", "fe80::1/64")
		b.AddAddr(t, "eth0", "fe80::2/64")
		all(t, m, bfd.Up)
		all(t, far, bfd.Up)
		require.NoError(t, only(t, m).Err)
		require.NoError(t, a.Netlink().LinkDel(a.Link(t, "eth0")))
		all(t, m, bfd.Down)
		eventually(t, func() bool { return only(t, m).Err != nil }, "no error")
		netnstest.Veth(t, a, "other", b, "other") // takes the index
		require.NoError(t, a.Netlink().LinkDel(a.Link(t, "other")))
	}
}

// Another daemon has the port: the peer must not hear two voices from one address.
func TestKernelPortTaken(t *testing.T) {
	l := newLAN(t)
	first := startIn(t, l.a, kinds(true)[0])
	far := startIn(t, l.b, kinds(false)[0])
	all(t, first, bfd.Up)
	second := startIn(t, l.a, kinds(true)[0])
	eventually(t, func() bool { return only(t, second).Err != nil }, "no error")
	require.ErrorIs(t, only(t, second).Err, unix.EADDRINUSE)
	require.ErrorContains(t, only(t, second).Err, "port 3784 is taken by another BFD daemon")
	require.Zero(t, only(t, second).Sent)
	require.NoError(t, first.SetPeers(nil))
	all(t, second, bfd.Up)
	all(t, far, bfd.Up)
}

// Every session has a source port of its own in the range of RFC 5881 section 4,
// and keeps it.
func TestKernelSourcePorts(t *testing.T) {
	l := newLAN(t)
	var c *net.UDPConn
	require.NoError(t, l.b.Do(func() (err error) {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{Port: bfd.PortSingleHop})
		return err
	}))
	defer func() { _ = c.Close() }()
	startIn(t, l.a, bfd.Peer{Addr: addr("192.0.2.2")}, bfd.Peer{Addr: addr("192.0.2.12")})
	ports := map[uint32]map[int]bool{} // by discriminator
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	for range 6 {
		buf := make([]byte, 100)
		n, from, err := c.ReadFromUDP(buf)
		require.NoError(t, err)
		p, _, err := bfd.ParsePacket(buf[:n])
		require.NoError(t, err)
		require.GreaterOrEqual(t, from.Port, 49152)
		if ports[p.MyDiscriminator] == nil {
			ports[p.MyDiscriminator] = map[int]bool{}
		}
		ports[p.MyDiscriminator][from.Port] = true
	}
	seen := map[int]bool{}
	for _, of := range ports {
		require.Len(t, of, 1)
		for p := range of {
			seen[p] = true
		}
	}
	require.Len(t, ports, 2)
	require.Len(t, seen, 2)
}

func route(t *testing.T, ns *netnstest.NS, to, via string) {
	t.Helper()
	_, dst, err := net.ParseCIDR(to)
	require.NoError(t, err)
	require.NoError(t, ns.Netlink().RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(via)}))
}
