package announce

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ndp"
	"github.com/stretchr/testify/require"
)

// The cast of the byte vectors.
func ownMAC() mac   { return mac{0x02, 0, 0, 0, 0, 0x01} }
func askerMAC() mac { return mac{0x02, 0, 0, 0, 0, 0x0a} }
func thirdMAC() mac { return mac{0x02, 0, 0, 0, 0, 0x0b} }

// bytes makes an edit of it.
func (m mac) bytes() []byte { return m[:] }

const (
	vip4 = "192.0.2.50"
	vip6 = "2001:db8::50"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		panic(err)
	}
	return b
}

func tableOf(t testing.TB, ads ...Advertisement) *table {
	t.Helper()
	tab, err := newTable(ads, &table{})
	require.NoError(t, err)
	return tab
}

func ad(addr string, links ...string) Advertisement {
	return Advertisement{Addr: netip.MustParseAddr(addr), Owner: "test", Links: links}
}

// edit returns a copy of frame with bytes replaced at an offset.
func edit(frame []byte, off int, b ...byte) []byte {
	out := bytes.Clone(frame)
	copy(out[off:], b)
	return out
}

// An ARP request for vip4 from 192.0.2.10 (RFC 826), without padding.
func arpRequest() []byte {
	return unhex(`ffffffffffff 02000000000a 0806
		0001 0800 06 04 0001
		02000000000a c000020a
		000000000000 c0000232`)
}

func TestAnswerARPGolden(t *testing.T) {
	tab := tableOf(t, ad(vip4))
	got, e, why := answerARP(nil, arpRequest(), tab, "eth0", ownMAC())
	require.Zero(t, why)
	require.Equal(t, netip.MustParseAddr(vip4), e.addr)
	require.Equal(t, hex.EncodeToString(unhex(`02000000000a 020000000001 0806
		0001 0800 06 04 0002
		020000000001 c0000232
		02000000000a c000020a
		000000000000000000000000000000000000`)), hex.EncodeToString(got))

	// RFC 5227 probe: the sender address is all zero, and stays so in the answer.
	got, _, why = answerARP(nil, edit(arpRequest(), 28, 0, 0, 0, 0), tab, "eth0", ownMAC())
	require.Zero(t, why)
	require.Equal(t, "00000000", hex.EncodeToString(got[38:42]))
}

func TestAnswerARPDecisions(t *testing.T) {
	ask := arpRequest()
	for _, tc := range []struct {
		name  string
		frame []byte
		want  DropReason
	}{
		{"broadcast", ask, 0},
		{"to own MAC", edit(ask, 0, ownMAC().bytes()...), 0},
		{"padded by the NIC", append(bytes.Clone(ask), make([]byte, 18)...), 0},
		{"probe", edit(ask, 28, 0, 0, 0, 0), 0},
		{"announcement by another host", edit(ask, 28, 192, 0, 2, 50), 0},
		{"frame source differs from sender", edit(ask, 6, thirdMAC().bytes()...), 0},
		{"to another MAC", edit(ask, 0, thirdMAC().bytes()...), DropDestination},
		{"to a multicast MAC", edit(ask, 0, 1, 0, 0x5e, 0, 0, 1), DropDestination},
		{"own echo", edit(ask, 6, ownMAC().bytes()...), DropEcho},
		{"own echo by sender", edit(ask, 22, ownMAC().bytes()...), DropEcho},
		{"reply", edit(ask, 20, 0, 2), DropNotRequest},
		{"reverse ARP operation", edit(ask, 20, 0, 3), DropNotRequest},
		{"not our address", edit(ask, 38, 192, 0, 2, 51), DropUnknown},
		{"other hardware type", edit(ask, 14, 0, 32), DropMalformed},
		{"other protocol type", edit(ask, 16, 0x86, 0xdd), DropMalformed},
		{"16-byte addresses", edit(ask, 19, 16), DropMalformed},
		{"short", ask[:41], DropMalformed},
		{"empty", nil, DropMalformed},
		{"sender is broadcast", edit(ask, 22, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), DropMalformed},
		{"sender is zero", edit(ask, 22, 0, 0, 0, 0, 0, 0), DropMalformed},
		{"other EtherType", edit(ask, 12, 8, 0), DropMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, e, why := answerARP(nil, tc.frame, tableOf(t, ad(vip4)), "eth0", ownMAC())
			require.Equal(t, tc.want, why)
			require.Equal(t, tc.want == 0, e != nil)
			require.Equal(t, tc.want == 0, len(got) > 0)
		})
	}
	_, _, why := answerARP(nil, ask, tableOf(t, ad(vip4, "eth1")), "eth0", ownMAC())
	require.Equal(t, DropLink, why)
}

func TestGratuitousARPGolden(t *testing.T) {
	addr := netip.MustParseAddr(vip4)
	for op, code := range map[arp.Operation]string{arp.OperationRequest: "0001", arp.OperationReply: "0002"} {
		want := unhex(`ffffffffffff 020000000001 0806
			0001 0800 06 04 ` + code + `
			020000000001 c0000232
			ffffffffffff c0000232
			000000000000000000000000000000000000`)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(appendGratuitousARP(nil, ownMAC(), addr, op)))
	}
}

