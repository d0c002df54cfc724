package allocator

import (
	"cmp"
	"fmt"
	"net/netip"
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
// So does a holder under a pool that is opaque, has a Source or keeps displaced
// holders (PolicyKeep), while its addresses are in no other. Everyone else is
// displaced: the holding is over.
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
	t.ghosts = map[string]*pool{}
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
	a.table = t
	lost := make([]*holding, len(displaced))
	for i, d := range displaced {
		lost[i] = a.owners[d.Owner]
		a.lose(lost[i], fresh)
		a.log.Info("address lost by a change of pools", "owner", d.Owner, "addrs", d.Addrs, "pool", d.Pool, "why", d.Why)
	}
	a.settle(fresh)
	a.resettle(fresh)
	for _, h := range lost {
		a.retireLost(h)
	}
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
	name := h.pool.Name
	same := t.byName[name]
	if same != nil && !fresh[same] && !h.stray {
		return same, nil
	}
	p, err := t.containing(h.list())
	if h.stray = err != nil; !h.stray {
		return p, nil
	}
	if p := t.trusting(h.list(), name); p != nil {
		return p, nil
	}
	if same != nil || h.pool.Displaced != PolicyKeep || t.elsewhere(h.list(), nil) {
		return nil, err
	}
	ghost := t.ghosts[name]
	if ghost == nil {
		ghost = newPool(Pool{Name: name, Opaque: true, Displaced: PolicyKeep})
		ghost.Source = h.pool.Source
		ghost.rank = len(t.ordered) + len(t.ghosts)
		t.ghosts[name] = ghost
	}
	return ghost, nil
}

// lose ends a holding that the new pools have no place for, while the fresh
// spaces are not in use yet.
func (a *Allocator) lose(h *holding, fresh map[*pool]bool) {
	delete(a.owners, h.owner)
	for _, addr := range h.list() {
		if !a.vacate(addr, h) {
			continue
		}
		f, n := FamilyOf(addr), number(addr)
		if p, pos, usable := a.table.index.find(f, n); p != nil && usable && !fresh[p] && p.Name == h.pool.Name {
			p.spaces[f.index()].give(pos)
			if a.table.reserved(f, n) {
				p.spaces[f.index()].keep(pos)
			}
		}
	}
}

// retireLost is retire for a holding that ended with the pools of before: one of
// its addresses may still be in a pool.
func (a *Allocator) retireLost(h *holding) {
	for _, addr := range h.list() {
		switch _, held := a.held[FamilyOf(addr).index()][number(addr)]; {
		case held:
		case h.pool.Source != nil:
			a.owe(h.pool, h.owner, []netip.Addr{addr})
		default:
			a.rest(h.owner, addr)
		}
	}
}

// settle puts what is held into the fresh spaces, counts what is limited, and
// puts shared addresses in the new order.
func (a *Allocator) settle(fresh map[*pool]bool) {
	taken := map[*pool]*[2][]u128{}
	for p := range fresh {
		taken[p] = new([2][]u128)
	}
	for f, family := range []Family{IPv4, IPv6} {
		for n, t := range a.held[f] {
			h := t.any()
			p := h.pool
			if fresh[p] || h.stray {
				in, pos, usable := a.table.index.find(family, n)
				stray := in != p || !usable
				if stray {
					p.strays[f]++
					pos = n
				} else if fresh[p] {
					taken[p][f] = append(taken[p][f], pos)
				}
				if t.slot != nil {
					t.slot.pos, t.slot.stray = pos, stray
				}
			}
			if t.slot != nil {
				t.slot.pool = p
			}
			if p.tallies != nil {
				for ns := range t.namespaces() {
					p.tallies[ns]++
				}
			}
		}
	}
	for p, positions := range taken {
		for f := range positions {
			p.spaces[f].refill(positions[f])
		}
		a.withhold(p)
	}
	for _, g := range a.groups {
		slices.SortFunc(g.slots, (*slot).cmp)
	}
}

// withhold keeps the reserved addresses of p that nobody holds.
func (a *Allocator) withhold(p *pool) {
	for _, r := range p.Reserve {
		f := FamilyOf(r.Addr)
		_, pos, _ := a.table.index.find(f, number(r.Addr))
		if s := &p.spaces[f.index()]; s.free.has(pos) { // and not held, nor reserved for another as well
			s.keep(pos)
		}
	}
}
