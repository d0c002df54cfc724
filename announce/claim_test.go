package announce

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/mdlayher/arp"
	"github.com/stretchr/testify/require"
)

// An unsolicited advertisement of vip6 by another host.
func naFrame() []byte {
	return unhex(`333300000001 02000000000a 86dd
		60000000 0020 3a ff
		20010db8000000000000000000000050
		ff020000000000000000000000000001
		88 00 f883 20000000
		20010db8000000000000000000000050
		02 01 02000000000a`)
}

// dadFrame is what a host sends that is about to take vip6 (RFC 4862 section 5.4.2).
func dadFrame() []byte {
	return unhex(`3333ff000050 02000000000a 86dd
		60000000 0018 3a ff
		00000000000000000000000000000000
		ff0200000000000000000001ff000050
		87 00 4c4f 00000000
		20010db8000000000000000000000050`)
}

// heardClaim is what a responder makes of a frame: who claims what, and how.
func heardClaim(p Protocol, frame []byte) (addr netip.Addr, by mac, kind ClaimKind) {
	peek, claimant := peekARP, claimantARP
	if p == NDP {
		peek, claimant = peekNDP, claimantNDP
	}
	addr, kind = peek(frame)
	if kind == 0 {
		return netip.Addr{}, mac{}, 0
	}
	by, ok := claimant(frame, ownMAC())
	if !ok {
		return netip.Addr{}, mac{}, 0
	}
	return addr, by, kind
}

