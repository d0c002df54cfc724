package gobgp

import (
	"net/netip"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/apiutil"
	packet "github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/heraldlb/herald/bgp"
)

// negotiated returns what the two sides of an established session agreed on.
func negotiated(want *bgp.Peer, p *api.Peer) bgp.Negotiated {
	n := bgp.Negotiated{
		PeerASN:   p.GetState().GetPeerAsn(),
		Hold:      time.Duration(p.GetTimers().GetState().GetNegotiatedHoldTime()) * time.Second,
		Keepalive: time.Duration(p.GetTimers().GetState().GetKeepaliveInterval()) * time.Second,
	}
	n.LocalAddr, _ = netip.ParseAddr(p.GetTransport().GetLocalAddress())
	n.PeerRouterID, _ = netip.ParseAddr(p.GetState().GetRouterId())
	capabilities, err := apiutil.UnmarshalCapabilities(p.GetState().GetRemoteCap())
	if err != nil {
		capabilities = nil // GoBGP made them from what it has parsed
	}
	multiprotocol := false
	for _, c := range capabilities {
		switch c := c.(type) {
		case *packet.CapMultiProtocol:
			multiprotocol = true
			n.Families |= familyOf(c.CapValue)
		case *packet.CapFourOctetASNumber:
			n.FourOctetASN = true
		case *packet.CapExtendedNexthop:
			for _, t := range c.Tuples {
				n.ExtendedNextHop = n.ExtendedNextHop || t.NLRIAFI == packet.AFI_IP && t.NexthopAFI == packet.AFI_IP6
			}
		case *packet.CapGracefulRestart:
			n.GracefulRestart = want.GracefulRestart
			n.PeerRestartTime = time.Duration(c.Time) * time.Second
			n.NotificationRestart = c.Flags&0x04 != 0
		}
	}
	if !multiprotocol { // RFC 4760 section 8: IPv4 unicast alone
		n.Families = bgp.IPv4
	}
	n.Families &= want.EffectiveFamilies()
	return n
}

func familyOf(f packet.RouteFamily) bgp.Families {
	switch f {
	case packet.RF_IPv4_UC:
		return bgp.IPv4
	case packet.RF_IPv6_UC:
		return bgp.IPv6
	default:
		return 0
	}
}

// messages returns the counters of the neighbour, which begin when it is made.
func messages(p *api.Peer) (sent, received bgp.Messages) {
	return convert(p.GetState().GetMessages().GetSent()), convert(p.GetState().GetMessages().GetReceived())
}

func convert(m *api.Message) bgp.Messages {
	return bgp.Messages{
		Open: m.GetOpen(), Update: m.GetUpdate(), Notification: m.GetNotification(),
		Keepalive: m.GetKeepalive(), RouteRefresh: m.GetRefresh(), Total: m.GetTotal(),
	}
}
