package election

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// kw returns the node names kw-01 ... for the numbers given.
func kw(numbers ...int) []string {
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = fmt.Sprintf("kw-%02d", n)
	}
	return names
}

func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", i)
	}
	return names
}

// TestOrderOfMetalLB holds orders that MetalLB's own function produced.
func TestOrderOfMetalLB(t *testing.T) {
	tests := []struct {
		addr string
		want []string
	}{
		{"198.51.100.7", kw(2, 3, 5, 1, 4)},
		{"198.51.100.8", kw(5, 1, 2, 4, 3)},
		{"198.51.100.9", kw(1, 4, 3, 2, 5)},
		{"203.0.113.250", kw(1, 3, 5, 2, 4)},
		{"10.255.0.1", kw(3, 5, 4, 1, 2)},
		{"2001:db8:77::a", kw(4, 3, 1, 2, 5)},
		{"2001:db8:77::1:b", kw(5, 2, 4, 3, 1)},
		// An IPv4-mapped address is the IPv4 address, and the spelling of an
		// IPv6 address does not matter.
		{"::ffff:198.51.100.7", kw(2, 3, 5, 1, 4)},
		{"2001:0DB8:0077:0::A", kw(4, 3, 1, 2, 5)},
	}
	for _, tt := range tests {
		t.Run(tt.addr, func(t *testing.T) {
			addr := netip.MustParseAddr(tt.addr)
			nodes := kw(1, 2, 3, 4, 5)
			assert.Equal(t, tt.want, Rank(nil, addr, nodes))
			winner, ok := Winner(addr, nodes)
			assert.True(t, ok)
			assert.Equal(t, tt.want[0], winner)
		})
	}
}

func TestDigest(t *testing.T) {
	tests := []struct{ node, want string }{
		{"kw-01", "a46faea9d4073d0e"},
		{"kw-02", "116d21ec024e0b98"},
		{"kw-03", "157c5173c12a3688"},
	}
	for _, tt := range tests {
		for _, addr := range []string{"198.51.100.7", "::ffff:198.51.100.7"} {
			t.Run(tt.node+"#"+addr, func(t *testing.T) {
				var h hasher
				require.True(t, h.init(netip.MustParseAddr(addr)))
				sum := h.sum(tt.node)
				assert.Equal(t, tt.want, hex.EncodeToString(sum[:8]))
			})
		}
	}
}

// TestDigestOfAnyLength compares with the plain definition around every length
// at which the implementation changes its way.
func TestDigestOfAnyLength(t *testing.T) {
	for _, text := range []string{"192.0.2.1", "2001:db8:1111:2222:3333:4444:5555:6666"} {
		var h hasher
		require.True(t, h.init(netip.MustParseAddr(text)))
		for _, length := range []int{1, 63, 64, 253, 255, 256, 257, 511, 512, 513, 100_000} {
			node := strings.Repeat("n", length-1) + "x"
			assert.Equal(t, digest(sha256.Sum256([]byte(node+"#"+text))), h.sum(node), "name of %d octets", length)
		}
	}
}

func TestUnusableAddresses(t *testing.T) {
	mapped := netip.MustParseAddr("::ffff:192.0.2.1").WithZone("eth0")
	for _, addr := range []netip.Addr{{}, netip.MustParseAddr("fe80::1%eth0"), mapped} {
		t.Run(addr.String(), func(t *testing.T) {
			node, ok := Winner(addr, kw(1, 2))
			assert.False(t, ok)
			assert.Empty(t, node)
			assert.Equal(t, []string{"kept"}, Rank([]string{"kept"}, addr, kw(1, 2)))
		})
	}
}

func TestNoNodes(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	for _, nodes := range [][]string{nil, {}, {""}, {"", ""}} {
		node, ok := Winner(addr, nodes)
		assert.False(t, ok)
		assert.Empty(t, node)
		assert.Empty(t, Rank(nil, addr, nodes))
	}
}