// A neighbour solicitation for vip6 from 2001:db8::a with its link-layer address.
// The checksums of these vectors come from an independent program.
func nsFrame() []byte {
	return unhex(`3333ff000050 02000000000a 86dd
		60000000 0020 3a ff
		20010db800000000000000000000000a
		ff0200000000000000000001ff000050
		87 00 1b79 00000000
		20010db8000000000000000000000050
		01 01 02000000000a`)
}

// withSum repairs the checksum of an NDP frame.
func withSum(frame []byte) []byte {
	size := int(frame[18])<<8 | int(frame[19])
	icmp := frame[icmpStart : icmpStart+size]
	icmp[2], icmp[3] = 0, 0
	sum := checksum(netip.AddrFrom16([16]byte(frame[22:])), netip.AddrFrom16([16]byte(frame[38:])), icmp)
	icmp[2], icmp[3] = byte(sum>>8), byte(sum)
	return frame
}

// cut shortens the ICMPv6 message to size bytes and repairs length and checksum.
func cut(frame []byte, size int) []byte {
	out := bytes.Clone(frame[:icmpStart+size])
	out[18], out[19] = byte(size>>8), byte(size)
	return withSum(out)
}

func TestAnswerNDPGolden(t *testing.T) {
	tab := tableOf(t, ad(vip6))
	ns := nsFrame()
	got, e, why := answerNDP(nil, ns, tab, "eth0", ownMAC())
	require.Zero(t, why)
	require.Equal(t, netip.MustParseAddr(vip6), e.addr)
	want := unhex(`02000000000a 020000000001 86dd
		60000000 0020 3a ff
		20010db8000000000000000000000050
		20010db800000000000000000000000a
		88 00 89cd 60000000
		20010db8000000000000000000000050
		02 01 020000000001`)
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))

	// RFC 4861 section 7.2.4: to a probe from ::, S=0 and to all nodes.
	got, _, why = answerNDP(nil, cut(edit(ns, 22, make([]byte, 16)...), nsLen), tab, "eth0", ownMAC())
	require.Zero(t, why)
	unsolicited := unhex(`333300000001 020000000001 86dd
		60000000 0020 3a ff
		20010db8000000000000000000000050
		ff020000000000000000000000000001
		88 00 f88c 20000000
		20010db8000000000000000000000050
		02 01 020000000001`)
	require.Equal(t, hex.EncodeToString(unsolicited), hex.EncodeToString(got))
	require.Equal(t, hex.EncodeToString(unsolicited),
		hex.EncodeToString(appendUnsolicited(nil, ownMAC(), netip.MustParseAddr(vip6))))
}

func TestAnswerNDPDecisions(t *testing.T) {
	ns := nsFrame()
	vip := netip.MustParseAddr(vip6).As16()
	unicast := withSum(edit(edit(ns, 0, ownMAC().bytes()...), 38, vip[:]...))
	probe := cut(edit(ns, 22, make([]byte, 16)...), nsLen)
	zeroOption := edit(ns, icmpStart+nsLen, 14, 0)
	nonce := append(bytes.Clone(ns), 14, 1, 1, 2, 3, 4, 5, 6)
	nonce[19] += 8
	oddPrefix := append(bytes.Clone(ns), 3, 1, 1, 2, 3, 4, 5, 6) // a prefix option of the wrong size
	oddPrefix[19] += 8
	allNodes16 := allNodes().As16()
	for _, tc := range []struct {
		name  string
		frame []byte
		want  DropReason
		to    mac
	}{
		{"multicast", ns, 0, askerMAC()},
		{"unicast to the address (NUD)", unicast, 0, askerMAC()},
		{"to all nodes", withSum(edit(ns, 38, allNodes16[:]...)), 0, askerMAC()},
		{"without source option", cut(edit(ns, 6, thirdMAC().bytes()...), nsLen), 0, thirdMAC()},
		{"source option differs from frame", edit(ns, 6, thirdMAC().bytes()...), 0, askerMAC()},
		{"with nonce", withSum(nonce), 0, askerMAC()},
		{"with an option that makes no sense", withSum(oddPrefix), 0, askerMAC()},
		{"trailing padding", append(bytes.Clone(ns), 1, 2, 3), 0, askerMAC()},
		{"duplicate address detection", probe, 0, groupMAC(allNodes())},
		{"probe to the address itself", withSum(edit(probe, 38, vip[:]...)), DropMalformed, mac{}},
		{"probe with source option", withSum(edit(ns, 22, make([]byte, 16)...)), DropMalformed, mac{}},
		{"multicast source", withSum(edit(ns, 22, 0xff, 2)), DropMalformed, mac{}},
		{"multicast target", withSum(edit(ns, nsTarget, 0xff, 2)), DropMalformed, mac{}},
		{"routed", edit(ns, 21, 254), DropHopLimit, mac{}},
		{"wrong checksum", edit(ns, 56, 0, 0), DropMalformed, mac{}},
		{"code", withSum(edit(ns, 55, 1)), DropMalformed, mac{}},
		{"advertisement", withSum(edit(ns, 54, 136)), DropNotRequest, mac{}},
		{"extension header", edit(ns, 20, 0), DropMalformed, mac{}},
		{"UDP", edit(ns, 20, 17), DropMalformed, mac{}},
		{"option of length zero", withSum(zeroOption), DropMalformed, mac{}},
		{"option too long", withSum(edit(ns, icmpStart+nsLen+1, 2)), DropMalformed, mac{}},
		{"payload longer than frame", edit(ns, 18, 0, 64), DropMalformed, mac{}},
		{"payload too short", edit(ns, 18, 0, 20), DropMalformed, mac{}},
		{"short", ns[:77], DropMalformed, mac{}},
		{"empty", nil, DropMalformed, mac{}},
		{"to another MAC", edit(ns, 0, thirdMAC().bytes()...), DropDestination, mac{}},
		{"own echo", edit(ns, 6, ownMAC().bytes()...), DropEcho, mac{}},
		{"own echo by option", withSum(edit(ns, icmpStart+nsLen+2, ownMAC().bytes()...)), DropEcho, mac{}},
		{"not our address", withSum(edit(ns, nsTarget+15, 0x51)), DropUnknown, mac{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, e, why := answerNDP(nil, tc.frame, tableOf(t, ad(vip6)), "eth0", ownMAC())
			require.Equal(t, tc.want, why)
			require.Equal(t, tc.want == 0, e != nil)
			if tc.want == 0 {
				require.Equal(t, tc.to, mac(got[:6]))
				requireAdvertisement(t, got)
			}
		})
	}
	_, _, why := answerNDP(nil, ns, tableOf(t, ad(vip6, "eth1")), "eth0", ownMAC())
	require.Equal(t, DropLink, why)
}

