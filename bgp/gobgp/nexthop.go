package gobgp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/heraldlb/herald/bgp"
)

// nextHops are what routes without a next hop of their own get. An unspecified
// address stands for that of this side of the session, which GoBGP puts in. An
// invalid one means that there is none, and why says what is missing.
type nextHops struct {
	v4, v6     netip.Addr
	why4, why6 string
	extended   bool // IPv4 routes may have an IPv6 next hop (RFC 8950)
}

// findNextHops works them out for a session of p with addr. Before the session
// is there n is zero.
func findNextHops(p *bgp.Peer, addr netip.Addr, n bgp.Negotiated) nextHops {
	v6 := bgp.FamilyOf(addr) == bgp.IPv6
	h := nextHops{extended: n.ExtendedNextHop}
	if !v6 {
		h.v4 = netip.IPv4Unspecified()
		if p.EffectiveFamilies().Has(bgp.IPv6) {
			h.v6, h.why6 = otherFamily(p, addr, bgp.IPv6)
		}
		return h
	}
	h.v6 = netip.IPv6Unspecified()
	if addr.IsLinkLocalUnicast() { // GoBGP trips over the zone of the address that it would put in
		h.v6, h.why6 = linkLocal(p, addr)
	}
	if p.EffectiveFamilies().Has(bgp.IPv4) {
		h.v4, h.why4 = otherFamily(p, addr, bgp.IPv4)
		if !h.v4.IsValid() && h.extended {
			h.v4, h.why4 = h.v6, h.why6
		}
	}
	return h
}

// of returns the next hop of a route, or why it has none.
func (h *nextHops) of(r *bgp.Route) (netip.Addr, string) {
	v4 := r.Prefix.Addr().Is4()
	switch {
	case r.NextHop.IsValid() && v4 && r.NextHop.Is6() && !h.extended:
		return netip.Addr{}, "an IPv6 next hop of an IPv4 route needs RFC 8950, which the peer does not offer"
	case r.NextHop.IsValid():
		return r.NextHop, ""
	case v4:
		return h.v4, h.why4
	default:
		return h.v6, h.why6
	}
}

// otherFamily finds the address of this node that a session with addr gives to
// routes of the family that is not its own: Source if it is of that family, else
// the lowest global address of the link that the session leaves by.
func otherFamily(p *bgp.Peer, addr netip.Addr, family bgp.Families) (netip.Addr, string) {
	if p.Source.IsValid() && bgp.FamilyOf(p.Source) == family {
		return p.Source, ""
	}
	hop, err := lowest(p, addr, func(ip netip.Addr) bool { return bgp.FamilyOf(ip) == family && ip.IsGlobalUnicast() })
	if err != nil {
		return hop, fmt.Sprintf("no next hop for %s: %v; give the link a global address of that family, or set Source", family, err)
	}
	return hop, ""
}

// linkLocal finds the address that this side of a link-local session has.
func linkLocal(p *bgp.Peer, addr netip.Addr) (netip.Addr, string) {
	if p.Source.Is6() {
		return p.Source.WithZone(""), ""
	}
	hop, err := lowest(p, addr, func(ip netip.Addr) bool { return ip.Is6() && ip.IsLinkLocalUnicast() })
	if err != nil {
		return hop, fmt.Sprintf("no next hop for ipv6: %v", err)
	}
	return hop, ""
}

// lowest returns the lowest address that will do of the link of a session.
func lowest(p *bgp.Peer, addr netip.Addr, will func(netip.Addr) bool) (netip.Addr, error) {
	link, err := linkOf(p, addr)
	if err != nil {
		return netip.Addr{}, err
	}
	addrs, err := link.Addrs()
	if err != nil {
		return netip.Addr{}, err
	}
	var usable []netip.Addr
	for _, a := range addrs {
		if network, ok := a.(*net.IPNet); ok {
			if ip, _ := netip.AddrFromSlice(network.IP); will(ip.Unmap()) {
				usable = append(usable, ip.Unmap())
			}
		}
	}
	if len(usable) == 0 {
		return netip.Addr{}, fmt.Errorf("link %s has no address for it", link.Name)
	}
	return slices.MinFunc(usable, netip.Addr.Compare), nil
}

// linkOf returns the link by which the kernel reaches the peer.
func linkOf(p *bgp.Peer, addr netip.Addr) (*net.Interface, error) {
	if p.Interface != "" {
		return net.InterfaceByName(p.Interface)
	}
	if addr.Zone() != "" {
		return net.InterfaceByName(addr.Zone())
	}
	local := p.Source
	if !local.IsValid() || bgp.FamilyOf(local) != bgp.FamilyOf(addr) {
		// Connecting a UDP socket sends nothing, and has the kernel choose.
		d := net.Dialer{Control: bindTo(p.VRF)}
		conn, err := d.Dial("udp", netip.AddrPortFrom(addr, p.EffectivePort()).String())
		if err != nil {
			return nil, err
		}
		local = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		conn.Close()
	}
	return linkWith(local)
}

func linkWith(addr netip.Addr) (*net.Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range links {
		addrs, err := links[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if network, ok := a.(*net.IPNet); ok {
				if ip, _ := netip.AddrFromSlice(network.IP); ip.Unmap() == addr.WithZone("") {
					return &links[i], nil
				}
			}
		}
	}
	// 127.0.0.0/8 is on lo as a whole.
	if addr.IsLoopback() {
		return net.InterfaceByName("lo")
	}
	return nil, fmt.Errorf("no link has the address %s", addr)
}
