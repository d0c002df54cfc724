package allocator

import (
	"net/netip"
	"slices"
)

// commit makes the owner of w hold what was planned.
func (a *Allocator) commit(w *wish, cur *holding, pl placement) *holding {
	if cur != nil {
		if cur.pool == pl.pool && cur.addrs == pl.addrs && w.unchanged(cur) {
			return cur
		}
		a.remove(cur)
	}
	h := &holding{owner: w.req.Owner, namespace: w.req.Namespace, pool: pl.pool, addrs: pl.addrs}
	if w.req.SharingKey != "" {
		h.ports = w.ports
		h.group = a.groupOf(groupKey{w.req.SharingKey, w.req.BackendKey})
	}
	a.add(h)
	if cur != nil {
		a.retire(cur)
	}
	if len(a.debts) > 0 {
		a.forgive(h)
	}
	return h
}

// retire sees to the addresses of a holding that is over: those that nobody
// holds rest, or are owed to their source.
func (a *Allocator) retire(h *holding) {
	if h.pool.Quarantine == 0 && h.pool.Source == nil {
		return
	}
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

// restore undoes the removal of h.
func (a *Allocator) restore(h *holding) {
	if h.group != nil {
		h.group = a.groupOf(h.group.groupKey)
	}
	a.add(h)
}

func (a *Allocator) add(h *holding) {
	a.owners[h.owner] = h
	for _, addr := range h.list() {
		a.occupy(addr, h)
	}
}

// unchanged reports that namespace, keys and ports are those of the holding.
func (w *wish) unchanged(h *holding) bool {
	if h.namespace != w.req.Namespace {
		return false
	}
	if h.group == nil {
		return w.req.SharingKey == ""
	}
	return h.group.groupKey == groupKey{w.req.SharingKey, w.req.BackendKey} && slices.Equal(h.ports, w.ports)
}

func (a *Allocator) groupOf(key groupKey) *group {
	g := a.groups[key]
	if g == nil {
		g = &group{groupKey: key, busy: map[familyPort]int{}}
		a.groups[key] = g
	}
	return g
}

// occupy makes h a holder of addr, which nobody may object to.
func (a *Allocator) occupy(addr netip.Addr, h *holding) {
	f, n := FamilyOf(addr), number(addr)
	t, taken := a.held[f.index()][n]
	if !taken {
		pos, stray := a.mark(h.pool, f, n)
		if h.group == nil {
			t = tenant{alone: h}
		} else {
			t = tenant{slot: newSlot(h, addr, pos, stray)}
			h.group.add(t.slot)
		}
		h.stray = h.stray || stray
		a.held[f.index()][n] = t
	}
	if t.slot != nil {
		h.stray = h.stray || t.slot.stray
		t.slot.join(h)
	}
	if t.slot == nil || t.slot.namespaces[h.namespace] == 1 {
		a.tally(h, 1)
	}
}

// mark takes address n out of the free ones and returns its position: its own
// number for a stray, which the pool does not contain.
func (a *Allocator) mark(p *pool, f Family, n u128) (pos u128, stray bool) {
	if len(a.queue) > 0 {
		if r := a.resting[f.index()][n]; r != nil {
			a.wake(r) // the address is kept in its space until it is taken below
		}
	}
	in, pos, usable := a.table.index.find(f, n)
	if in != p || !usable {
		p.strays[f.index()]++
		return n, true
	}
	p.spaces[f.index()].take(pos)
	return pos, false
}

// unmark is the inverse of mark.
func (a *Allocator) unmark(p *pool, f Family, n u128) {
	in, pos, usable := a.table.index.find(f, n)
	if in != p || !usable {
		p.strays[f.index()]--
		return
	}
	p.spaces[f.index()].give(pos)
	if len(a.table.reservedTo[f.index()]) > 0 && a.table.reserved(f, n) {
		p.spaces[f.index()].keep(pos)
	}
}

// remove ends a holding and frees what nobody else holds.
func (a *Allocator) remove(h *holding) {
	for _, addr := range h.list() {
		if a.vacate(addr, h) {
			a.unmark(h.pool, FamilyOf(addr), number(addr))
		}
	}
	delete(a.owners, h.owner)
}

// vacate ends the tenancy of h and reports whether addr is left without a
// holder. A group is forgotten with its last address.
func (a *Allocator) vacate(addr netip.Addr, h *holding) bool {
	f, n := FamilyOf(addr).index(), number(addr)
	if s := a.held[f][n].slot; s != nil {
		s.leave(h)
		if s.namespaces[h.namespace] == 0 {
			a.tally(h, -1)
		}
		if len(s.members) > 0 {
			return false
		}
		s.group.drop(s)
		if len(s.group.slots) == 0 {
			delete(a.groups, s.group.groupKey)
		}
	} else {
		a.tally(h, -1)
	}
	delete(a.held[f], n)
	return true
}
