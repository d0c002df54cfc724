package announce

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"
)

// An entry is one held address in one table. It is immutable but for the counters.
type entry struct {
	addr   netip.Addr
	owners []Owner  // sorted, unique
	links  []string // sorted; nil: every link
	*tenure
}

// allows reports whether the address is announced on the named link.
func (e *entry) allows(link string) bool {
	if e.links == nil {
		return true
	}
	_, ok := slices.BinarySearch(e.links, link)
	return ok
}

func (e *entry) equal(o *entry) bool {
	return slices.Equal(e.owners, o.owners) && (e.links == nil) == (o.links == nil) && slices.Equal(e.links, o.links)
}

// A table is the immutable set of held addresses that the packet path reads.
type table struct {
	v4 map[[4]byte]*entry
	v6 map[[16]byte]*entry

	bounds4, bounds6 bounds

	covered        sync.Once
	cover4, cover6 []netip.Prefix
}

// A bounds is the lowest and the highest address of a family; invalid without any.
type bounds struct{ low, high netip.Addr }

func (b *bounds) extend(a netip.Addr) {
	if !b.low.IsValid() || a.Less(b.low) {
		b.low = a
	}
	if b.high.Less(a) {
		b.high = a
	}
}

// mayHold is false only if the address is not held. It spares most of the look-ups
// for what is not, which miss the caches of the CPU.
func (t *table) mayHold(a netip.Addr) bool {
	b := &t.bounds6
	if a.Is4() {
		b = &t.bounds4
	}
	return !a.Less(b.low) && !b.high.Less(a)
}

// prefixes returns what contains every address of a protocol, for its filter. It takes
// time the first time, and is not for the packet path.
func (t *table) prefixes(p Protocol) []netip.Prefix {
	t.covered.Do(func() {
		var v4, v6 []netip.Addr
		for e := range t.all {
			if e.addr.Is4() {
				v4 = append(v4, e.addr)
			} else {
				v6 = append(v6, e.addr)
			}
		}
		t.cover4, t.cover6 = cover(v4, maxPrefixes), cover(v6, maxPrefixes)
	})
	if p == ARP {
		return t.cover4
	}
	return t.cover6
}

func (t *table) lookup4(a [4]byte) *entry  { return t.v4[a] }
func (t *table) lookup6(a [16]byte) *entry { return t.v6[a] }

func (t *table) lookup(a netip.Addr) *entry {
	if a.Is4() {
		return t.v4[a.As4()]
	}
	return t.v6[a.As16()]
}

func (t *table) len() int { return len(t.v4) + len(t.v6) }

// all yields every entry, in no order.
func (t *table) all(yield func(*entry) bool) {
	for _, e := range t.v4 {
		if !yield(e) {
			return
		}
	}
	for _, e := range t.v6 {
		if !yield(e) {
			return
		}
	}
}

// arrivals yields the entries that are announced on link by t and were not by old.
func (t *table) arrivals(old *table, link string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for e := range t.all {
			prev := old.lookup(e.addr)
			if e.allows(link) && (prev == nil || !prev.allows(link)) && !yield(e) {
				return
			}
		}
	}
}

func (t *table) equal(o *table) bool {
	if len(t.v4) != len(o.v4) || len(t.v6) != len(o.v6) {
		return false
	}
	for e := range t.all {
		if p := o.lookup(e.addr); p == nil || !e.equal(p) {
			return false
		}
	}
	return true
}

// newTable builds the table of ads. Addresses that old holds keep their tenure.
// An address is held while at least one owner asks for it; it is announced on
// the union of their links.
func newTable(ads []Advertisement, old *table) (*table, error) {
	t := &table{v4: make(map[[4]byte]*entry), v6: make(map[[16]byte]*entry)}
	var errs []error
	for _, ad := range ads {
		addr, err := checkAddr(ad)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e := t.lookup(addr)
		if e == nil {
			e = &entry{addr: addr, links: []string{}}
			if prev := old.lookup(addr); prev != nil {
				e.tenure = prev.tenure
			} else {
				e.tenure = new(tenure)
			}
			t.put(e)
		}
		e.owners = append(e.owners, ad.Owner)
		switch {
		case len(ad.Links) == 0:
			e.links = nil
		case e.links != nil:
			e.links = append(e.links, ad.Links...)
		}
	}
	for e := range t.all {
		slices.Sort(e.owners)
		e.owners = slices.Compact(e.owners)
		slices.Sort(e.links)
		e.links = slices.Compact(e.links)
	}
	return t, errors.Join(errs...)
}

func (t *table) put(e *entry) {
	if e.addr.Is4() {
		t.v4[e.addr.As4()] = e
		t.bounds4.extend(e.addr)
	} else {
		t.v6[e.addr.As16()] = e
		t.bounds6.extend(e.addr)
	}
}

func checkAddr(ad Advertisement) (netip.Addr, error) {
	addr := ad.Addr.Unmap()
	var why string
	switch {
	case !addr.IsValid():
		why = "is not set"
	case addr.Zone() != "":
		why = "has a zone; name the link in Links instead"
	case addr.IsUnspecified(), addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		why = "is not a unicast address"
	case addr.IsLoopback():
		why = "is a loopback address"
	default:
		return addr, nil
	}
	return netip.Addr{}, fmt.Errorf("%w: %v of owner %q %s", ErrAddress, ad.Addr, ad.Owner, why)
}
