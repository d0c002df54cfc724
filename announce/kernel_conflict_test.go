//go:build linux

package announce_test

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/internal/netnstest"
)

// quick makes a conflict certain soon enough for a test that takes real time.
func quick() announce.Config {
	return announce.Config{Repeat: 1, ClaimGrace: 200 * time.Millisecond}
}

// conflicting waits until an address is in conflict with a host, and returns how.
func conflicting(t *testing.T, a *announce.Announcer, addr string, mac net.HardwareAddr) announce.Conflict {
	t.Helper()
	var found announce.Conflict
	eventually(t, func() bool {
		for _, c := range a.Conflicts() {
			if c.Addr.String() == addr && slices.Equal(c.MAC, mac) {
				found = c
				return true
			}
		}
		return false
	}, "no conflict about %s", addr)
	require.Equal(t, "eth0", found.Link)
	return found
}

// speakFrom makes the kernel of a namespace look for a neighbour from an address
// that it has.
func speakFrom(t *testing.T, ns *netnstest.NS, from, to string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
		c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(to), 9)))
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("x"))
		return errors.Join(err, c.Close())
	}))
}

// settle lets the grace of what was announced pass.
func settle(t *testing.T, a *announce.Announcer) {
	t.Helper()
	start := time.Now()
	eventually(t, func() bool { return time.Since(start) > 250*time.Millisecond && len(a.Links()) > 0 }, "time does not pass")
}

// Another host gives itself our addresses, and its kernel uses them.
func TestKernelHostTakesAddress(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, quick())
	require.NoError(t, a.SetAddrs(ads(vip4, vip6, "2001:db8::51")))
	waitLinks(t, a, "eth0")
	settle(t, a)
	mac := client.MAC(t, "eth0")

	// Duplicate address detection: it asks, is told, and gives up.
	client.Sysctl(t, "net/ipv6/conf/eth0/accept_dad", "1")
	tentative, err := netlink.ParseAddr("2001:db8::51/64")
	require.NoError(t, err)
	require.NoError(t, client.Netlink().AddrAdd(client.Link(t, "eth0"), tentative))
	require.Equal(t, announce.ClaimProbe, conflicting(t, a, "2001:db8::51", mac).Kind)

	// Without detection, as ever in IPv4.
	client.AddAddr(t, "eth0", vip4+"/24")
	nodad, err := netlink.ParseAddr(vip6 + "/64")
	require.NoError(t, err)
	nodad.Flags = unix.IFA_F_NODAD
	require.NoError(t, client.Netlink().AddrAdd(client.Link(t, "eth0"), nodad))
	speakFrom(t, client, vip4, "192.0.2.7")
	require.Equal(t, announce.ClaimRequest, conflicting(t, a, vip4, mac).Kind)
	speakFrom(t, client, vip6, "2001:db8::7")
	require.Equal(t, announce.ClaimRequest, conflicting(t, a, vip6, mac).Kind)

	// The kernel answers for it to whoever asks, which this is the way to hear.
	for _, addr := range []netip.Addr{addr4(), addr6()} {
		answers, err := a.Probe(t.Context(), addr)
		require.NoError(t, err)
		require.Equal(t, []announce.Answer{{Link: "eth0", MAC: mac}}, answers)
	}
	require.Equal(t, announce.ClaimReply, conflicting(t, a, vip4, mac).Kind)
	require.Zero(t, a.Stats().Errors)
}

// Another host announces our addresses, with frames of its own making. What is
// none of our business does not even wake the reader.
func TestKernelForeignAnnouncement(t *testing.T) {
	client, node := pair(t)
	a := startIn(t, node, quick())
	require.NoError(t, a.SetAddrs(ads(vip4, vip6, "192.0.2.99", "2001:db8::99")))
	waitLinks(t, a, "eth0")
	settle(t, a)
	arp, ndp := wireTo(t, client, 0x0806), wireTo(t, client, 0x86dd)
	for range 100 {
		arp.send(t, arpFrame(2, squatter(), "192.0.2.200", "192.0.2.200"))
		arp.send(t, arpFrame(2, squatter(), "198.51.100.1", vip4))
		ndp.send(t, unsolicited(t, squatter(), "2001:db8::1:50"))
	}
	require.Empty(t, arp.repliesFor(t, vip4), "which also waits until all was heard")
	require.Empty(t, a.Stats().Drops)
	arp.send(t, arpFrame(2, squatter(), vip4, vip4))
	require.Equal(t, announce.ClaimAnnouncement, conflicting(t, a, vip4, squatter()).Kind)
	ndp.send(t, unsolicited(t, squatter(), vip6))
	require.Equal(t, announce.ClaimAnnouncement, conflicting(t, a, vip6, squatter()).Kind)
	require.Len(t, a.Conflicts(), 2)

	// An address that is new is let through at once, and one that is gone no longer.
	require.NoError(t, a.SetAddrs(ads("198.51.100.1", "192.0.2.99")))
	eventually(t, func() bool { return len(a.Conflicts()) == 0 }, "conflicts outlive the addresses")
	settle(t, a)
	before := a.Stats().Drops[announce.DropNotRequest]
	arp.send(t, arpFrame(2, squatter(), vip4, vip4))
	arp.send(t, arpFrame(2, squatter(), "198.51.100.1", vip4))
	conflicting(t, a, "198.51.100.1", squatter())
	require.Equal(t, before+1, a.Stats().Drops[announce.DropNotRequest], "only the second")
}

