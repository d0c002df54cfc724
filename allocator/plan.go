package allocator

import (
	"fmt"
	"net/netip"
	"slices"
)

// placement is where a request can be served: what Assign is going to do.
type placement struct {
	pool  *pool
	addrs [2]netip.Addr // as in holding
}

// unasked reports that the addresses have to come from the pool's source.
func (pl placement) unasked() bool { return !pl.addrs[0].IsValid() }

func placementOf(p *pool, addrs ...netip.Addr) placement {
	pl := placement{pool: p}
	copy(pl.addrs[:], addrs)
	return pl
}

// plan decides about a request of an owner that holds cur (nil for nothing).
// In the end nothing is changed.
func (a *Allocator) plan(w *wish, cur *holding) (placement, error) {
	w.room = a.room(w.req.Namespace)
	if len(w.req.Addresses) > 0 {
		return a.planExplicit(w, cur)
	}
	if cur != nil {
		if pl, ok := a.planKeep(w, cur); ok {
			return pl, nil
		}
		// It moves, and may move to what it holds itself.
		a.remove(cur)
		defer a.restore(cur)
		w.room = a.room(w.req.Namespace)
	}
	if w.req.Pool != "" {
		return a.planNamed(w)
	}
	if pl, ok := a.known(w, nil); ok {
		return pl, nil
	}
	if pl, ok := choose(w, a.table.scoped(w.req.Namespace)); ok {
		return pl, nil
	}
	if pl, ok := choose(w, a.table.open); ok {
		return pl, nil
	}
	return placement{}, a.unmet(w)
}

// known looks for addresses that are not free and that the owner, which holds
// nothing, can have nevertheless.
func (a *Allocator) known(w *wish, within *pool) (placement, bool) {
	if pl, ok := a.recallReserved(w, within); ok {
		return pl, true
	}
	if w.req.SharingKey != "" {
		if pl, ok := a.join(w, within); ok {
			return pl, true
		}
	}
	return a.recallResting(w, within)
}

// planExplicit serves a request that names its addresses.
func (a *Allocator) planExplicit(w *wish, cur *holding) (placement, error) {
	addrs := w.req.Addresses
	if cur != nil && sameAddrs(addrs, cur.list()) {
		// Kept, even by an owner that the pool would not serve anew.
		if w.req.Pool != "" && w.req.Pool != cur.pool.Name {
			return placement{}, notInNamed(addrs, w.req.Pool, cur.pool)
		}
		return a.unopposed(w, cur, placement{cur.pool, cur.addrs})
	}
	if p := a.table.byName[w.req.Pool]; p != nil && p.Source != nil {
		return a.planSource(w, p)
	}
	p, err := a.table.containing(addrs)
	if err != nil {
		return placement{}, err
	}
	if w.req.Pool != "" && w.req.Pool != p.Name {
		return placement{}, notInNamed(addrs, w.req.Pool, p)
	}
	if !p.serves(w) {
		return placement{}, scopeError(p, w)
	}
	if p.Drain {
		return placement{}, drainError(p)
	}
	pl, err := a.unopposed(w, cur, placementOf(p, addrs...))
	if err != nil {
		return placement{}, err
	}
	for _, addr := range addrs {
		if cur != nil && slices.Contains(cur.list(), addr) {
			continue
		}
		if err := a.barred(addr, w); err != nil {
			return placement{}, err
		}
	}
	return pl, a.withinLimit(w, cur, pl)
}

// planSource sends a request that names p to its source.
func (a *Allocator) planSource(w *wish, p *pool) (placement, error) {
	switch {
	case !p.serves(w):
		return placement{}, scopeError(p, w)
	case p.Drain:
		return placement{}, drainError(p)
	case !w.fits(p):
		return placement{}, a.limitError(w, p)
	}
	return placement{pool: p}, w.refusal(p)
}

func (a *Allocator) unopposed(w *wish, cur *holding, pl placement) (placement, error) {
	for _, addr := range pl.addrs {
		if !addr.IsValid() {
			continue
		}
		if err := a.conflict(addr, w, cur); err != nil {
			return placement{}, err
		}
	}
	return pl, nil
}

func sameAddrs(x, y []netip.Addr) bool {
	if len(x) != len(y) {
		return false
	}
	for _, addr := range x {
		if !slices.Contains(y, addr) {
			return false
		}
	}
	return true
}

// containing returns the one pool that contains all of addrs.
func (t *table) containing(addrs []netip.Addr) (*pool, error) {
	var found *pool
	for i, addr := range addrs {
		p, _, usable := t.index.find(FamilyOf(addr), number(addr))
		switch {
		case p == nil:
			if by := t.excluding(addr); by != nil {
				return nil, fmt.Errorf("%w: pool %q excludes %s", ErrNotInPool, by.Name, addr)
			}
			return nil, fmt.Errorf("%w: no pool contains %s", ErrNotInPool, addr)
		case !usable:
			return nil, fmt.Errorf("%w: pool %q leaves out %s, because it avoids addresses that end in .0 and .255",
				ErrNotInPool, p.Name, addr)
		case i > 0 && p != found:
			return nil, fmt.Errorf("%w: no single pool contains %s (pool %q) and %s (pool %q)",
				ErrNotInPool, addrs[0], found.Name, addr, p.Name)
		}
		found = p
	}
	return found, nil
}

// excluding returns the pool that would contain addr if it did not exclude it.
func (t *table) excluding(addr netip.Addr) *pool {
	contains := func(r Range) bool { return r.Contains(addr) }
	for _, p := range t.ordered {
		if slices.ContainsFunc(p.Exclude, contains) && slices.ContainsFunc(p.Ranges, contains) {
			return p
		}
	}
	return nil
}

