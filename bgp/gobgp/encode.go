package gobgp

import (
	"context"
	"encoding/binary"
	"net/netip"

	api "github.com/osrg/gobgp/v3/api"
	packet "github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/heraldlb/herald/bgp"
)

// attributes are the path attributes of a route as one peer gets them. Routes
// with the same ones share them, so that comparing pointers is enough.
type attributes struct {
	family *api.Family
	wire   [][]byte
}

// encoder makes attributes for one session.
type encoder struct {
	asn      uint32
	internal bool
	cache    map[string]*attributes
}

// maxCached bounds the cache: when attributes keep changing it starts anew.
const maxCached = 4096

func newEncoder(p *bgp.Peer) *encoder {
	return &encoder{asn: p.ASN(), internal: p.IsInternal(), cache: make(map[string]*attributes)}
}

// encode returns the attributes of a route with the given next hop.
func (c *encoder) encode(r *bgp.Route, nextHop netip.Addr) *attributes {
	key := c.key(r, nextHop)
	if a := c.cache[string(key)]; a != nil {
		return a
	}
	if len(c.cache) >= maxCached {
		clear(c.cache)
	}
	a := c.make(r, nextHop)
	c.cache[string(key)] = a
	return a
}

// key holds everything that make looks at.
func (c *encoder) key(r *bgp.Route, nextHop netip.Addr) []byte {
	key := make([]byte, 0, 64)
	key = append(key, byte(bgp.FamilyOf(r.Prefix.Addr())), byte(nextHop.BitLen()), r.Prepend)
	key = append(key, nextHop.AsSlice()...)
	for _, v := range []*uint32{r.LocalPref, r.MED} {
		if v == nil {
			key = append(key, 0)
		} else {
			key = binary.BigEndian.AppendUint32(append(key, 1), *v)
		}
	}
	key = binary.BigEndian.AppendUint16(key, uint16(len(r.Communities)))
	for _, v := range r.Communities {
		key = binary.BigEndian.AppendUint32(key, uint32(v))
	}
	for _, v := range r.LargeCommunities {
		key = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(key, v.Global), v.Local1), v.Local2)
	}
	return key
}

func (c *encoder) make(r *bgp.Route, nextHop netip.Addr) *attributes {
	list := []packet.PathAttributeInterface{packet.NewPathAttributeOrigin(packet.BGP_ORIGIN_ATTR_TYPE_IGP)}
	a := &attributes{family: ipv4Unicast()}
	if r.Prefix.Addr().Is6() {
		a.family = ipv6Unicast()
	}
	switch {
	case nextHop.Is4():
		list = append(list, packet.NewPathAttributeNextHop(nextHop.String()))
	case r.Prefix.Addr().Is6():
		// GoBGP takes the next hop out of it and puts the prefix of the path in.
		list = append(list, packet.NewPathAttributeMpReachNLRI(nextHop.String(), []packet.AddrPrefixInterface{packet.NewIPv6AddrPrefix(0, "::")}))
	default:
		list = append(list, packet.NewPathAttributeMpReachNLRI(nextHop.String(), []packet.AddrPrefixInterface{packet.NewIPAddrPrefix(0, "0.0.0.0")}))
	}
	if r.Prepend > 0 && !c.internal {
		path := make([]uint32, r.Prepend) // and GoBGP puts one more in front
		for i := range path {
			path[i] = c.asn
		}
		list = append(list, packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{
			packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, path),
		}))
	}
	if r.MED != nil {
		list = append(list, packet.NewPathAttributeMultiExitDisc(*r.MED))
	}
	if r.LocalPref != nil && c.internal {
		list = append(list, packet.NewPathAttributeLocalPref(*r.LocalPref))
	}
	if len(r.Communities) > 0 {
		values := make([]uint32, len(r.Communities))
		for i, v := range r.Communities {
			values[i] = uint32(v)
		}
		list = append(list, packet.NewPathAttributeCommunities(values))
	}
	if len(r.LargeCommunities) > 0 {
		values := make([]*packet.LargeCommunity, len(r.LargeCommunities))
		for i, v := range r.LargeCommunities {
			values[i] = packet.NewLargeCommunity(v.Global, v.Local1, v.Local2)
		}
		list = append(list, packet.NewPathAttributeLargeCommunities(values))
	}
	for _, attr := range list {
		wire, _ := attr.Serialize() // fails for none of these
		a.wire = append(a.wire, wire)
	}
	return a
}

// operation is one call for one prefix.
type operation struct {
	prefix netip.Prefix
	attrs  *attributes // to announce with, or that were announced
	remove bool
}

// apply does operations, in one bounded call, since a goroutine for each costs
// more than the call.
func (in *instance) apply(ctx context.Context, ops []operation) error {
	if len(ops) == 0 {
		return nil
	}
	return bounded(ctx, "change routes", func(ctx context.Context) error {
		for _, op := range ops {
			if err := ctx.Err(); err != nil {
				return err
			}
			path := &api.Path{Family: op.attrs.family, NlriBinary: nlri(op.prefix), PattrsBinary: op.attrs.wire}
			var err error
			if op.remove {
				err = in.server.DeletePath(ctx, &api.DeletePathRequest{Path: path})
			} else {
				_, err = in.server.AddPath(ctx, &api.AddPathRequest{Path: path})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// nlri is the prefix as RFC 4271 section 4.3 writes it.
func nlri(p netip.Prefix) []byte {
	octets := (p.Bits() + 7) / 8
	return append([]byte{byte(p.Bits())}, p.Addr().AsSlice()[:octets]...)
}