// The kernel answers a probe, also for what we do not hold, without learning from it.
func TestKernelProbe(t *testing.T) {
	lan, client, one, two := netnstest.New(t), netnstest.New(t), netnstest.New(t), netnstest.New(t)
	for port, ns := range map[string]*netnstest.NS{"p0": client, "p1": one, "p2": two} {
		netnstest.Veth(t, lan, port, ns, "eth0")
	}
	lan.AddBridge(t, "br0", "p0", "p1", "p2")
	client.AddAddr(t, "eth0", "192.0.2.1/24")
	client.AddAddr(t, "eth0", "2001:db8::1/64")
	holder, asker := startIn(t, one, quick()), startIn(t, two, quick())
	require.NoError(t, holder.SetAddrs(ads(vip4, vip6)))
	waitLinks(t, holder, "eth0")
	waitLinks(t, asker, "eth0")
	settle(t, holder)
	for addr, want := range map[string]net.HardwareAddr{
		"192.0.2.1": client.MAC(t, "eth0"), "2001:db8::1": client.MAC(t, "eth0"),
		vip4: one.MAC(t, "eth0"), vip6: one.MAC(t, "eth0"),
		"192.0.2.77": nil, "2001:db8::77": nil,
	} {
		var answers []announce.Answer
		eventually(t, func() bool { // the bridge has to learn, and the wire to come up
			var err error
			answers, err = asker.Probe(t.Context(), netip.MustParseAddr(addr), "eth0")
			require.NoError(t, err)
			return want == nil || len(answers) > 0
		}, "%s does not answer", addr)
		if want == nil {
			require.Empty(t, answers, addr)
		} else {
			require.Equal(t, []announce.Answer{{Link: "eth0", MAC: want}}, answers, addr)
		}
	}
	_, known := client.Neighbour(t, "eth0", netip.IPv4Unspecified())
	require.False(t, known)
	settle(t, holder)
	require.Empty(t, holder.Conflicts(), "a question is no claim")
	require.Zero(t, asker.Stats().Errors)

	// A link that is down cannot be asked: its silence means nothing.
	two.SetUp(t, "eth0", false)
	waitLinks(t, asker)
	_, err := asker.Probe(t.Context(), addr4(), "eth0")
	require.ErrorIs(t, err, announce.ErrLink)
}

// With defend, a cache that a claim has poisoned is right again.
func TestKernelDefend(t *testing.T) {
	lan, client, node, thief := netnstest.New(t), netnstest.New(t), netnstest.New(t), netnstest.New(t)
	for port, ns := range map[string]*netnstest.NS{"p0": client, "p1": node, "p2": thief} {
		netnstest.Veth(t, lan, port, ns, "eth0")
	}
	lan.AddBridge(t, "br0", "p0", "p1", "p2")
	client.AddAddr(t, "eth0", "192.0.2.1/24")
	client.Sysctl(t, "net/ipv4/neigh/eth0/locktime", "0")
	cfg := quick()
	cfg.ConflictPolicy = announce.Defend
	a := startIn(t, node, cfg)
	require.NoError(t, a.SetAddrs(ads(vip4)))
	waitLinks(t, a, "eth0")
	poke(t, client, addr4())
	resolves(t, client, "eth0", addr4(), node.MAC(t, "eth0"))
	settle(t, a)
	w := wireTo(t, thief, 0x0806)
	w.send(t, arpFrame(2, squatter(), vip4, vip4))
	resolves(t, client, "eth0", addr4(), squatter())
	resolves(t, client, "eth0", addr4(), node.MAC(t, "eth0"))
	conflicting(t, a, vip4, squatter())
}
