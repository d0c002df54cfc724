package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/16", "2001:db8::/64", "2001:db8::/40"} {
		t.Run(cidr, func(t *testing.T) {
			pools := []Pool{{Name: "p", Ranges: mustRanges(t, cidr), Order: OrderSpread}}
			family := FamilyOf(pools[0].Ranges[0].From)
			a, b := newTest(t, pools...), newTest(t, pools...)
			var quarter [4]int
			first := map[Owner]netip.Addr{}
			for i := range 400 {
				o := Owner(fmt.Sprintf("shop/web-%d", i))
				first[o] = mustAssign(t, a, want(o, only(family))).Addrs[0]
				span := number(pools[0].Ranges[0].To).sub(number(pools[0].Ranges[0].From))
				offset := number(first[o]).sub(number(pools[0].Ranges[0].From))
				for k := range quarter {
					if !shift(span, k).less(offset) {
						quarter[k]++
						break
					}
				}
			}
			for _, n := range quarter {
				assert.InDelta(t, 100, n, 40, "%v", quarter)
			}
			// Another process, in another order, and after a while of ups and downs.
			same := 0
			for i := range 400 {
				o := Owner(fmt.Sprintf("shop/web-%d", 399-i))
				if mustAssign(t, b, want(o, only(family))).Addrs[0] == first[o] {
					same++
				}
				a.Release(o)
			}
			assert.Greater(t, same, 390)
			for o, addr := range first {
				got := mustAssign(t, a, want(o, only(family))).Addrs[0]
				a.Release(o)
				if family == IPv6 {
					assert.Equal(t, addr, got)
				}
			}
		})
	}
}

// shift returns the end of quarter k of [0, span].
func shift(span u128, k int) u128 {
	quarter := u128{hi: span.hi >> 2, lo: span.hi<<62 | span.lo>>2}
	end := quarter
	for range k {
		end = end.add(quarter).next()
	}
	return end
}

func TestSpreadFillsUp(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.8/29", "10.44.0.0/29"), Order: OrderSpread})
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 16 {
		mustAssign(t, a, want(Owner(fmt.Sprint("o", i, rnd.IntN(100)))))
	}
	_, err := a.Assign(want("x"))
	require.ErrorIs(t, err, ErrExhausted)
}

// The names must lead to the same places in every version.
func TestSpot(t *testing.T) {
	got := []u128{
		spot("shop/web", u128{lo: 255}), spot("shop/web", u128{lo: 0}),
		spot("shop/web", u128{lo: ^uint64(0)}), spot("shop/api", u128{hi: 3, lo: 7}),
		spot("", u128{hi: ^uint64(0), lo: ^uint64(0)}),
	}
	assert.Equal(t, []u128{
		{0, 201},
		{0, 0},
		{0, 0xc966d97401a8c9b5},
		{3, 3},
		{0x21fa69a58f3d62f5, 0xc3817c016ba4ff30},
	}, got)
}
