//go:build linux

package announce_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/internal/netnstest"
)

// These tests have a real kernel as client: what counts is what its neighbour
// cache says.

const patience = 10 * time.Second

func eventually(t *testing.T, ok func() bool, format string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf(format, args...)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// startIn runs an announcer in a namespace until the test ends.
func startIn(t *testing.T, ns *netnstest.NS, cfg announce.Config) *announce.Announcer {
	t.Helper()
	a, err := announce.New(cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- ns.Do(func() error { return a.Run(t.Context()) }) }()
	t.Cleanup(func() { require.NoError(t, <-done) }) // the context ends before the clean-up
	return a
}

func waitLinks(t *testing.T, a *announce.Announcer, names ...string) {
	t.Helper()
	var got []string
	eventually(t, func() bool {
		got = nil
		for _, l := range a.Links() {
			got = append(got, l.Name)
		}
		return slices.Equal(got, names)
	}, "links: want %v", names)
}

// pair is a client and a node on one wire. Only the client has addresses.
func pair(t *testing.T) (client, node *netnstest.NS) {
	t.Helper()
	client, node = netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, client, "eth0", node, "eth0")
	client.AddAddr(t, "eth0", "192.0.2.1/24")
	client.AddAddr(t, "eth0", "2001:db8::1/64")
	return client, node
}

// poke makes the kernel of a namespace look for the neighbour.
func poke(t *testing.T, ns *netnstest.NS, addr netip.Addr) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("x"))
		return errors.Join(err, c.Close())
	}))
}

// resolves waits until the client's cache holds mac for addr.
func resolves(t *testing.T, client *netnstest.NS, link string, addr netip.Addr, mac net.HardwareAddr) {
	t.Helper()
	var entry netlink.Neigh
	eventually(t, func() bool {
		entry, _ = client.Neighbour(t, link, addr)
		return entry.State&(netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY) != 0 &&
			slices.Equal(entry.HardwareAddr, mac)
	}, "%v is not at %v (last entry: %v)", addr, mac, &entry)
}

func addr4() netip.Addr { return netip.MustParseAddr(vip4) }
func addr6() netip.Addr { return netip.MustParseAddr(vip6) }

// metallb#226, cilium#41641, metallb#2685: a link needs no address to answer.
func TestKernelResolves(t *testing.T) {
	for name, prepare := range map[string]func(node *netnstest.NS){
		"link without any address": func(node *netnstest.NS) { node.Sysctl(t, "net/ipv6/conf/eth0/disable_ipv6", "1") },
		"link-local only":          func(*netnstest.NS) {},
		"IPv4 only": func(node *netnstest.NS) {
			node.Sysctl(t, "net/ipv6/conf/eth0/disable_ipv6", "1")
			node.AddAddr(t, "eth0", "192.0.2.2/24")
		},
		"both": func(node *netnstest.NS) {
			node.AddAddr(t, "eth0", "192.0.2.2/24")
			node.AddAddr(t, "eth0", "2001:db8::2/64")
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, node := pair(t)
			prepare(node)
			settled(t, node, name != "link without any address" && name != "IPv4 only")
			before := fingerprint(t, node)
			a := startIn(t, node, announce.Config{})
			require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
			waitLinks(t, a, "eth0")
			for _, addr := range []netip.Addr{addr4(), addr6()} {
				poke(t, client, addr)
				resolves(t, client, "eth0", addr, node.MAC(t, "eth0"))
			}
			eventually(t, func() bool {
				s := a.Stats().Addresses
				return s[0].Requests > 0 && s[0].Replies == s[0].Requests && s[1].Requests > 0 && s[1].Replies == s[1].Requests
			}, "counters: %+v", a.Stats())
			require.Equal(t, before, fingerprint(t, node), "addresses, routes and links are left alone")
		})
	}
}

// settled waits until the kernel has finished with a link that came up.
func settled(t *testing.T, ns *netnstest.NS, linkLocal bool) {
	t.Helper()
	eventually(t, func() bool {
		link := ns.Link(t, "eth0")
		addrs, err := ns.Netlink().AddrList(link, netlink.FAMILY_V6)
		require.NoError(t, err)
		local := slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.IP.IsLinkLocalUnicast() })
		routes, err := ns.Netlink().RouteListFiltered(netlink.FAMILY_V6,
			&netlink.Route{LinkIndex: link.Attrs().Index, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL},
			netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
		require.NoError(t, err)
		return link.Attrs().RawFlags&unix.IFF_RUNNING != 0 && local == linkLocal && len(routes) == len(addrs)
	}, "link does not settle")
}

