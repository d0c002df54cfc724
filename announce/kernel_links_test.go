//go:build linux

package announce_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/internal/netnstest"
)

func TestCarrierLossAndReturn(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{Repeat: 1})
	require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
	sent := func(n uint64) func() bool {
		return func() bool {
			s := a.Stats().Addresses
			return s[0].Gratuitous == 2*n && s[1].Gratuitous == n && inGroup(t, node, "eth0", vip6)
		}
	}
	waitLinks(t, a, "eth0")
	eventually(t, sent(1), "not announced: %+v", a.Stats())
	<-a.LinksChanged()
	for i := range uint64(3) {
		client.SetUp(t, "eth0", false) // metallb#2026: the node's link has no carrier now
		waitLinks(t, a)
		require.Empty(t, a.Stats().Links)
		client.SetUp(t, "eth0", true)
		waitLinks(t, a, "eth0")
		eventually(t, sent(2+i), "not announced again: %+v", a.Stats())
	}
	<-a.LinksChanged()
	// Down and up faster than anybody looks: neighbours may have forgotten all the same.
	node.SetUp(t, "eth0", false)
	node.SetUp(t, "eth0", true)
	eventually(t, func() bool { return a.Stats().Addresses[0].Gratuitous > 8 }, "not announced after a bounce")
}

// metallb#316: of a bridge and its port, the bridge answers, once, with its MAC.
func TestBridgePortIsSilent(t *testing.T) {
	client, node := pair(t)
	node.AddBridge(t, "br0", "eth0")
	require.NoError(t, node.Netlink().LinkSetHardwareAddr(node.Link(t, "br0"), net.HardwareAddr{2, 0, 0, 0, 0xbb, 1}))
	a := startIn(t, node, announce.Config{Repeat: 1})
	require.NoError(t, a.SetAddrs(ads(vip4, vip6, "192.0.2.99")))
	waitLinks(t, a, "br0")
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, client, addr)
		resolves(t, client, "eth0", addr, node.MAC(t, "br0"))
	}
	w := wireTo(t, client, 0x0806)
	w.send(t, request("192.0.2.1", vip4))
	require.Len(t, w.repliesFor(t, vip4), 1)
	// Set free, the port answers by itself.
	require.NoError(t, node.Netlink().LinkSetNoMaster(node.Link(t, "eth0")))
	node.SetUp(t, "br0", false)
	waitLinks(t, a, "eth0")
	resolves(t, client, "eth0", addr4(), node.MAC(t, "eth0"))
}

func TestMACChange(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{})
	require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
	waitLinks(t, a, "eth0")
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, client, addr)
		resolves(t, client, "eth0", addr, node.MAC(t, "eth0"))
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0xcc, 1}
	require.NoError(t, node.Netlink().LinkSetHardwareAddr(node.Link(t, "eth0"), mac))
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		resolves(t, client, "eth0", addr, mac)
	}
	require.Equal(t, mac, a.Links()[0].HardwareAddr)
}

func TestRename(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{Repeat: 1})
	require.NoError(t, a.SetAddrs(ads(vip4+"@lan0", vip6+"@lan0")))
	waitLinks(t, a, "eth0")
	poke(t, client, addr4())
	eventually(t, func() bool { return a.Stats().Drops[announce.DropLink] > 0 }, "request was not seen")
	node.SetUp(t, "eth0", false)
	require.NoError(t, node.Netlink().LinkSetName(node.Link(t, "eth0"), "lan0"))
	node.SetUp(t, "lan0", true)
	waitLinks(t, a, "lan0")
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, client, addr)
		resolves(t, client, "eth0", addr, node.MAC(t, "lan0"))
	}
}

