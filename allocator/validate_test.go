package allocator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestValidatePools(t *testing.T) {
	pool := func(name string, ranges ...string) Pool { return Pool{Name: name, Ranges: mustRanges(t, ranges...)} }
	one := mustRanges(t, "192.0.2.0/24")
	for _, tt := range []struct {
		name  string
		pools []Pool
		errs  []error
		texts []string
	}{
		{name: "none"},
		{name: "neighbours", pools: []Pool{pool("a", "10.44.0.1-10.44.0.100"), pool("b", "10.44.0.101-10.44.0.200")}},
		{name: "same numbers, two families", pools: []Pool{pool("a", "0.0.0.0/24"), pool("b", "::/120")}},
		{
			name: "no name", pools: []Pool{pool("", "10.0.0.0/24")},
			errs: []error{ErrPoolName}, texts: []string{`pool "": name is empty`},
		},
		{
			name: "name twice", pools: []Pool{pool("a", "10.0.0.0/24"), pool("a", "10.0.1.0/24")},
			errs: []error{ErrPoolTwice}, texts: []string{`pool "a": name is used twice`},
		},
		{name: "no ranges", pools: []Pool{pool("a")}, errs: []error{ErrPoolEmpty}, texts: []string{`pool "a": no addresses`}},
		{
			name: "negative priority", pools: []Pool{{Name: "a", Ranges: one, Priority: -3}},
			errs: []error{ErrPoolPriority}, texts: []string{`pool "a": priority is negative: -3; use 0`},
		},
		{
			name: "nil selector", pools: []Pool{{Name: "a", Ranges: one, Scope: &Scope{Services: []Selector{nil}}}},
			errs: []error{ErrPoolScope}, texts: []string{"nil service selector"},
		},
		{
			name: "zero range", pools: []Pool{{Name: "a", Ranges: []Range{{}}}},
			errs: []error{ErrPoolRange}, texts: []string{"zero address"},
		},
		{
			name: "reversed", pools: []Pool{{Name: "a", Ranges: []Range{{addrs("10.0.0.9")[0], addrs("10.0.0.1")[0]}}}},
			errs: []error{ErrPoolRange}, texts: []string{"last address 10.0.0.1 is before the first, 10.0.0.9"},
		},
		{
			name: "two families in one range, metallb mixed-family panic", pools: []Pool{{Name: "a", Ranges: []Range{{addrs("10.0.0.9")[0], addrs("fd44::1")[0]}}}},
			errs: []error{ErrPoolRange}, texts: []string{"two families"},
		},
		{
			name: "zone", pools: []Pool{{Name: "a", Ranges: []Range{{addrs("fe80::1%eth0")[0], addrs("fe80::2%eth0")[0]}}}},
			errs: []error{ErrPoolRange}, texts: []string{"zone"},
		},
		{
			name: "two pools overlap", pools: []Pool{pool("a", "10.44.0.1-10.44.0.100"), pool("b", "10.44.0.0/24")},
			errs: []error{ErrPoolOverlap}, texts: []string{`pool "b": range 10.44.0.0/24 overlaps 10.44.0.1-10.44.0.100 of pool "a"`},
		},
		{
			name: "the later one is blamed", pools: []Pool{pool("b", "10.44.0.0/24"), pool("a", "10.44.0.1-10.44.0.100")},
			errs: []error{ErrPoolOverlap}, texts: []string{`pool "a": range 10.44.0.1-10.44.0.100 overlaps 10.44.0.0/24 of pool "b"`},
		},
		{
			name: "one pool overlaps itself", pools: []Pool{pool("a", "10.44.0.0/30", "10.44.0.2/32")},
			errs: []error{ErrPoolOverlap}, texts: []string{`pool "a": its ranges 10.44.0.2/32 and 10.44.0.0/30 overlap`},
		},
		{
			name:  "a rejected pool rejects nobody",
			pools: []Pool{pool("a", "10.0.0.0/30"), pool("b", "10.0.0.0/29"), pool("c", "10.0.0.4/30"), pool("d", "10.0.0.0/24")},
			errs:  []error{ErrPoolOverlap, ErrPoolOverlap},
			texts: []string{`pool "b": range 10.0.0.0/29 overlaps 10.0.0.0/30 of pool "a"`, `pool "d": range 10.0.0.0/24 overlaps 10.0.0.0/30 of pool "a"`},
		},
		{name: "ranges of an opaque pool do not count", pools: []Pool{pool("a", "10.0.0.0/30"), {Name: "b", Opaque: true, Ranges: mustRanges(t, "10.0.0.0/30")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			faults := ValidatePools(tt.pools)
			require.Len(t, faults, len(tt.errs))
			a, err := New(Config{Pools: tt.pools})
			if len(tt.errs) == 0 {
				require.NoError(t, err)
				return
			}
			assert.Nil(t, a)
			for i, fault := range faults {
				assert.ErrorIs(t, fault, tt.errs[i])
				assert.Contains(t, fault.Error(), tt.texts[i])
				assert.ErrorContains(t, err, fault.Error())
			}
		})
	}
}

// The list without the blamed pools is good, and every blame is deserved.
func TestValidatePoolsAgainstPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pools []Pool
		for i := range rapid.IntRange(1, 8).Draw(t, "pools") {
			p := Pool{Name: fmt.Sprint("p", i)}
			for range rapid.IntRange(1, 3).Draw(t, "ranges") {
				f := rapid.SampledFrom([]Family{IPv4, IPv6}).Draw(t, "family")
				from := rapid.Uint64Range(0, 200).Draw(t, "from")
				to := from + rapid.Uint64Range(0, 15).Draw(t, "length")
				p.Ranges = append(p.Ranges, Range{address(f, u128{lo: from}), address(f, u128{lo: to})})
			}
			pools = append(pools, p)
		}
		// The definition, pair by pair.
		var good []Pool
		var want []string
		for _, p := range pools {
			bad := false
			for i, r := range p.Ranges {
				for _, other := range append(slices.Clone(good), Pool{Ranges: p.Ranges[:i]}) {
					for _, s := range other.Ranges {
						bad = bad || r.Contains(s.From) || s.Contains(r.From)
					}
				}
			}
			if bad {
				want = append(want, p.Name)
			} else {
				good = append(good, p)
			}
		}
		var got []string
		for _, fault := range ValidatePools(pools) {
			require.ErrorIs(t, fault, ErrPoolOverlap)
			got = append(got, fault.Pool)
		}
		require.Equal(t, want, slices.Compact(got))
		require.Empty(t, ValidatePools(good))
	})
}