// fingerprint is everything of a namespace that an announcer must not touch.
func fingerprint(t *testing.T, ns *netnstest.NS) []string {
	t.Helper()
	var out []string
	addrs, err := ns.Netlink().AddrList(nil, netlink.FAMILY_ALL)
	require.NoError(t, err)
	for _, a := range addrs {
		out = append(out, fmt.Sprint("addr ", a.LinkIndex, a.IPNet))
	}
	routes, err := ns.Netlink().RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	require.NoError(t, err)
	for _, r := range routes {
		out = append(out, "route "+r.String())
	}
	links, err := ns.Netlink().LinkList()
	require.NoError(t, err)
	for _, l := range links {
		out = append(out, fmt.Sprint("link ", l.Attrs().Name, l.Attrs().RawFlags, l.Attrs().Promisc))
	}
	slices.Sort(out)
	return out
}

// metallb#2920: neighbour unreachability detection asks by unicast, and gives up
// without falling back to multicast.
func TestUnreachabilityDetection(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{Repeat: 1})
	require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
	waitLinks(t, a, "eth0")
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, client, addr)
		resolves(t, client, "eth0", addr, node.MAC(t, "eth0"))
		asked := requests(a, addr)
		require.NoError(t, client.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: client.Link(t, "eth0").Attrs().Index, IP: addr.AsSlice(),
			HardwareAddr: node.MAC(t, "eth0"), State: netlink.NUD_PROBE,
		}))
		eventually(t, func() bool {
			e, _ := client.Neighbour(t, "eth0", addr)
			return e.State == netlink.NUD_REACHABLE && requests(a, addr) > asked
		}, "%v: unicast probe was not answered", addr)
	}
}

func requests(a *announce.Announcer, addr netip.Addr) uint64 {
	for _, s := range a.Stats().Addresses {
		if s.Addr == addr {
			return s.Requests
		}
	}
	return 0
}

// A host that gives itself an announced address learns that it is taken.
func TestDuplicateAddressDetection(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{})
	require.NoError(t, a.SetAddrs(ads(vip6)))
	waitLinks(t, a, "eth0")
	client.Sysctl(t, "net/ipv6/conf/eth0/accept_dad", "1")
	link := client.Link(t, "eth0")
	for _, tc := range []struct {
		addr string
		want int
	}{{vip6, unix.IFA_F_DADFAILED}, {"2001:db8::77", 0}} {
		addr, err := netlink.ParseAddr(tc.addr + "/64")
		require.NoError(t, err)
		require.NoError(t, client.Netlink().AddrAdd(link, addr))
		eventually(t, func() bool {
			addrs, err := client.Netlink().AddrList(link, netlink.FAMILY_V6)
			require.NoError(t, err)
			for _, a := range addrs {
				if a.IP.Equal(addr.IP) {
					return a.Flags&unix.IFA_F_DADFAILED == tc.want && (tc.want != 0 || a.Flags&unix.IFA_F_TENTATIVE == 0)
				}
			}
			return false
		}, "%s: duplicate address detection did not end with flags %x", tc.addr, tc.want)
	}
}

// metallb#291: after a move the client's cache points to the new holder without
// a question of its own, and the loser stays silent.
func TestTakeOver(t *testing.T) {
	lan, client, one, two := netnstest.New(t), netnstest.New(t), netnstest.New(t), netnstest.New(t)
	for port, ns := range map[string]*netnstest.NS{"p0": client, "p1": one, "p2": two} {
		netnstest.Veth(t, lan, port, ns, "eth0")
	}
	lan.AddBridge(t, "br0", "p0", "p1", "p2")
	client.AddAddr(t, "eth0", "192.0.2.1/24")
	client.AddAddr(t, "eth0", "2001:db8::1/64")
	a, b := startIn(t, one, announce.Config{}), startIn(t, two, announce.Config{})
	waitLinks(t, a, "eth0")
	waitLinks(t, b, "eth0")
	holder, other := a, b
	macs := map[*announce.Announcer]net.HardwareAddr{a: one.MAC(t, "eth0"), b: two.MAC(t, "eth0")}
	require.NoError(t, holder.SetAddrs(ads(vip4, vip6)))
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		poke(t, client, addr)
		resolves(t, client, "eth0", addr, macs[a])
	}
	for range 2 {
		before := holder.Stats().Drops[announce.DropUnknown]
		require.NoError(t, holder.SetAddrs(nil))
		require.NoError(t, other.SetAddrs(ads(vip4, vip6)))
		holder, other = other, holder
		for _, addr := range []netip.Addr{addr4(), addr6()} {
			resolves(t, client, "eth0", addr, macs[holder])
		}
		require.Zero(t, requests(holder, addr4()), "the client did not have to ask")
		// A frame that is read late must not count as a question after the next move.
		eventually(t, func() bool { return other.Stats().Drops[announce.DropUnknown] > before }, "the loser does not hear the new holder")
		require.Empty(t, other.Stats().Addresses)
	}
}

