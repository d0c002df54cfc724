package allocator

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
)

// holding is what one owner holds. It is replaced, never changed, except that
// SetPools may put it under another pool.
type holding struct {
	owner Owner
	pool  *pool
	addrs [2]netip.Addr // the second is zero when there is one only
	group *group        // nil without a sharing key
	ports []Port        // nil without a sharing key
}

func (h *holding) list() []netip.Addr {
	if h.addrs[1].IsValid() {
		return h.addrs[:]
	}
	return h.addrs[:1]
}

func (h *holding) assignment() Assignment {
	return Assignment{Owner: h.owner, Pool: h.pool.Name, Addrs: slices.Clone(h.list())}
}

// tenant is who holds an address: an owner without a sharing key, or members
// of a group.
type tenant struct {
	alone *holding
	slot  *slot
}

// pool returns the pool of the holders, which is one.
func (t tenant) pool() *pool {
	if t.alone != nil {
		return t.alone.pool
	}
	for h := range t.slot.members {
		return h.pool
	}
	return nil
}

// slot is an address that is open to the members of a group.
type slot struct {
	group   *group
	pool    *pool
	family  Family
	addr    netip.Addr
	pos     u128 // in the pool; the number of the address when that is opaque
	members map[*holding]struct{}
	ports   map[Port]*holding
}

// cmp orders slots as addresses are chosen.
func (s *slot) cmp(o *slot) int {
	return cmp.Or(cmp.Compare(s.pool.rank, o.pool.rank), cmp.Compare(s.family, o.family), s.pos.cmp(o.pos))
}

// first returns the first member by name other than self, nil if there is none.
func (s *slot) first(self *holding) *holding {
	var first *holding
	for h := range s.members {
		if h != self && (first == nil || h.owner < first.owner) {
			first = h
		}
	}
	return first
}

func (s *slot) onlyHas(self *holding) bool {
	_, in := s.members[self]
	return in && len(s.members) == 1
}

type groupKey struct{ sharing, backend string }

// group is all addresses that are held under one sharing and backend key.
type group struct {
	groupKey
	slots []*slot // ordered by slot.cmp
	count [2]int  // slots by family
	// busy counts by family and port the slots on which the port is taken. It
	// spares the search when a port is taken on all of them.
	busy map[familyPort]int
}

type familyPort struct {
	family Family
	port   Port
}

func (g *group) add(s *slot) {
	i, _ := slices.BinarySearchFunc(g.slots, s, (*slot).cmp)
	g.slots = slices.Insert(g.slots, i, s)
	g.count[s.family.index()]++
}

func (g *group) drop(s *slot) {
	i, _ := slices.BinarySearchFunc(g.slots, s, (*slot).cmp)
	g.slots = slices.Delete(g.slots, i, i+1)
	g.count[s.family.index()]--
}

// join makes h a member of s; its ports must be free there.
func (s *slot) join(h *holding) {
	s.members[h] = struct{}{}
	for _, p := range h.ports {
		if s.ports[p] == nil {
			s.ports[p] = h
			s.group.busy[familyPort{s.family, p}]++
		}
	}
}

func (s *slot) leave(h *holding) {
	delete(s.members, h)
	for _, p := range h.ports {
		if s.ports[p] == h {
			delete(s.ports, p)
			key := familyPort{s.family, p}
			if s.group.busy[key]--; s.group.busy[key] == 0 {
				delete(s.group.busy, key)
			}
		}
	}
}

// conflict tells why the request of w may not have addr; nil if it may. What
// self holds does not stand in its way.
func (a *Allocator) conflict(addr netip.Addr, w *wish, self *holding) *ConflictError {
	t := a.held[FamilyOf(addr).index()][number(addr)]
	if t.slot != nil {
		return t.slot.conflict(w, self)
	}
	if t.alone == nil || t.alone == self {
		return nil
	}
	reason := ReasonBusy
	if w.req.SharingKey != "" {
		reason = ReasonHolderAlone
	}
	return &ConflictError{Addr: addr, Holder: t.alone.owner, Reason: reason}
}