// metallb#465: an answer only on the links that are named, with their MAC.
func TestKernelRestrictedLinks(t *testing.T) {
	node, left, right := netnstest.New(t), netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, node, "eth0", left, "eth0")
	netnstest.Veth(t, node, "eth1", right, "eth0")
	for _, ns := range []*netnstest.NS{left, right} {
		ns.AddAddr(t, "eth0", "192.0.2.1/24")
		ns.AddAddr(t, "eth0", "2001:db8::1/64")
	}
	a := startIn(t, node, announce.Config{})
	require.NoError(t, a.SetAddrs(ads(vip4+"@eth1", vip6+"@eth1")))
	waitLinks(t, a, "eth0", "eth1")
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, right, addr)
		resolves(t, right, "eth0", addr, node.MAC(t, "eth1"))
		before := a.Stats().Drops[announce.DropLink]
		poke(t, left, addr)
		eventually(t, func() bool { return a.Stats().Drops[announce.DropLink] > before }, "question on eth0 was not seen")
		e, _ := left.Neighbour(t, "eth0", addr)
		require.Empty(t, e.HardwareAddr)
	}
	require.False(t, inGroup(t, node, "eth0", vip6))
	require.True(t, inGroup(t, node, "eth1", vip6))
	// Without a list: on both, each with its own MAC.
	require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, left, addr)
		resolves(t, left, "eth0", addr, node.MAC(t, "eth0"))
	}
}

// metallb#184 on a real kernel: the group outlives the first of two addresses.
func TestKernelSharedGroup(t *testing.T) {
	client, node := pair(t)
	client.AddAddr(t, "eth0", "2001:db8:2::1/64")
	a := startIn(t, node, announce.Config{Repeat: 1})
	second := netip.MustParseAddr("2001:db8:2::50")
	require.NoError(t, a.SetAddrs(ads(vip6, second.String())))
	eventually(t, func() bool { return inGroup(t, node, "eth0", vip6) }, "not joined")
	require.NoError(t, a.SetAddrs(ads(second.String())))
	poke(t, client, second)
	resolves(t, client, "eth0", second, node.MAC(t, "eth0"))
	require.True(t, inGroup(t, node, "eth0", vip6))
	require.NoError(t, a.SetAddrs(nil))
	eventually(t, func() bool { return !inGroup(t, node, "eth0", vip6) }, "not left")
}

// More groups than one socket can join (net.core.optmem_max).
func TestThousandsOfGroups(t *testing.T) {
	_, node := pair(t)
	a := startIn(t, node, announce.Config{Repeat: 1})
	const n = 6000
	require.NoError(t, a.SetAddrs(many(n, true)))
	waitLinks(t, a, "eth0")
	eventually(t, func() bool { return a.Stats().Links[0].Groups == n }, "groups: %+v", a.Stats().Links)
	require.Zero(t, a.Stats().Errors)
	require.NoError(t, a.SetAddrs(nil))
	eventually(t, func() bool { return a.Stats().Links[0].Groups == 0 }, "groups: %+v", a.Stats().Links)
	require.Zero(t, a.Stats().Errors)
}

// metallb#246: 500 links come and go; no goroutine or descriptor is left.
func TestLinksComeAndGo(t *testing.T) {
	node := netnstest.New(t)
	a := startIn(t, node, announce.Config{})
	require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
	const batch, rounds = 50, 10
	cycle := func() {
		// The ends here go with the namespace of the other ends, in one go.
		t.Run("batch", func(t *testing.T) {
			peers := netnstest.New(t)
			for i := range batch {
				name := fmt.Sprintf("eth%d", i)
				netnstest.Veth(t, node, name, peers, name)
			}
			eventually(t, func() bool { return len(a.Links()) == batch }, "links: %v", a.Links())
		})
		waitLinks(t, a)
	}
	cycle()
	goroutines, fds := runtime.NumGoroutine(), openFiles(t)
	for range rounds {
		cycle()
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines && openFiles(t) <= fds },
		"had %d goroutines and %d descriptors, have %d and %d", goroutines, fds, runtime.NumGoroutine(), openFiles(t))
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// inGroup reads the kernel's memberships: has the solicited-node group of addr
// been joined, so that MLD tells switches?
func inGroup(t *testing.T, ns *netnstest.NS, link, addr string) bool {
	t.Helper()
	b := netip.MustParseAddr(addr).As16()
	group := fmt.Sprintf("ff0200000000000000000001ff%x", b[13:])
	var found bool
	require.NoError(t, ns.Do(func() error {
		groups, err := os.ReadFile("/proc/thread-self/net/igmp6")
		for line := range strings.Lines(string(groups)) {
			f := strings.Fields(line)
			found = found || f[1] == link && f[2] == group
		}
		return err
	}))
	return found
}
