package config

import (
	"net/netip"
	"slices"
	"sort"

	"github.com/heraldlb/herald/allocator"
)

// claim is a range of addresses that a pool has taken.
type claim struct {
	allocator.Range
	pool string
	text string // the entry of spec.addresses
}

// claims are disjoint and sorted. netip orders IPv4 before IPv6, so both families live in one list.
type claims []claim

// search returns the index of the first claim that ends at addr or after it.
func (c claims) search(addr netip.Addr) int {
	return sort.Search(len(c), func(i int) bool { return c[i].To.Compare(addr) >= 0 })
}

// overlapping returns the lowest claim that shares an address with r.
func (c claims) overlapping(r allocator.Range) (claim, bool) {
	if i := c.search(r.From); i < len(c) && c[i].From.Compare(r.To) <= 0 {
		return c[i], true
	}
	return claim{}, false
}

// holder returns the claim that addr is in.
func (c claims) holder(addr netip.Addr) (claim, bool) {
	return c.overlapping(allocator.Range{From: addr, To: addr})
}

// add inserts a claim that overlaps none.
func (c *claims) add(in claim) {
	*c = slices.Insert(*c, c.search(in.From), in)
}

// free returns the parts of r that nobody has claimed, ascending.
func (c claims) free(r allocator.Range) []allocator.Range {
	var out []allocator.Range
	from := r.From
	for i := c.search(r.From); i < len(c) && c[i].From.Compare(r.To) <= 0; i++ {
		if from.Less(c[i].From) {
			out = append(out, allocator.Range{From: from, To: c[i].From.Prev()})
		}
		if c[i].To.Compare(r.To) >= 0 {
			return out
		}
		from = c[i].To.Next()
	}
	return append(out, allocator.Range{From: from, To: r.To})
}