func drainError(p *pool) error {
	return fmt.Errorf("%w: %q keeps those who hold an address and gives nothing new", ErrDrained, p.Name)
}

func notInNamed(addrs []netip.Addr, named string, p *pool) error {
	return fmt.Errorf("%w: %s is in pool %q, not in pool %q as requested", ErrNotInPool, addrs[0], p.Name, named)
}

func scopeError(p *pool, w *wish) error {
	return fmt.Errorf("%w: pool %q does not serve %s", ErrScope, p.Name, w.whom())
}

// whom describes the requester as scopes see it.
func (w *wish) whom() string {
	return fmt.Sprintf("namespace %q with labels %v", w.req.Namespace, w.req.Labels)
}

// planKeep serves a request without explicit addresses from what its owner
// holds: unchanged, completed by a missing family, or without the address of a
// family that is no longer wanted.
func (a *Allocator) planKeep(w *wish, cur *holding) (placement, bool) {
	if w.req.Pool != "" && w.req.Pool != cur.pool.Name {
		return placement{}, false
	}
	pl := placement{pool: cur.pool}
	n := 0
	for _, addr := range cur.list() {
		if w.wants(FamilyOf(addr)) {
			pl.addrs[n] = addr
			n++
		}
	}
	if n == 0 {
		return placement{}, false
	}
	if _, err := a.unopposed(w, cur, pl); err != nil {
		return placement{}, false
	}
	if n == w.n {
		return pl, true
	}
	if second, ok := a.second(w, cur, pl.addrs[0]); ok {
		pl.addrs[1] = second
		return pl, true
	}
	return pl, w.req.Partial
}

// second finds an address of the other family for an owner that keeps first:
// one that an owner who shares first has, else a free one of the same pool.
func (a *Allocator) second(w *wish, cur *holding, first netip.Addr) (netip.Addr, bool) {
	p, f := cur.pool, FamilyOf(first).other()
	if p.closed() || !p.serves(w) {
		return netip.Addr{}, false
	}
	if addr, ok := a.keptSecond(w, p, f); ok {
		return addr, true
	}
	if s := a.partnerSlot(w, cur, first); s != nil {
		return s.addr, true
	}
	if !p.offers(f) || !p.givesTo(w) || w.roomIn(p) < 1 {
		return netip.Addr{}, false
	}
	return p.next(f, w.req.Owner), true
}

// keptSecond returns an address of p that is reserved for the owner and that
// it can have now.
func (a *Allocator) keptSecond(w *wish, p *pool, f Family) (netip.Addr, bool) {
	for _, k := range a.table.reservedFor[w.req.Owner] {
		if k.pool == p && FamilyOf(k.addr) == f && a.conflict(k.addr, w, nil) == nil &&
			a.barred(k.addr, w) == nil && a.cost(w, k.addr) <= w.roomIn(p) {
			return k.addr, true
		}
	}
	return netip.Addr{}, false
}

// planNamed serves a request that names its pool.
func (a *Allocator) planNamed(w *wish) (placement, error) {
	p := a.table.byName[w.req.Pool]
	switch {
	case p == nil:
		return placement{}, fmt.Errorf("%w: %q does not exist", ErrNoPool, w.req.Pool)
	case !p.serves(w):
		return placement{}, scopeError(p, w)
	case p.Opaque:
		return placement{}, fmt.Errorf("%w: %q gives no new address until it is corrected", ErrOpaque, p.Name)
	case p.Drain:
		return placement{}, drainError(p)
	case p.Source != nil:
		return a.planSource(w, p)
	}
	if pl, ok := a.known(w, p); ok {
		return pl, nil
	}
	if pl, ok := choose(w, []*pool{p}); ok {
		return pl, nil
	}
	return placement{}, a.unmet(w)
}

// choose takes the first pool that selects the labels and offers all wanted
// families or, if one of them is acceptable, the first that offers the preferred
// one, or else the first that offers the other. A pool with a source offers
// whatever it is asked for, until it has refused.
func choose(w *wish, pools []*pool) (placement, bool) {
	var fallback [2]*pool // by preference
	for _, p := range pools {
		if p.Source != nil {
			if w.refused[p.Name] == nil && p.selects(w.req.Labels) && w.fits(p) {
				return placement{pool: p}, true
			}
			continue
		}
		first := p.offers(w.families[0])
		second := w.n == 2 && p.offers(w.families[1])
		if !first && !second || !p.selects(w.req.Labels) {
			continue
		}
		room := w.roomIn(p)
		if room < 1 {
			continue
		}
		if w.n == 1 {
			return placementOf(p, p.next(w.families[0], w.req.Owner)), true
		}
		if first && second && room > 1 {
			return placementOf(p, p.next(IPv4, w.req.Owner), p.next(IPv6, w.req.Owner)), true
		}
		if first && fallback[0] == nil {
			fallback[0] = p
		}
		if second && fallback[1] == nil {
			fallback[1] = p
		}
	}
	for i, p := range fallback {
		if p != nil && w.partial() {
			return placementOf(p, p.next(w.families[i], w.req.Owner)), true
		}
	}
	return placement{}, false
}

// fits reports that the limits let the request have what it would accept of
// fresh addresses of p.
func (w *wish) fits(p *pool) bool {
	room := w.roomIn(p)
	return room >= w.n || room > 0 && w.partial()
}
