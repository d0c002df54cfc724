package announce

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// A ClaimKind says in which form another host has claimed an address.
type ClaimKind uint8

// The kinds, the stronger the later.
const (
	// ClaimProbe is an ARP probe (RFC 5227 section 2.1.1) or a solicitation of
	// duplicate address detection (RFC 4862 section 5.4): a host asks whether it may
	// take the address. It is answered, and a host that obeys the RFC gives up.
	ClaimProbe ClaimKind = iota + 1

	// ClaimRequest is a question for another address, asked from the address.
	ClaimRequest

	// ClaimReply is an ARP reply or a solicited advertisement, sent to this host.
	ClaimReply

	// ClaimAnnouncement is a gratuitous ARP request or reply or an unsolicited
	// advertisement: what a host sends that has begun to use the address.
	ClaimAnnouncement
)

// String returns a word for the log.
func (k ClaimKind) String() string {
	switch k {
	case ClaimProbe:
		return "probe"
	case ClaimRequest:
		return "request"
	case ClaimReply:
		return "reply"
	case ClaimAnnouncement:
		return "announcement"
	default:
		return fmt.Sprintf("ClaimKind(%d)", uint8(k))
	}
}

// More constants of RFC 826 and RFC 4861.
const (
	arpOpReply = 2
	arpSHA     = etherLen + 8
	arpSender  = etherLen + 14
	typeNA     = 136
	optTLLA    = 2
	flagSolic  = 0x40
)

// probeMark is in the padding of our ARP probes, behind the 28 octets that RFC
// 826 defines. By it another announcer can tell a question of ours from the probe of
// a host that wants the address. Whoever forges it is only spared a report.
const probeMark = "herald"

// peekARP returns the address that a frame claims, and how; kind 0 means none. It
// checks as little as it can: almost no frame claims an address that matters, and
// claimantARP checks those.
func peekARP(frame []byte) (addr netip.Addr, kind ClaimKind) {
	if len(frame) < etherLen+arpLen {
		return addr, 0
	}
	sender, target := [4]byte(frame[arpSender:]), [4]byte(frame[arpTarget:])
	switch op := binary.BigEndian.Uint16(frame[20:]); {
	case op != arpOpAsk && op != arpOpReply:
		return addr, 0
	case sender == [4]byte{}:
		marked := len(frame) >= etherLen+arpLen+len(probeMark) &&
			string(frame[etherLen+arpLen:etherLen+arpLen+len(probeMark)]) == probeMark
		if op != arpOpAsk || marked {
			return addr, 0
		}
		return netip.AddrFrom4(target), ClaimProbe
	case sender == target:
		kind = ClaimAnnouncement
	case op == arpOpAsk:
		kind = ClaimRequest
	default:
		kind = ClaimReply
	}
	return netip.AddrFrom4(sender), kind
}

// claimantARP checks a frame in which peekARP has found something, and returns who
// sent it: the sender hardware address, which is what neighbours believe.
func claimantARP(frame []byte, own mac) (mac, bool) {
	by := mac(frame[arpSHA:])
	to, from := mac(frame[0:6]), mac(frame[6:12])
	return by, binary.BigEndian.Uint16(frame[12:]) == typeARP &&
		binary.BigEndian.Uint32(frame[14:]) == 1<<16|0x0800 && binary.BigEndian.Uint16(frame[18:]) == 0x0604 &&
		(to == own || to == broadcast()) && from != own && by != own && by.unicast()
}

// peekNDP is peekARP for solicitations and advertisements.
func peekNDP(frame []byte) (addr netip.Addr, kind ClaimKind) {
	if len(frame) < icmpStart+nsLen {
		return addr, 0
	}
	source, target := netip.AddrFrom16([16]byte(frame[22:])), netip.AddrFrom16([16]byte(frame[nsTarget:]))
	switch {
	case frame[icmpStart] == typeNA && frame[icmpStart+4]&flagSolic != 0:
		return target, ClaimReply
	case frame[icmpStart] == typeNA:
		return target, ClaimAnnouncement
	case frame[icmpStart] != typeNS:
		return addr, 0
	case source.IsUnspecified():
		return target, ClaimProbe
	default:
		return source, ClaimRequest
	}
}

// claimantNDP is claimantARP with the checks of RFC 4861 sections 7.1.1 and
// 7.1.2. The claimant is in the link-layer option or, without one, the sender of
// the frame.
func claimantNDP(frame []byte, own mac) (by mac, ok bool) {
	option := byte(optTLLA)
	if frame[icmpStart] == typeNS {
		option = optSLLA
	}
	icmp, why := neighbourMessage(frame, own, frame[icmpStart])
	if why != 0 {
		return by, false
	}
	by, ok = linkAddr(icmp[nsLen:], option)
	src, to := netip.AddrFrom16([16]byte(frame[22:])), netip.AddrFrom16([16]byte(frame[38:]))
	if !ok || checksum(src, to, icmp) != 0 || src.IsMulticast() {
		return by, false
	}
	switch {
	case option == optTLLA:
		if src.IsUnspecified() || to.IsMulticast() && icmp[4]&flagSolic != 0 {
			return by, false
		}
	case src.IsUnspecified():
		if by != (mac{}) || to != solicitedNode([16]byte(frame[nsTarget:])) {
			return by, false
		}
	}
	if by == (mac{}) {
		by = mac(frame[6:12])
	}
	return by, by != own && by.unicast()
}