// A wire is a packet socket on the client's end.
type wire struct{ *packet.Conn }

func wireTo(t *testing.T, ns *netnstest.NS, etherType int) wire {
	t.Helper()
	var c *packet.Conn
	require.NoError(t, ns.Do(func() error {
		ifi, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		c, err = packet.Listen(ifi, packet.Raw, etherType, nil)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return wire{c}
}

func (w wire) send(t *testing.T, frame []byte) {
	t.Helper()
	_, err := w.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]})
	require.NoError(t, err)
}

// repliesFor sends a request for a well-known held address last and returns the
// replies for addr that came before its answer, which needs no fixed wait.
func (w wire) repliesFor(t *testing.T, addr string) [][]byte {
	t.Helper()
	w.send(t, request("192.0.2.1", "192.0.2.99"))
	want, last := netip.MustParseAddr(addr).As4(), netip.MustParseAddr("192.0.2.99").As4()
	var replies [][]byte
	require.NoError(t, w.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 2048)
	for {
		n, _, err := w.ReadFrom(buf)
		require.NoError(t, err)
		if n < 42 || buf[21] != 2 || buf[0] == 0xff {
			continue
		}
		switch [4]byte(buf[28:]) {
		case want:
			replies = append(replies, slices.Clone(buf[:n]))
		case last:
			return replies
		}
	}
}

// What arrives on the wire in ways no client's kernel would send it.
func TestRawFrames(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{Repeat: 1})
	require.NoError(t, a.SetAddrs(ads(vip4, "192.0.2.99")))
	waitLinks(t, a, "eth0")
	w := wireTo(t, client, 0x0806)
	ask := request("192.0.2.1", vip4)
	tagged := slices.Concat(ask[:12], []byte{0x81, 0, 0, 10}, ask[12:])
	own := node.MAC(t, "eth0")
	for _, tc := range []struct {
		name  string
		frame []byte
		want  int
	}{
		{"request", ask, 1},
		{"request to our MAC", slices.Concat(own, ask[6:]), 1},
		{"probe", request("0.0.0.0", vip4), 1},
		{"to another MAC", slices.Concat([]byte{2, 1, 1, 1, 1, 1}, ask[6:]), 0},
		{"tagged for a VLAN that has no link (cilium#37959)", tagged, 0},
		{"truncated", ask[:30], 0},
		{"claims long addresses", slices.Concat(ask[:19], []byte{16}, ask[20:]), 0},
		{"from ourselves", slices.Concat(ask[:6], own, ask[12:]), 0},
	} {
		w.send(t, tc.frame)
		require.Len(t, w.repliesFor(t, vip4), tc.want, tc.name)
	}
	require.Zero(t, a.Stats().Errors)
}

// Without NET_RAW there is one clear error.
func TestMissingCapability(t *testing.T) {
	ns := netnstest.New(t)
	a, err := announce.New(announce.Config{})
	require.NoError(t, err)
	err = ns.Do(func() error { // the thread that loses the capability is thrown away
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&hdr, &data[0]); err != nil {
			return err
		}
		data[0].Effective &^= 1 << unix.CAP_NET_RAW
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			return err
		}
		return a.Run(t.Context())
	})
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "CAP_NET_RAW")
}

// The first gratuitous frames leave at once, in both forms.
func TestAnnouncedWithinMilliseconds(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, announce.Config{})
	waitLinks(t, a, "eth0")
	w := wireTo(t, client, 0x0806)
	require.NoError(t, w.SetReadDeadline(time.Now().Add(patience)))
	start := time.Now()
	require.NoError(t, a.SetAddrs(ads(vip4)))
	buf := make([]byte, 2048)
	for _, op := range []byte{1, 2} {
		n, _, err := w.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, 60, n)
		require.Equal(t, op, buf[21])
		require.Equal(t, buf[28:32], buf[38:42])
	}
	require.Less(t, time.Since(start), 500*time.Millisecond, "generous: a loaded machine")
	t.Log("both forms heard after", time.Since(start))
}
