package gobgp

import (
	"fmt"
	"net/netip"

	"github.com/heraldlb/herald/bgp"
)

// check returns the peers that this engine can serve, and the faults of the others.
func (e *Engine) check(peers []bgp.Peer) ([]bgp.Peer, []*bgp.PeerError) {
	good, faults := bgp.ValidatePeers(peers)
	listeners := make(map[netip.AddrPort]string)
	kept := good[:0]
	for _, p := range good {
		found := e.limits(&p)
		if len(found) == 0 && p.Passive {
			where := listenAddr(&p)
			if holder, taken := listeners[where]; taken {
				found = append(found, &bgp.PeerError{
					Peer: p.Name, Field: "Passive", Value: where.String(),
					Reason: fmt.Sprintf("peer %q waits there already; give each passive peer a Source or ListenPort of its own", holder),
				})
			} else {
				listeners[where] = p.Name
			}
		}
		if faults = append(faults, found...); len(found) == 0 {
			kept = append(kept, p)
		}
	}
	return kept, faults
}

// limits finds what GoBGP v3 or this configuration cannot do for a valid peer.
func (e *Engine) limits(p *bgp.Peer) (faults []*bgp.PeerError) {
	fail := func(field, value, reason string) {
		faults = append(faults, &bgp.PeerError{Peer: p.Name, Field: field, Value: value, Reason: reason})
	}
	if hold, _ := p.EffectiveTimers(); hold == 0 {
		fail("HoldTime", "0s", "GoBGP v3 cannot do without a hold timer: use 3 seconds or more")
	}
	linkLocal := p.Addr.IsLinkLocalUnicast() && p.Addr.Is6()
	if linkLocal && p.Addr.Zone() == "" {
		fail("Addr", p.Addr.String(), "a link-local address needs its link: write "+p.Addr.String()+"%eth0, or set Interface instead")
	}
	if (p.Password != "" || p.PasswordFile != "") && (linkLocal || p.Interface != "") {
		fail("Password", "", "GoBGP v3 cannot sign for a link-local peer (it drops the zone of the address); peer with a global address, or without a password")
	}
	if p.Passive && p.Interface != "" {
		fail("Passive", "", "a peer on an interface has to be connected to, since its address is not known before")
	}
	if !p.RouterID.IsValid() && !e.cfg.RouterID.IsValid() {
		fail("RouterID", "", "is required, since the engine has no default for it")
	}
	if p.BFDProfile != "" && !e.cfg.BFD {
		fail("BFDProfile", p.BFDProfile, "this engine has no BFD: remove it, or choose an engine with BFD")
	}
	return faults
}

// listenAddr is where a passive peer is waited for.
func listenAddr(p *bgp.Peer) netip.AddrPort {
	addr := netip.IPv6Unspecified()
	switch {
	case p.Source.IsValid() && bgp.FamilyOf(p.Source) == bgp.FamilyOf(p.Addr):
		addr = p.Source
	case p.Addr.Is4():
		addr = netip.IPv4Unspecified()
	}
	return netip.AddrPortFrom(addr, p.EffectiveListenPort())
}