// requireAdvertisement checks a frame with a decoder that is not ours.
func requireAdvertisement(t testing.TB, frame []byte) {
	t.Helper()
	require.Equal(t, byte(255), frame[21])
	require.Zero(t, checksum(netip.AddrFrom16([16]byte(frame[22:])), netip.AddrFrom16([16]byte(frame[38:])), frame[icmpStart:]))
	m, err := ndp.ParseMessage(frame[icmpStart:])
	require.NoError(t, err)
	na, ok := m.(*ndp.NeighborAdvertisement)
	require.True(t, ok)
	require.False(t, na.Router)
	require.True(t, na.Override)
	require.Equal(t, netip.MustParseAddr(vip6), na.TargetAddress)
	require.Equal(t, []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: net.HardwareAddr(ownMAC().bytes())}}, na.Options)
}

// FuzzARP: whatever arrives, a handler neither panics nor answers anything but a
// request for an address that is held, and never itself or a group.
func FuzzARP(f *testing.F) {
	f.Add(arpRequest())
	f.Add(edit(arpRequest(), 19, 16))
	f.Add(arpRequest()[:30])
	tab := tableOf(f, ad(vip4))
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, e, why := answerARP(nil, frame, tab, "eth0", ownMAC())
		if (e == nil) != (why != 0) {
			t.Fatalf("entry %v with reason %v", e, why)
		}
		if e == nil {
			return
		}
		if frame[21] != 1 || !bytes.Equal(frame[38:42], []byte{192, 0, 2, 50}) {
			t.Fatalf("answered %x", frame)
		}
		if to := mac(got[:6]); !to.unicast() || to == ownMAC() || len(got) != etherMin {
			t.Fatalf("answer %x", got)
		}
		var p arp.Packet
		if err := p.UnmarshalBinary(got[etherLen:]); err != nil || p.Operation != arp.OperationReply || p.SenderIP != e.addr {
			t.Fatalf("answer %+v, %v", p, err)
		}
	})
}

// FuzzNDP is FuzzARP for solicitations.
func FuzzNDP(f *testing.F) {
	f.Add(nsFrame())
	f.Add(cut(nsFrame(), nsLen))
	f.Add(cut(edit(nsFrame(), 22, make([]byte, 16)...), nsLen))
	tab := tableOf(f, ad(vip6))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) >= icmpStart+nsLen { // lets mutations past the checksum
			if size := int(frame[18])<<8 | int(frame[19]); size >= nsLen && icmpStart+size <= len(frame) {
				frame = withSum(bytes.Clone(frame))
			}
		}
		got, e, why := answerNDP(nil, frame, tab, "eth0", ownMAC())
		if (e == nil) != (why != 0) {
			t.Fatalf("entry %v with reason %v", e, why)
		}
		if e == nil {
			return
		}
		if to := mac(got[:6]); to == ownMAC() || (!to.unicast() && to != groupMAC(allNodes())) {
			t.Fatalf("answer %x", got)
		}
		requireAdvertisement(t, got)
	})
}
