package allocator

import (
	"cmp"
	"fmt"
	"slices"
)

// Displaced is a holding that ended because the pools changed.
type Displaced struct {
	Assignment       // what was held, with the name of the old pool
	Why        error // wraps ErrNotInPool
}

// Renamed is a holding whose addresses stayed and are now in another pool.
type Renamed struct {
	Assignment        // as it is now
	From       string // the old pool
}

// Change is what a change of pools did to holders, each list in order of owner.
type Change struct {
	Displaced []Displaced
	Renamed   []Renamed
}

// SetPools replaces all pools and returns the holders that lost their
// addresses, in order of owner. ReplacePools is the same and tells more.
func (a *Allocator) SetPools(pools []Pool) (displaced []Displaced, err error) {
	if err := joinFaults(ValidatePools(pools)); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	displaced, _ = a.replace(pools)
	return displaced, nil
}

// ReplacePools replaces all pools. With an error, which joins one *PoolError
// for each fault, nothing changes.
//
// A holder whose addresses all are in one of the new pools keeps them, whatever
// the name of the pool (Renamed) and whether or not that would serve it anew.
// So does a holder under an opaque pool that remains, while its addresses are
// in no other. Everyone else is displaced: the holding is over.
func (a *Allocator) ReplacePools(pools []Pool) (Change, error) {
	if err := joinFaults(ValidatePools(pools)); err != nil {
		return Change{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	displaced, moved := a.replace(pools)
	slices.SortFunc(moved, func(x, y move) int { return cmp.Compare(x.h.owner, y.h.owner) })
	change := Change{Displaced: displaced}
	for _, m := range moved {
		change.Renamed = append(change.Renamed, Renamed{m.h.assignment(), m.from.Name})
	}
	return change, nil
}

// move is a holding that got from one pool to another.
type move struct {
	h    *holding
	from *pool
}

func (a *Allocator) replace(pools []Pool) (displaced []Displaced, moved []move) {
	t, fresh := newTable(pools, a.table)
	for _, h := range a.owners {
		p, err := t.successor(h, fresh)
		if err != nil {
			displaced = append(displaced, t.displace(h, err))
			continue
		}
		if p.Name != h.pool.Name {
			moved = append(moved, move{h, h.pool})
		}
		h.pool = p
	}
	slices.SortFunc(displaced, func(x, y Displaced) int { return cmp.Compare(x.Owner, y.Owner) })
	for _, d := range displaced {
		h := a.owners[d.Owner]
		for _, addr := range h.list() {
			a.vacate(addr, h)
		}
		delete(a.owners, d.Owner)
		a.log.Info("address lost by a change of pools", "owner", d.Owner, "addrs", d.Addrs, "pool", d.Pool, "why", d.Why)
	}
	a.table = t
	a.settle(fresh)
	a.log.Info("pools replaced", "pools", len(pools), "displaced", len(displaced), "renamed", len(moved))
	return displaced, moved
}

func (t *table) displace(h *holding, why error) Displaced {
	if t.byName[h.pool.Name] == nil {
		why = fmt.Errorf("pool %q was removed: %w", h.pool.Name, why)
	}
	return Displaced{h.assignment(), why}
}

// successor returns the pool under which h goes on.
func (t *table) successor(h *holding, fresh map[*pool]bool) (*pool, error) {
	same := t.byName[h.pool.Name]
	if same != nil && !same.Opaque && !fresh[same] {
		return same, nil
	}
	return t.home(h.list(), h.pool.Name)
}

// settle puts what is held into the fresh spaces, and shared addresses in the
// new order.
func (a *Allocator) settle(fresh map[*pool]bool) {
	taken := map[*pool]*[2][]u128{}
	for p := range fresh {
		taken[p] = new([2][]u128)
	}
	for f, family := range []Family{IPv4, IPv6} {
		for n, t := range a.held[f] {
			p, pos := t.pool(), n
			switch {
			case p.Opaque:
				p.opaqueUsed[f]++
			case fresh[p]:
				_, pos, _ = a.table.index.find(family, n)
				taken[p][f] = append(taken[p][f], pos)
			case t.slot != nil:
				pos = t.slot.pos
			}
			if t.slot != nil {
				t.slot.pool, t.slot.pos = p, pos
			}
		}
	}
	for p, positions := range taken {
		for f := range positions {
			p.spaces[f].refill(positions[f])
		}
	}
	for _, g := range a.groups {
		slices.SortFunc(g.slots, (*slot).cmp)
	}
}
