package announce

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"pgregory.net/rapid"
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func TestFilters(t *testing.T) {
	ask, ns := arpRequest(), nsFrame()
	reply, na := edit(ask, 21, 2), edit(ns, 54, 136)
	none, held4, held6 := []netip.Prefix(nil), prefixes("192.0.2.8/30"), prefixes("2001:db8::50/128")
	near, half := prefixes("2001:db8::/33", "2001:db8::40/123"), prefixes("2001:db8::40/124", "2001:db8:0:8000::/49")
	for _, tc := range []struct {
		name     string
		protocol Protocol
		claims   []netip.Prefix
		frame    []byte
		want     bool
	}{
		{"ARP request", ARP, none, ask, true},
		{"ARP request, addresses held", ARP, held4, ask, true},
		{"ARP probe", ARP, none, edit(ask, 28, 0, 0, 0, 0), true},
		{"ARP reply when nothing is held", ARP, none, reply, false},
		{"ARP reply from a held address", ARP, held4, reply, true},
		{"ARP reply from a held address, the last", ARP, prefixes("10.0.0.0/8", "192.0.2.10/32"), reply, true},
		{"ARP reply from another address, for a held one", ARP, prefixes("192.0.2.50/32"), reply, false},
		{"ARP reply from the next address", ARP, held4, edit(reply, 31, 12), false},
		{"reverse ARP operation", ARP, held4, edit(ask, 21, 3), false},
		{"everything is held", ARP, prefixes("0.0.0.0/0"), reply, true},
		{"ARP for InfiniBand", ARP, held4, edit(ask, 15, 32), false},
		{"ARP for IPv6", ARP, held4, edit(ask, 16, 0x86, 0xdd), false},
		{"ARP with long addresses", ARP, held4, edit(ask, 19, 16), false},
		{"short ARP", ARP, held4, ask[:20], false},
		{"NS to the ARP socket", ARP, held4, ns, false},
		{"NS", NDP, none, ns, true},
		{"NA when nothing is held", NDP, none, na, false},
		{"NA of a held address", NDP, held6, na, true},
		{"NA of a prefix", NDP, near, na, true},
		{"NA of a wide prefix", NDP, near[:1], na, true},
		{"NA outside, by the first or the last word", NDP, half, na, false},
		{"NA of another address", NDP, held6, edit(na, 77, 0x51), false},
		{"NA with code", NDP, held6, edit(na, 55, 1), false},
		{"routed NA", NDP, held6, edit(na, 21, 64), false},
		{"router advertisement", NDP, held6, edit(ns, 54, 134), false},
		{"routed NS", NDP, none, edit(ns, 21, 64), false},
		{"NS with code", NDP, none, edit(ns, 55, 1), false},
		{"UDP", NDP, held6, edit(ns, 20, 17), false},
		{"IPv4", NDP, held6, edit(ns, 12, 8, 0), false},
		{"short NS", NDP, none, ns[:50], false},
		{"short NA", NDP, held6, na[:70], false},
		{"ARP to the NDP socket", NDP, held6, ask, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, passes(t, tc.protocol, tc.claims, tc.frame))
		})
	}
}

// passes runs a frame through the filter in a virtual machine.
func passes(t require.TestingT, p Protocol, claims []netip.Prefix, frame []byte) bool {
	vm, err := bpf.NewVM(program(p, claims))
	require.NoError(t, err)
	n, err := vm.Run(frame)
	require.NoError(t, err)
	require.Equal(t, n > 0, n >= len(frame), "all of the frame or nothing")
	return n > 0
}

// However many addresses are held: every claim of one of them passes, the filter
// stays short, and the kernel's limits are kept.
func TestFilterCoversEveryHeldAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		protocol, size, off, frame := ARP, 4, arpSender, edit(arpRequest(), 21, 2)
		if v6 {
			protocol, size, off, frame = NDP, 16, nsTarget, edit(nsFrame(), 54, 136)
		}
		addr := rapid.Custom(func(t *rapid.T) netip.Addr {
			// Few values for each byte, so that addresses are near each other.
			b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}), size, size).Draw(t, "bytes")
			a, _ := netip.AddrFromSlice(b)
			return a
		})
		addrs := rapid.SliceOfN(addr, 0, 60).Draw(t, "addrs")
		limit := rapid.IntRange(1, maxPrefixes).Draw(t, "limit")
		claims := cover(slices.Clone(addrs), limit)
		require.LessOrEqual(t, len(claims), limit)
		raw, err := kernelFilter(protocol, claims)
		require.NoError(t, err)
		require.Less(t, len(raw), 4096)
		for _, a := range addrs {
			require.True(t, passes(t, protocol, claims, edit(frame, off, a.AsSlice()...)), a)
		}
		probe := addr.Draw(t, "probe")
		in := slices.ContainsFunc(claims, func(p netip.Prefix) bool { return p.Contains(probe) })
		require.Equal(t, in, passes(t, protocol, claims, edit(frame, off, probe.AsSlice()...)), probe)
	})
}

func TestCover(t *testing.T) {
	for _, tc := range []struct {
		name  string
		addrs []string
		limit int
		want  []netip.Prefix
	}{
		{"nothing", nil, 4, nil},
		{"one", []string{"192.0.2.1"}, 4, prefixes("192.0.2.1/32")},
		{"twice", []string{"192.0.2.1", "192.0.2.1"}, 4, prefixes("192.0.2.1/32")},
		{"as many as fit", []string{"192.0.2.3", "192.0.2.1"}, 2, prefixes("192.0.2.1/32", "192.0.2.3/32")},
		{"two pools", []string{"192.0.2.1", "10.0.0.4", "192.0.2.2", "10.0.0.7", "10.0.0.6"}, 2, prefixes("10.0.0.4/30", "192.0.2.0/30")},
		{"one prefix", []string{"10.0.0.1", "192.0.2.1"}, 1, prefixes("0.0.0.0/0")},
		{"IPv6", []string{"2001:db8::1", "2001:db8::3", "2001:db8:1::1"}, 2, prefixes("2001:db8::/126", "2001:db8:1::1/128")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var addrs []netip.Addr
			for _, s := range tc.addrs {
				addrs = append(addrs, netip.MustParseAddr(s))
			}
			require.Equal(t, tc.want, cover(addrs, tc.limit))
		})
	}
}