func TestClaims(t *testing.T) {
	ask, ns, na, dad := arpRequest(), nsFrame(), naFrame(), dadFrame()
	announced := edit(ask, 28, 192, 0, 2, 50)
	probe := edit(ask, 28, 0, 0, 0, 0)
	mine := ownMAC().bytes()
	vip := netip.MustParseAddr(vip6).As16()
	solicited := withSum(edit(edit(na, 0, mine...), 58, 0x60))
	solicited = withSum(edit(solicited, 38, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
	padded := func(frame []byte, with string) []byte {
		return append(append(bytes.Clone(frame), with...), make([]byte, 12)...)
	}
	for _, tc := range []struct {
		name     string
		protocol Protocol
		frame    []byte
		addr     string
		by       mac
		kind     ClaimKind
	}{
		{"gratuitous request", ARP, announced, vip4, askerMAC(), ClaimAnnouncement},
		{"gratuitous reply", ARP, edit(announced, 20, 0, 2), vip4, askerMAC(), ClaimAnnouncement},
		{"reply to us", ARP, edit(edit(ask, 20, 0, 2), 0, mine...), "192.0.2.10", askerMAC(), ClaimReply},
		{"reply to all", ARP, edit(ask, 20, 0, 2), "192.0.2.10", askerMAC(), ClaimReply},
		{"request for another address", ARP, ask, "192.0.2.10", askerMAC(), ClaimRequest},
		{"the sender counts, not the frame's source", ARP, edit(announced, 6, thirdMAC().bytes()...), vip4, askerMAC(), ClaimAnnouncement},
		{"probe", ARP, probe, vip4, askerMAC(), ClaimProbe},
		{"probe, padded", ARP, padded(probe, "\x00\x00\x00\x00\x00\x00"), vip4, askerMAC(), ClaimProbe},
		{"probe of an announcer", ARP, padded(probe, "herald"), "", mac{}, 0},
		{"announcement with the mark", ARP, padded(announced, "herald"), vip4, askerMAC(), ClaimAnnouncement},
		{"reply from 0.0.0.0", ARP, edit(probe, 20, 0, 2), "", mac{}, 0},
		{"reply to another host", ARP, edit(edit(ask, 20, 0, 2), 0, thirdMAC().bytes()...), "", mac{}, 0},
		{"own echo", ARP, edit(announced, 6, mine...), "", mac{}, 0},
		{"own echo by sender", ARP, edit(announced, 22, mine...), "", mac{}, 0},
		{"sender is a group", ARP, edit(announced, 22, 1), "", mac{}, 0},
		{"reverse ARP", ARP, edit(announced, 20, 0, 3), "", mac{}, 0},
		{"hardware type", ARP, edit(announced, 14, 0, 32), "", mac{}, 0},
		{"protocol type", ARP, edit(announced, 16, 0x86, 0xdd), "", mac{}, 0},
		{"sizes", ARP, edit(announced, 19, 16), "", mac{}, 0},
		{"EtherType", ARP, edit(announced, 12, 8, 0), "", mac{}, 0},
		{"short", ARP, announced[:41], "", mac{}, 0},

		{"unsolicited advertisement", NDP, na, vip6, askerMAC(), ClaimAnnouncement},
		{"advertisement without option", NDP, cut(edit(na, 6, thirdMAC().bytes()...), nsLen), vip6, thirdMAC(), ClaimAnnouncement},
		{"solicited advertisement", NDP, solicited, vip6, askerMAC(), ClaimReply},
		{"duplicate address detection", NDP, dad, vip6, askerMAC(), ClaimProbe},
		{"solicitation for another address", NDP, withSum(edit(ns, 22, vip[:]...)), vip6, askerMAC(), ClaimRequest},
		{"solicited advertisement to a group", NDP, withSum(edit(na, 58, 0x60)), "", mac{}, 0},
		{"advertisement from ::", NDP, withSum(edit(na, 22, make([]byte, 16)...)), "", mac{}, 0},
		{"advertisement of a group", NDP, withSum(edit(na, nsTarget, 0xff)), "", mac{}, 0},
		{"advertisement through a router", NDP, edit(na, 21, 254), "", mac{}, 0},
		{"advertisement with wrong checksum", NDP, edit(na, 56, 0, 0), "", mac{}, 0},
		{"advertisement with code", NDP, withSum(edit(na, 55, 1)), "", mac{}, 0},
		{"advertisement with option of length zero", NDP, withSum(edit(na, icmpStart+nsLen+1, 0)), "", mac{}, 0},
		{"advertisement to another host", NDP, edit(na, 0, thirdMAC().bytes()...), "", mac{}, 0},
		{"detection with option", NDP, withSum(edit(ns, 22, make([]byte, 16)...)), "", mac{}, 0},
		{"detection to the address itself", NDP, withSum(edit(dad, 38, vip[:]...)), "", mac{}, 0},
		{"own echo of an advertisement", NDP, edit(na, 6, mine...), "", mac{}, 0},
		{"own echo by option", NDP, withSum(edit(na, icmpStart+nsLen+2, mine...)), "", mac{}, 0},
		{"router advertisement", NDP, withSum(edit(na, 54, 134)), "", mac{}, 0},
		{"short advertisement", NDP, na[:77], "", mac{}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want netip.Addr
			if tc.addr != "" {
				want = netip.MustParseAddr(tc.addr)
			}
			addr, by, kind := heardClaim(tc.protocol, tc.frame)
			require.Equal(t, want, addr)
			require.Equal(t, tc.by, by)
			require.Equal(t, tc.kind, kind)
			require.NotEmpty(t, tc.kind.String())
		})
	}
}

// What we announce is an announcement to others, and our probes are no claims.
func TestOwnFramesAsOthersHearThem(t *testing.T) {
	other := thirdMAC()
	for _, op := range []arp.Operation{arp.OperationRequest, arp.OperationReply} {
		addr, by, kind := heardClaim(ARP, appendGratuitousARP(nil, other, netip.MustParseAddr(vip4), op))
		require.Equal(t, vip4, addr.String())
		require.Equal(t, other, by)
		require.Equal(t, ClaimAnnouncement, kind)
	}
	addr, by, kind := heardClaim(NDP, appendUnsolicited(nil, other, netip.MustParseAddr(vip6)))
	require.Equal(t, vip6, addr.String())
	require.Equal(t, other, by)
	require.Equal(t, ClaimAnnouncement, kind)

	_, _, kind = heardClaim(ARP, appendProbeARP(nil, other, netip.MustParseAddr(vip4)))
	require.Zero(t, kind)
	addr, _, kind = heardClaim(NDP, appendSolicitation(nil, other, netip.MustParseAddr(vip6)))
	require.Equal(t, ClaimRequest, kind)
	require.Equal(t, "fe80::ff:fe00:b", addr.String(), "which nobody else has")
}

func TestProbesGolden(t *testing.T) {
	// RFC 5227 section 2.1.1: broadcast, sender protocol and target hardware address zero.
	require.Equal(t, hex.EncodeToString(unhex(`ffffffffffff 020000000001 0806
		0001 0800 06 04 0001
		020000000001 00000000
		000000000000 c0000232
		686572616c64 000000000000000000000000`)),
		hex.EncodeToString(appendProbeARP(nil, ownMAC(), netip.MustParseAddr(vip4))))
	// RFC 4861 section 4.3, to the solicited-node group.
	require.Equal(t, hex.EncodeToString(unhex(`3333ff000050 020000000001 86dd
		60000000 0020 3a ff
		fe80000000000000000000fffe000001
		ff0200000000000000000001ff000050
		87 00 4bc3 00000000
		20010db8000000000000000000000050
		01 01 020000000001`)),
		hex.EncodeToString(appendSolicitation(nil, ownMAC(), netip.MustParseAddr(vip6))))
	// They are answered, to the MAC that asks.
	got, _, why := answerARP(nil, appendProbeARP(nil, thirdMAC(), netip.MustParseAddr(vip4)), tableOf(t, ad(vip4)), "eth0", ownMAC())
	require.Zero(t, why)
	require.Equal(t, thirdMAC(), mac(got[:6]))
	got, _, why = answerNDP(nil, appendSolicitation(nil, thirdMAC(), netip.MustParseAddr(vip6)), tableOf(t, ad(vip6)), "eth0", ownMAC())
	require.Zero(t, why)
	require.Equal(t, thirdMAC(), mac(got[:6]))
	requireAdvertisement(t, got)
}

func TestHearingDoesNotAllocate(t *testing.T) {
	ask, na, foreign := arpRequest(), naFrame(), edit(naFrame(), nsTarget, 0x20, 2)
	for name, f := range map[string]func(){
		"ARP":         func() { _, _, _ = heardClaim(ARP, ask) },
		"NDP":         func() { _, _, _ = heardClaim(NDP, na) },
		"foreign NDP": func() { _, _ = peekNDP(foreign) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
}

// FuzzClaims: whatever arrives, nothing panics, and only a well-formed frame of
// another host is a claim.
func FuzzClaims(f *testing.F) {
	f.Add(arpRequest(), false)
	f.Add(edit(arpRequest(), 28, 0, 0, 0, 0), false)
	f.Add(nsFrame(), true)
	f.Add(naFrame(), true)
	f.Add(dadFrame(), true)
	f.Add(naFrame()[:60], true)
	f.Fuzz(func(t *testing.T, frame []byte, v6 bool) {
		p := ARP
		if v6 {
			p = NDP
			if len(frame) >= icmpStart+nsLen { // lets mutations past the checksum
				if size := int(frame[18])<<8 | int(frame[19]); size >= nsLen && icmpStart+size <= len(frame) {
					frame = withSum(bytes.Clone(frame))
				}
			}
		}
		addr, by, kind := heardClaim(p, frame)
		if kind == 0 {
			return
		}
		if !by.unicast() || by == ownMAC() || mac(frame[6:12]) == ownMAC() || addr.Is4() == v6 {
			t.Fatalf("%v claims %v by %v in %x", by, addr, kind, frame)
		}
		if v6 && frame[21] != hopLimit {
			t.Fatalf("routed frame %x", frame)
		}
		if to := mac(frame[:6]); !to.group() && to != ownMAC() {
			t.Fatalf("frame to %v", to)
		}
	})
}
