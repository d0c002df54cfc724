package gobgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// searchTime is how long the other end of a link may take to answer.
const searchTime = 1500 * time.Millisecond

// findNeighbour returns the link-local address of the only router at the other
// end of a link, or of the only host if no router answers.
//
// It asks for routers (RFC 4861 section 4.1), pings all nodes, and sends one
// router advertisement that makes this node nobody's default router (lifetime 0):
// FRR accepts an unnumbered session only from an address that it has learned so.
func findNeighbour(ctx context.Context, name string) (netip.Addr, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("interface %s: %w", name, err)
	}
	c, err := icmp.ListenPacket("ip6:ipv6-icmp", "::")
	if errors.Is(err, os.ErrPermission) {
		return netip.Addr{}, fmt.Errorf("interface %s: finding the peer needs the capability CAP_NET_RAW: %w", name, err)
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("interface %s: %w", name, err)
	}
	defer func() { _ = c.Close() }() // what it was for is done
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })()
	conn := c.IPv6PacketConn()
	if err := errors.Join(conn.SetControlMessage(ipv6.FlagInterface|ipv6.FlagHopLimit, true), conn.SetMulticastLoopback(false),
		c.SetReadDeadline(time.Now().Add(searchTime)), ask(conn, link)); err != nil {
		return netip.Addr{}, fmt.Errorf("interface %s: %w", name, err)
	}
	routers, hosts := answers(ctx, conn, link)
	if len(routers) > 0 {
		hosts = routers
	}
	if len(hosts) != 1 {
		return netip.Addr{}, fmt.Errorf("interface %s: %d neighbours answered %v, and one is needed", name, len(hosts), hosts)
	}
	return hosts[0], nil
}

// ask sends what makes the other end answer.
func ask(conn *ipv6.PacketConn, link *net.Interface) error {
	source := append([]byte{1, 1}, link.HardwareAddr...) // source link-layer address option
	if len(link.HardwareAddr) != 6 {
		source = nil
	}
	echo, err := (&icmp.Message{Type: ipv6.ICMPTypeEchoRequest, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: 1}}).Marshal(nil)
	if err != nil {
		return err
	}
	// Hop limit 64, lifetime 0, no timers; the kernel fills in checksums.
	advertisement := append([]byte{134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, source...)
	solicitation := append([]byte{133, 0, 0, 0, 0, 0, 0, 0}, source...)
	for _, m := range []struct {
		to   net.IP
		data []byte
	}{{net.IPv6linklocalallrouters, solicitation}, {net.IPv6linklocalallnodes, advertisement}, {net.IPv6linklocalallnodes, echo}} {
		cm := &ipv6.ControlMessage{HopLimit: 255, IfIndex: link.Index}
		if _, err := conn.WriteTo(m.data, cm, &net.IPAddr{IP: m.to, Zone: link.Name}); err != nil {
			return err
		}
	}
	return nil
}

// answers collects who answers until the deadline of conn, or until a router does.
func answers(ctx context.Context, conn *ipv6.PacketConn, link *net.Interface) (routers, hosts []netip.Addr) {
	buf := make([]byte, 1500)
	for ctx.Err() == nil {
		n, cm, from, err := conn.ReadFrom(buf)
		if err != nil {
			return routers, hosts
		}
		src, ok := from.(*net.IPAddr)
		if !ok || n == 0 || cm == nil || cm.IfIndex != link.Index {
			continue
		}
		ip, _ := netip.AddrFromSlice(src.IP)
		if !ip.IsLinkLocalUnicast() {
			continue
		}
		ip = ip.WithZone(link.Name)
		switch typ := ipv6.ICMPType(buf[0]); {
		case typ == ipv6.ICMPTypeRouterAdvertisement && cm.HopLimit == 255 && !slices.Contains(routers, ip):
			routers = append(routers, ip)
		case typ == ipv6.ICMPTypeEchoReply && !slices.Contains(hosts, ip):
			hosts = append(hosts, ip)
		}
	}
	return routers, hosts
}