func TestRankAppends(t *testing.T) {
	addr := netip.MustParseAddr("198.51.100.7")
	buf := make([]string, 1, 16)
	buf[0] = "kept"
	got := Rank(buf, addr, []string{"kw-01", "kw-02", "kw-01", "", "kw-02"})
	assert.Equal(t, []string{"kept", "kw-02", "kw-01"}, got)
	assert.Same(t, &buf[0], &got[0], "the capacity of dst is used")
}

func TestBeforeIsTotal(t *testing.T) {
	var low, high digest
	high[31] = 1
	assert.True(t, before(low, "b", high, "a"))
	assert.False(t, before(high, "a", low, "b"))
	assert.True(t, before(low, "a", low, "b"), "equal digests: the name decides")
	assert.False(t, before(low, "b", low, "a"))
	assert.False(t, before(low, "a", low, "a"))
}

func drawNodes(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.StringN(1, 12, -1), 1, 12, rapid.ID).Draw(t, "nodes")
}

func drawAddr(t *rapid.T) netip.Addr {
	if rapid.Bool().Draw(t, "v6") {
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v6 address")))
	}
	return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4 address")))
}

func TestPropertyWinnerIsFirstOfRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr, nodes := drawAddr(t), drawNodes(t)
		rank := Rank(nil, addr, nodes)
		winner, ok := Winner(addr, nodes)
		require.True(t, ok)
		require.Equal(t, rank[0], winner)
		require.ElementsMatch(t, nodes, rank)
	})
}

func TestPropertyOrderAndRepetitionOfInputDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr, nodes := drawAddr(t), drawNodes(t)
		mixed := rapid.Permutation(append(slices.Clone(nodes), nodes[0])).Draw(t, "mixed")
		require.Equal(t, Rank(nil, addr, nodes), Rank(nil, addr, mixed))
	})
}

// TestPropertyMinimalDisturbance: a node that goes takes only its own place
// out of the order, so only what it held moves; a node that comes puts itself
// into the order, so addresses move only to it.
func TestPropertyMinimalDisturbance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr, nodes := drawAddr(t), drawNodes(t)
		gone := rapid.SampledFrom(nodes).Draw(t, "gone")
		rest := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == gone })

		all := Rank(nil, addr, nodes)
		without := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == gone })
		require.Equal(t, without, Rank([]string{}, addr, rest))

		before, _ := Winner(addr, rest)
		after, _ := Winner(addr, nodes)
		if after != before {
			require.Equal(t, gone, after, "the address moved to somebody who was there before")
		}
	})
}

// TestScaleOut: a sixth node takes about a sixth of the addresses.
func TestScaleOut(t *testing.T) {
	const addresses = 3000
	moved := 0
	for i := range addresses {
		addr := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		before, _ := Winner(addr, nodeNames(5))
		after, _ := Winner(addr, nodeNames(6))
		if before != after {
			moved++
			assert.Equal(t, "node-0005", after)
		}
	}
	assert.InDelta(t, addresses/6, moved, addresses/30)
}

func TestWinnerDoesNotAllocate(t *testing.T) {
	nodes := append(nodeNames(20), strings.Repeat("long", 1000))
	for _, addr := range []netip.Addr{
		netip.MustParseAddr("192.0.2.1"),
		netip.MustParseAddr("::ffff:192.0.2.1"),
		netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666"),
	} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { Winner(addr, nodes) }), addr.String())
	}
}

func TestStandardLibraryOnly(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	assert.Equal(t, []string{"github.com/heraldlb/herald/election"}, strings.Fields(string(out)))
}

func BenchmarkWinner(b *testing.B) {
	addr := netip.MustParseAddr("198.51.100.7")
	for _, n := range []int{10, 100, 1000} {
		nodes := nodeNames(n)
		b.Run(fmt.Sprintf("candidates=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Winner(addr, nodes)
			}
		})
	}
}

func BenchmarkRank(b *testing.B) {
	addr := netip.MustParseAddr("198.51.100.7")
	for _, n := range []int{10, 100, 1000} {
		nodes := nodeNames(n)
		b.Run(fmt.Sprintf("candidates=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]string, 0, n)
			for b.Loop() {
				Rank(dst, addr, nodes)
			}
		})
	}
}
