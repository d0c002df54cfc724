package allocator

import (
	"cmp"
	"net/netip"
	"slices"
)

// keptAddr is an address that waits for an owner.
type keptAddr struct {
	pool *pool
	addr netip.Addr
}

// reserve indexes the reservations of all pools.
func (t *table) reserve() {
	t.reservedTo = [2]map[u128][]Owner{{}, {}}
	t.reservedFor = map[Owner][]keptAddr{}
	for _, p := range t.ordered {
		for _, r := range p.Reserve {
			m, n := t.reservedTo[FamilyOf(r.Addr).index()], number(r.Addr)
			m[n] = append(m[n], r.Owner)
			t.reservedFor[r.Owner] = append(t.reservedFor[r.Owner], keptAddr{p, r.Addr})
		}
	}
}

func (t *table) reserved(f Family, n u128) bool { return len(t.reservedTo[f.index()][n]) > 0 }

// kept reports whether address n must not become free when nobody holds it.
func (a *Allocator) kept(f Family, n u128) bool {
	return a.table.reserved(f, n) || a.resting[f.index()][n] != nil
}

// barred tells why the owner of the request may not get addr, apart from who
// holds it: it is kept for somebody else. Nil if it may. It is not about an
// address that the owner holds already.
func (a *Allocator) barred(addr netip.Addr, w *wish) *ConflictError {
	f, n := FamilyOf(addr).index(), number(addr)
	if owners := a.table.reservedTo[f][n]; len(owners) > 0 && !slices.Contains(owners, w.req.Owner) {
		return &ConflictError{Addr: addr, Holder: owners[0], Reason: ReasonReserved}
	}
	if r := a.resting[f][n]; r != nil && r.owner != w.req.Owner {
		return &ConflictError{Addr: addr, Holder: r.owner, Reason: ReasonQuarantine, Until: r.until}
	}
	return nil
}

// recallReserved looks for a place among the addresses that are reserved for
// the owner, which holds nothing.
func (a *Allocator) recallReserved(w *wish, within *pool) (placement, bool) {
	mine := a.table.reservedFor[w.req.Owner]
	if len(mine) == 0 {
		return placement{}, false
	}
	return a.recall(w, mine, func(p *pool) bool {
		return !p.closed() && (within == nil || p == within) && p.serves(w)
	})
}

// recallResting does the same among those that rest since the owner let them
// go, the last one first.
func (a *Allocator) recallResting(w *wish, within *pool) (placement, bool) {
	rests := a.restsOf[w.req.Owner]
	if len(rests) == 0 {
		return placement{}, false
	}
	var mine []keptAddr
	for _, r := range slices.Backward(rests) {
		p, _, _ := a.table.index.find(r.family, r.n)
		mine = append(mine, keptAddr{p, address(r.family, r.n)})
	}
	return a.recall(w, mine, func(p *pool) bool {
		return !p.closed() && (within == nil || p == within) && p.serves(w) && p.givesTo(w)
	})
}

// recall places the request on addresses that are kept for its owner: in the
// order in which the pools appear in mine, both families first, then one with a
// fresh one, then (Partial) one alone.
func (a *Allocator) recall(w *wish, mine []keptAddr, may func(*pool) bool) (placement, bool) {
	var pr pairing
	var seen []*pool
	for _, k := range mine {
		if slices.Contains(seen, k.pool) {
			continue
		}
		seen = append(seen, k.pool)
		if !may(k.pool) {
			continue
		}
		if pl, ok := pr.offer(a, w, k.pool, a.usable(w, k.pool, mine)); ok {
			return pl, true
		}
	}
	return pr.best(w)
}

// usable returns the first of mine in p that the request can have now, by
// family; one of them alone when the namespace may not have both.
func (a *Allocator) usable(w *wish, p *pool, mine []keptAddr) (have [2]netip.Addr) {
	room := w.roomIn(p)
	for _, k := range mine {
		f := FamilyOf(k.addr)
		if k.pool == p && w.wants(f) && !have[f.index()].IsValid() && a.cost(w, k.addr) <= room &&
			a.conflict(k.addr, w, nil) == nil && a.barred(k.addr, w) == nil {
			have[f.index()] = k.addr
		}
	}
	if have[0].IsValid() && have[1].IsValid() && a.cost(w, have[0])+a.cost(w, have[1]) > room {
		have[w.families[1].index()] = netip.Addr{}
	}
	return have
}

// pairing compares what pools offer to a request of which some addresses are
// at hand, be it that a group holds them or that they are kept for the owner.
type pairing struct {
	mixed  placement // the first with one at hand and a fresh one
	single placement // the first with one at hand
}

// offer takes the addresses at hand in p, by family, the zero one for none. It
// returns true for a placement that serves the request in full.
func (pr *pairing) offer(a *Allocator, w *wish, p *pool, have [2]netip.Addr) (placement, bool) {
	if w.n == 1 {
		addr := have[w.families[0].index()]
		return placementOf(p, addr), addr.IsValid()
	}
	room := w.roomIn(p)
	if have[0].IsValid() && have[1].IsValid() {
		return placementOf(p, have[0], have[1]), a.cost(w, have[0])+a.cost(w, have[1]) <= room
	}
	joined := have[0]
	if !joined.IsValid() {
		joined = have[1]
	}
	if !joined.IsValid() {
		return placement{}, false
	}
	missing := FamilyOf(joined).other()
	if pr.mixed.pool == nil && p.givesTo(w) && p.offers(missing) && a.cost(w, joined)+1 <= room {
		pr.mixed = placementOf(p, inOrder(joined, p.next(missing, w.req.Owner))...)
	}
	if pr.single.pool == nil {
		pr.single = placementOf(p, joined)
	}
	return placement{}, false
}

// best returns what is left when no pool served the request in full.
func (pr *pairing) best(w *wish) (placement, bool) {
	if pr.mixed.pool != nil {
		return pr.mixed, true
	}
	return pr.single, w.req.Partial && pr.single.pool != nil
}

// without returns ranges less exclude, in order.
func without(ranges, exclude []Range) []Range {
	if len(exclude) == 0 {
		return ranges
	}
	// netip orders IPv4 before IPv6, so one list serves both families.
	exclude = slices.SortedFunc(slices.Values(exclude), func(x, y Range) int {
		return cmp.Or(x.From.Compare(y.From), x.To.Compare(y.To))
	})
	var parts []Range
	for _, r := range ranges {
		parts = append(parts, r.without(exclude)...)
	}
	return parts
}

func (r Range) without(exclude []Range) []Range {
	var parts []Range
	for _, x := range exclude {
		if x.To.Less(r.From) || r.To.Less(x.From) {
			continue
		}
		if r.From.Less(x.From) {
			parts = append(parts, Range{r.From, x.From.Prev()})
		}
		if !x.To.Less(r.To) {
			return parts
		}
		r.From = x.To.Next()
	}
	return append(parts, r)
}
