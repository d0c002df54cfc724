package allocator

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCapacity(t *testing.T) {
	const most = math.MaxInt64
	for _, tt := range []struct {
		name   string
		ranges []string
		avoid  bool
		v4, v6 int64
	}{
		{name: "range", ranges: []string{"10.44.0.5-10.44.0.9"}, v4: 5},
		{name: "/23", ranges: []string{"10.44.0.0/23"}, v4: 512},
		{name: "/23 without buggy ones", ranges: []string{"10.44.0.0/23"}, avoid: true, v4: 508},
		{name: "/26 in the middle", ranges: []string{"10.44.0.64/26"}, avoid: true, v4: 64},
		{name: "/29 in the middle, metallb#1684", ranges: []string{"198.51.100.120/29"}, avoid: true, v4: 8},
		{name: "/31 at .0", ranges: []string{"10.44.0.0/31"}, avoid: true, v4: 1},
		{name: "/32 at .0, metallb PR 2442", ranges: []string{"192.0.2.0/32"}, avoid: true},
		{name: "/32 at .0 and .255", ranges: []string{"192.0.2.0/32", "192.0.2.255/32"}, avoid: true},
		{name: ".255-.0", ranges: []string{"10.44.0.255-10.44.1.0"}, avoid: true},
		{name: "IPv6 has no buggy ones", ranges: []string{"2001:db8::/120"}, avoid: true, v6: 256},
		{name: "all of IPv4", ranges: []string{"0.0.0.0/0"}, v4: 1 << 32},
		{name: "all of IPv4 without buggy ones", ranges: []string{"0.0.0.0/0"}, avoid: true, v4: 1 << 24 * 254},
		{name: "/67", ranges: []string{"fd00::/67"}, v6: 1 << 61},
		{name: "/66", ranges: []string{"fd00::/66"}, v6: 1 << 62},
		{name: "/65", ranges: []string{"fd00::/65"}, v6: most},
		{name: "one less than a /65", ranges: []string{"fd00::-fd00::7fff:ffff:ffff:fffe"}, v6: most},
		{name: "two less than a /65", ranges: []string{"fd00::-fd00::7fff:ffff:ffff:fffd"}, v6: most - 1},
		{name: "two /65", ranges: []string{"fd00:0:0:0:8000::/65", "fd00::/65"}, v6: most},
		{name: "two /1", ranges: []string{"::/1", "8000::/1"}, v6: most},
		{name: "/0", ranges: []string{"::/0"}, v6: most},
		{name: "/64 then /24, metallb PR 3140", ranges: []string{"2001:db8::/64", "192.0.2.0/24"}, v4: 256, v6: most},
		{name: "/24 then /64, metallb PR 3140", ranges: []string{"192.0.2.0/24", "2001:db8::/64"}, v4: 256, v6: most},
		{name: "/64 then /120", ranges: []string{"fd00::/64", "fd01::/120"}, v6: most},
		{name: "64 blocks", ranges: []string{"fc00::-fc00::ffff:ffff:ffff:fffe"}, v6: most},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, tt.ranges...), AvoidBuggyIPs: tt.avoid})
			usage, ok := a.Usage("p")
			require.True(t, ok)
			assert.Equal(t, Usage{Count{tt.v4, 0, tt.v4, 0}, Count{tt.v6, 0, tt.v6, 0}}, usage)
		})
	}
}

// Free is exact where it fits: it is not MaxInt64 less what is used.
func TestCountOfHugePool(t *testing.T) {
	for _, tt := range []struct {
		cidr string
		free int64
	}{
		{"fd00::/64", math.MaxInt64},
		{"fd00::/65", math.MaxInt64 - 1},
		{"fd00::/66", 1<<62 - 2},
		{"::/0", math.MaxInt64},
	} {
		a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, tt.cidr)})
		mustAssign(t, a, Request{Owner: "a", Families: []Family{IPv6}})
		mustAssign(t, a, Request{Owner: "b", Families: []Family{IPv6}})
		usage, _ := a.Usage("p")
		assert.Equal(t, int64(2), usage.V6.Used)
		assert.Equal(t, tt.free, usage.V6.Free, tt.cidr)
	}
}

