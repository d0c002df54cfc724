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
// addresses; ReplacePools tells more.
func (a *Allocator) SetPools(pools []Pool) (displaced []Displaced, err error) {
	change, err := a.ReplacePools(pools)
	return change.Displaced, err
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
	old := a.table
	t, fresh := newTable(pools, old)
	var change Change
	for _, h := range a.owners {
		p, err := t.successor(h, fresh)
		switch {
		case err != nil:
			gone := Displaced{h.assignment(), err}
			if t.byName[gone.Pool] == nil {
				gone.Why = fmt.Errorf("pool %q was removed: %w", gone.Pool, err)
			}
			change.Displaced = append(change.Displaced, gone)
		case p.Name != h.pool.Name:
			change.Renamed = append(change.Renamed, Renamed{Assignment{h.owner, p.Name, slices.Clone(h.list())}, h.pool.Name})
			h.pool = p
		default:
			h.pool = p
		}
	}
	for _, d := range change.Displaced {
		h := a.owners[d.Owner]
		for _, addr := range h.list() {
			a.vacate(addr, h)
		}
		delete(a.owners, d.Owner)
	}
	a.table = t
	a.settle(fresh)
	change.sort()
	a.report(change)
	return change, nil
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
			var p *pool
			if t.alone != nil {
				p = t.alone.pool
			} else {
				for h := range t.slot.members {
					p = h.pool
					break
				}
			}
			pos := n
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

func (c *Change) sort() {
	slices.SortFunc(c.Displaced, func(x, y Displaced) int { return cmp.Compare(x.Owner, y.Owner) })
	slices.SortFunc(c.Renamed, func(x, y Renamed) int { return cmp.Compare(x.Owner, y.Owner) })
}

func (a *Allocator) report(c Change) {
	for _, d := range c.Displaced {
		a.log.Info("address lost by a change of pools", "owner", d.Owner, "addrs", d.Addrs, "pool", d.Pool, "why", d.Why)
	}
	for _, r := range c.Renamed {
		a.log.Info("address is in another pool now", "owner", r.Owner, "addrs", r.Addrs, "pool", r.Pool, "from", r.From)
	}
}