func (s *slot) conflict(w *wish, self *holding) *ConflictError {
	if s.onlyHas(self) {
		return nil
	}
	refuse := func(reason Reason) *ConflictError {
		return &ConflictError{Addr: s.addr, Holder: s.first(self).owner, Reason: reason, Key: s.group.sharing}
	}
	switch {
	case w.req.SharingKey == "":
		return refuse(ReasonGroup)
	case w.req.SharingKey != s.group.sharing:
		return refuse(ReasonSharingKey)
	case w.req.BackendKey != s.group.backend:
		return refuse(ReasonBackendKey)
	}
	for _, p := range w.ports {
		if h := s.ports[p]; h != nil && h != self {
			return &ConflictError{Addr: s.addr, Holder: h.owner, Port: p, Reason: ReasonPort, Key: s.group.sharing}
		}
	}
	return nil
}

// admits is conflict without the explanation, for a new member of the group.
func (s *slot) admits(w *wish) bool {
	return !slices.ContainsFunc(w.ports, func(p Port) bool { return s.ports[p] != nil })
}

// join looks for a place among the addresses that the group of the request
// holds already: for two families first where both can be joined, then where
// one can be joined and the pool gives a fresh one for the family that the
// group does not have there, then (Partial) where one can be joined. within
// restricts the search to one pool if it is not nil. The owner of the request
// holds none of the addresses in question.
func (a *Allocator) join(w *wish, within *pool) (placement, bool) {
	g := a.groups[groupKey{w.req.SharingKey, w.req.BackendKey}]
	if g == nil || w.hopeless(g) {
		return placement{}, false
	}
	var mixed, single placement
	for i := 0; i < len(g.slots); {
		p := g.slots[i].pool
		end := i + sort.Search(len(g.slots)-i, func(k int) bool { return g.slots[i+k].pool != p })
		slots := g.slots[i:end]
		i = end
		if p.Opaque || within != nil && p != within || !p.serves(w) {
			continue
		}
		free, present := w.joinable(slots)
		if w.n == 1 {
			if s := free[w.families[0].index()]; s != nil {
				return placementOf(p, s.addr), true
			}
			continue
		}
		switch {
		case free[0] != nil && free[1] != nil:
			return placementOf(p, free[0].addr, free[1].addr), true
		case present[0] && present[1]:
			// Both or neither of an address pair.
		default:
			joined := cmp.Or(free[0], free[1])
			if joined == nil {
				continue
			}
			if mixed.pool == nil && p.givesTo(w) && p.offers(joined.family.other()) {
				mixed = placementOf(p, inOrder(joined.addr, p.lowest(joined.family.other()))...)
			}
			if single.pool == nil {
				single = placementOf(p, joined.addr)
			}
		}
	}
	if mixed.pool != nil {
		return mixed, true
	}
	return single, w.req.Partial && single.pool != nil
}

// joinable returns the first slot of each wanted family that admits the
// request, and the families of which there is any slot.
func (w *wish) joinable(slots []*slot) (free [2]*slot, present [2]bool) {
	for _, s := range slots {
		f := s.family.index()
		present[f] = true
		if free[f] == nil && w.wants(s.family) && s.admits(w) {
			free[f] = s
		}
	}
	return free, present
}

// hopeless reports that, in every wanted family, some wanted port is taken on
// all addresses of the group.
func (w *wish) hopeless(g *group) bool {
	for _, f := range w.families[:w.n] {
		full := slices.ContainsFunc(w.ports, func(p Port) bool {
			return g.busy[familyPort{f, p}] == g.count[f.index()]
		})
		if !full {
			return false
		}
	}
	return true
}

// partnerSlot returns the first address of the other family that is held by
// those who share first with cur and that admits the request, nil if none.
func (a *Allocator) partnerSlot(w *wish, cur *holding, first netip.Addr) *slot {
	shared := a.held[FamilyOf(first).index()][number(first)].slot
	if shared == nil {
		return nil
	}
	f := FamilyOf(first).other()
	var best *slot
	for h := range shared.members {
		for _, addr := range h.list() {
			if h == cur || FamilyOf(addr) != f {
				continue
			}
			s := a.held[f.index()][number(addr)].slot
			if (best == nil || s.cmp(best) < 0) && s.admits(w) {
				best = s
			}
		}
	}
	return best
}

// inOrder puts IPv4 before IPv6.
func inOrder(x, y netip.Addr) []netip.Addr {
	if FamilyOf(x) > FamilyOf(y) {
		return []netip.Addr{y, x}
	}
	return []netip.Addr{x, y}
}
