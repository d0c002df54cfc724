package announce

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
)

// Offsets in an Ethernet frame that carries IPv6 without extension headers, and
// constants of RFC 8200 and RFC 4861. A solicitation never has extension headers
// (fragments are forbidden by RFC 6980), and the kernel filter passes none.
const (
	ip6Len      = 40
	icmpStart   = etherLen + ip6Len
	nsLen       = 24 // ICMPv6 header, reserved, target
	nsTarget    = icmpStart + 8
	protoICMPv6 = 58
	hopLimit    = 255
	typeNS      = 135
	optSLLA     = 1
)

// Addresses of RFC 4291 section 2.7.1, without a package variable.
func allNodes() netip.Addr { return netip.IPv6LinkLocalAllNodes() }

func solicitedNode(addr [16]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0xff, 0x02, 11: 0x01, 12: 0xff, 13: addr[13], 14: addr[14], 15: addr[15],
	})
}

// groupMAC maps an IPv6 multicast group to Ethernet (RFC 2464 section 7).
func groupMAC(group netip.Addr) mac {
	b := group.As16()
	return mac{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// answerNDP appends to dst the advertisement that answers a neighbour
// solicitation for an address that t holds and that is announced on link, whose
// MAC is own. Otherwise it says why the frame is dropped. The entry is nil unless
// there is an answer.
//
// The checks are those of RFC 4861 section 7.1.1. A solicitation without a source
// link-layer option is answered to the source of its frame.
func answerNDP(dst, frame []byte, t *table, link string, own mac) ([]byte, *entry, DropReason) {
	icmp, why := neighbourMessage(frame, own, typeNS)
	if why != 0 {
		return dst, nil, why
	}
	target := [16]byte(frame[nsTarget:])
	e := t.lookup6(target)
	if e == nil {
		return dst, nil, DropUnknown
	}
	if !e.allows(link) {
		return dst, nil, DropLink
	}
	src, to := netip.AddrFrom16([16]byte(frame[22:])), netip.AddrFrom16([16]byte(frame[38:]))
	slla, ok := linkAddr(icmp[nsLen:], optSLLA)
	if !ok || checksum(src, to, icmp) != 0 || src.IsMulticast() {
		return dst, nil, DropMalformed
	}
	if src.IsUnspecified() {
		if slla != (mac{}) || to != solicitedNode(target) {
			return dst, nil, DropMalformed
		}
		return appendAdvertisement(dst, groupMAC(allNodes()), own, e.addr, allNodes(), false), e, 0
	}
	asker := slla
	if !asker.unicast() {
		asker = mac(frame[6:12])
	}
	if asker == own {
		return dst, nil, DropEcho
	}
	if !asker.unicast() {
		return dst, nil, DropMalformed
	}
	return appendAdvertisement(dst, asker, own, e.addr, src, true), e, 0
}

// neighbourMessage returns the ICMPv6 message of a frame that looks like a
// solicitation or, as kind says, an advertisement for this host; they have one
// form. The checksum and options are not checked yet: messages about foreign
// addresses are dropped before that work.
func neighbourMessage(frame []byte, own mac, kind byte) ([]byte, DropReason) {
	if len(frame) < icmpStart+nsLen || binary.BigEndian.Uint16(frame[12:]) != typeIPv6 ||
		frame[14]>>4 != 6 || frame[20] != protoICMPv6 {
		return nil, DropMalformed
	}
	if to := mac(frame[0:6]); to != own && !to.group() {
		return nil, DropDestination
	}
	if mac(frame[6:12]) == own {
		return nil, DropEcho
	}
	if frame[icmpStart] != kind {
		return nil, DropNotRequest
	}
	if frame[21] != hopLimit {
		return nil, DropHopLimit
	}
	size := int(binary.BigEndian.Uint16(frame[18:]))
	if size < nsLen || size > len(frame)-icmpStart || frame[icmpStart+1] != 0 || frame[nsTarget] == 0xff {
		return nil, DropMalformed
	}
	return frame[icmpStart : icmpStart+size], 0
}

// linkAddr walks the options and returns the link-layer address in those of the
// given type, or the zero mac without one. It is not ok if an option is truncated or has
// length zero. The contents of all others are ignored, as the RFC demands, and
// therefore not handed to a parser that might reject them.
func linkAddr(options []byte, option byte) (found mac, ok bool) {
	for len(options) > 0 {
		if len(options) < 8 || options[1] == 0 || len(options) < int(options[1])*8 {
			return mac{}, false
		}
		if options[0] == option && options[1] == 1 {
			found = mac(options[2:8])
		}
		options = options[int(options[1])*8:]
	}
	return found, true
}

// appendUnsolicited appends the unsolicited advertisement of addr (RFC 4861
// section 7.2.6): to all nodes, S=0, O=1.
func appendUnsolicited(dst []byte, own mac, addr netip.Addr) []byte {
	return appendAdvertisement(dst, groupMAC(allNodes()), own, addr, allNodes(), false)
}

func appendAdvertisement(dst []byte, to, own mac, target, dstIP netip.Addr, solicited bool) []byte {
	// Fails only for addresses that are not IPv6, which no caller has.
	body, _ := ndp.MarshalMessageChecksum(&ndp.NeighborAdvertisement{
		Solicited:     solicited,
		Override:      true,
		TargetAddress: target,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: net.HardwareAddr(own[:])}},
	}, target, dstIP)
	return appendIPv6(appendEther(dst, to, own, typeIPv6), target, dstIP, body)
}

// appendIPv6 appends an ICMPv6 message in its IPv6 header, with the hop limit of
// neighbour discovery.
func appendIPv6(dst []byte, src, to netip.Addr, body []byte) []byte {
	dst = append(dst, 6<<4, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(body)))
	dst = append(dst, protoICMPv6, hopLimit)
	src16, dst16 := src.As16(), to.As16()
	dst = append(dst, src16[:]...)
	dst = append(dst, dst16[:]...)
	return append(dst, body...)
}

// checksum returns the complement of the ICMPv6 sum over the pseudo header and
// the message (RFC 4443 section 2.3): zero if the message carries the right one.
func checksum(src, dst netip.Addr, icmp []byte) uint16 {
	s, d := src.As16(), dst.As16()
	sum := uint32(len(icmp)) + protoICMPv6
	for _, b := range [][]byte{s[:], d[:], icmp} {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(b[0])<<8 | uint32(b[1])
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