func TestUsage(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30", "fd44::/126")})
	mustAssign(t, a, Request{Owner: "a", Families: []Family{IPv4}})
	usage, _ := a.Usage("p")
	assert.Equal(t, Usage{Count{4, 1, 3, 0}, Count{4, 0, 4, 0}}, usage)
	_, ok := a.Usage("q")
	assert.False(t, ok)

	for i := range 3 {
		mustAssign(t, a, Request{
			Owner: Owner(fmt.Sprint("s", i)), Families: []Family{IPv4}, SharingKey: "k",
			Ports: []Port{{"TCP", uint16(i)}},
		})
	}
	used := func() int64 { u, _ := a.Usage("p"); return u.V4.Used }
	assert.Equal(t, int64(2), used(), "a shared address counts once")
	a.Release("s1")
	assert.Equal(t, int64(2), used())
	a.Release("s0")
	a.Release("s2")
	assert.Equal(t, int64(1), used())
}

// naive lists the usable addresses of a pool in the order of allocation.
func naive(p Pool) []netip.Addr {
	var list []netip.Addr
	for _, r := range p.Ranges {
		for addr := r.From; addr.IsValid() && !r.To.Less(addr); addr = addr.Next() {
			if p.AvoidBuggyIPs && addr.Is4() && (addr.As4()[3] == 0 || addr.As4()[3] == 255) {
				continue
			}
			if !slices.ContainsFunc(p.Exclude, func(x Range) bool { return x.Contains(addr) }) {
				list = append(list, addr)
			}
		}
	}
	return list
}

func TestSpaceNumbersUsableAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Disjoint ranges out of cut points, in a random order.
		f := rapid.SampledFrom([]Family{IPv4, IPv6}).Draw(t, "family")
		start := uint64(rapid.SampledFrom([]uint32{0, 10<<24 + 250, math.MaxUint32 - 1200}).Draw(t, "start"))
		var ranges []Range
		for at, i := start, 0; i < rapid.IntRange(1, 5).Draw(t, "ranges"); i++ {
			at += rapid.Uint64Range(0, 100).Draw(t, "gap")
			last := at + rapid.Uint64Range(0, 130).Draw(t, "length")
			ranges = append(ranges, Range{address(f, u128{lo: at}), address(f, u128{lo: last})})
			at = last + 1
		}
		p := Pool{Name: "p", AvoidBuggyIPs: rapid.Bool().Draw(t, "avoid"), Ranges: rapid.Permutation(ranges).Draw(t, "order")}
		tab, _ := newTable([]Pool{p}, nil)
		s := &tab.ordered[0].spaces[f.index()]
		want := naive(p)
		require.Equal(t, int64(len(want)), s.count().Total)
		for i, addr := range want {
			pos := u128{lo: uint64(i)}
			require.Equal(t, addr, address(f, s.at(pos)))
			in, at, usable := tab.index.find(f, number(addr))
			require.True(t, in == tab.ordered[0] && usable)
			require.Equal(t, pos, at)
		}
		for _, r := range p.Ranges {
			for _, addr := range []netip.Addr{r.From.Prev(), r.From, r.To, r.To.Next()} {
				if !addr.IsValid() {
					continue
				}
				in, _, usable := tab.index.find(f, number(addr))
				contained := false
				for _, other := range p.Ranges {
					contained = contained || other.Contains(addr)
				}
				require.Equal(t, contained, in != nil)
				require.Equal(t, contained && !s.excluded(number(addr)), usable)
			}
		}
	})
}

func TestSpaceRefill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pool{Name: "p", Ranges: []Range{{address(IPv4, u128{}), address(IPv4, u128{lo: 199})}}}
		one, two := newSpace(IPv4, p.Ranges, false), newSpace(IPv4, p.Ranges, false)
		taken := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 199), 0, 200, rapid.ID).Draw(t, "taken")
		var list []u128
		for _, n := range taken {
			one.take(u128{lo: n})
			list = append(list, u128{lo: n})
		}
		two.refill(list)
		require.Equal(t, one.free.check(t), two.free.check(t))
		require.Equal(t, one.count(), two.count())
	})
}
