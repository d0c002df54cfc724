package announce

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/mdlayher/arp"
)

// mac is an Ethernet address.
type mac [6]byte

func (m mac) group() bool   { return m[0]&1 != 0 }
func (m mac) unicast() bool { return !m.group() && m != mac{} }

func broadcast() mac { return mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

// Sizes and types of Ethernet II; frames are padded to the minimum without FCS.
const (
	etherLen  = 14
	etherMin  = 60
	typeARP   = 0x0806
	typeIPv6  = 0x86dd
	arpLen    = 28 // for Ethernet and IPv4
	arpOpAsk  = 1
	arpTarget = etherLen + 24
)

func appendEther(b []byte, dst, src mac, etherType uint16) []byte {
	b = append(b, dst[:]...)
	b = append(b, src[:]...)
	return binary.BigEndian.AppendUint16(b, etherType)
}

// answerARP appends to dst the reply to an ARP request for an address that t
// holds and that is announced on link, whose MAC is own. Otherwise it says why
// the frame is dropped. The entry is nil unless there is a reply.
//
// As RFC 826 has it, the reply goes to the request's sender hardware address,
// not to the frame's source. Sender 0.0.0.0 is a probe (RFC 5227) and answered, and
// so is a request in which another host claims the address: it learns of us.
func answerARP(dst, frame []byte, t *table, link string, own mac) ([]byte, *entry, DropReason) {
	if len(frame) < etherLen+arpLen || binary.BigEndian.Uint16(frame[12:]) != typeARP {
		return dst, nil, DropMalformed
	}
	if to := mac(frame[0:6]); to != own && to != broadcast() {
		return dst, nil, DropDestination
	}
	if mac(frame[6:12]) == own {
		return dst, nil, DropEcho
	}
	var (
		htype = binary.BigEndian.Uint16(frame[14:])
		ptype = binary.BigEndian.Uint16(frame[16:])
		sizes = binary.BigEndian.Uint16(frame[18:])
		op    = binary.BigEndian.Uint16(frame[20:])
	)
	// The sizes matter: the codec takes 16-byte protocol addresses for IPv6.
	if htype != 1 || ptype != 0x0800 || sizes != 0x0604 {
		return dst, nil, DropMalformed
	}
	if op != arpOpAsk {
		return dst, nil, DropNotRequest
	}
	e := t.lookup4([4]byte(frame[arpTarget:]))
	if e == nil {
		return dst, nil, DropUnknown
	}
	if !e.allows(link) {
		return dst, nil, DropLink
	}
	var ask arp.Packet
	if err := ask.UnmarshalBinary(frame[etherLen : etherLen+arpLen]); err != nil {
		return dst, nil, DropMalformed
	}
	asker := mac(ask.SenderHardwareAddr)
	if asker == own {
		return dst, nil, DropEcho
	}
	if !asker.unicast() {
		return dst, nil, DropMalformed
	}
	return appendARP(dst, asker, own, arp.OperationReply, e.addr, asker, ask.SenderIP), e, 0
}

// appendGratuitousARP appends one gratuitous ARP frame in the form that op says:
// broadcast, sender and target address both addr, target hardware address
// broadcast (what MetalLB sends; receivers ignore the field).
func appendGratuitousARP(dst []byte, own mac, addr netip.Addr, op arp.Operation) []byte {
	return appendARP(dst, broadcast(), own, op, addr, broadcast(), addr)
}

func appendARP(dst []byte, to, own mac, op arp.Operation, sender netip.Addr, targetMAC mac, target netip.Addr) []byte {
	p := arp.Packet{
		HardwareType:       1,
		ProtocolType:       0x0800,
		HardwareAddrLength: 6,
		IPLength:           4,
		Operation:          op,
		SenderHardwareAddr: net.HardwareAddr(own[:]),
		SenderIP:           sender,
		TargetHardwareAddr: net.HardwareAddr(targetMAC[:]),
		TargetIP:           target,
	}
	body, _ := p.MarshalBinary() // documented never to fail
	start := len(dst)
	dst = appendEther(dst, to, own, typeARP)
	dst = append(dst, body...)
	return append(dst, make([]byte, etherMin-(len(dst)-start))...)
}
