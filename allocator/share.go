package allocator

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sort"
)

// holding is what one owner holds. It is replaced, never changed, except that
// SetPools may put it under another pool.
type holding struct {
	owner     Owner
	namespace string
	pool      *pool
	addrs     [2]netip.Addr // the second is zero when there is one only
	group     *group        // nil without a sharing key
	ports     []Port        // nil without a sharing key
	stray     bool          // the pool does not contain all of addrs
}

func (h *holding) list() []netip.Addr {
	if h.addrs[1].IsValid() {
		return h.addrs[:]
	}
	return h.addrs[:1]
}

// hasAll reports that the placement has no address that h does not hold.
func (h *holding) hasAll(pl placement) bool {
	return slices.Contains(h.list(), pl.addrs[0]) && (!pl.addrs[1].IsValid() || slices.Contains(h.list(), pl.addrs[1]))
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

// any returns one of the holders.
func (t tenant) any() *holding {
	if t.alone != nil {
		return t.alone
	}
	for h := range t.slot.members {
		return h
	}
	return nil
}

// firstOther names the first holder other than self.
func (t tenant) firstOther(self *holding) Owner {
	if t.alone != nil {
		return t.alone.owner
	}
	return t.slot.first(self).owner
}

// namespaces yields those of the holders, each once.
func (t tenant) namespaces() iter.Seq[string] {
	if t.slot != nil {
		return maps.Keys(t.slot.namespaces)
	}
	return func(yield func(string) bool) { yield(t.alone.namespace) }
}

// slot is an address that is open to the members of a group.
type slot struct {
	group   *group
	pool    *pool
	family  Family
	addr    netip.Addr
	pos     u128 // in the pool; of a stray, its number
	stray   bool // the pool does not contain the address: nobody can join
	members map[*holding]struct{}
	ports   map[Port]*holding
	// namespaces counts the members.
	namespaces map[string]int
}

func newSlot(h *holding, addr netip.Addr, pos u128, stray bool) *slot {
	return &slot{
		group: h.group, pool: h.pool, family: FamilyOf(addr), addr: addr, pos: pos, stray: stray,
		members: map[*holding]struct{}{}, ports: map[Port]*holding{}, namespaces: map[string]int{},
	}
}

// cmp orders slots as addresses are chosen.
func (s *slot) cmp(o *slot) int {
	strays := func(s *slot) int {
		if s.stray {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(s.pool.rank, o.pool.rank), cmp.Compare(s.family, o.family),
		cmp.Compare(strays(s), strays(o)), s.pos.cmp(o.pos))
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
	s.namespaces[h.namespace]++
	for _, p := range h.ports {
		if s.ports[p] == nil {
			s.ports[p] = h
			s.group.busy[familyPort{s.family, p}]++
		}
	}
}

func (s *slot) leave(h *holding) {
	delete(s.members, h)
	if s.namespaces[h.namespace]--; s.namespaces[h.namespace] == 0 {
		delete(s.namespaces, h.namespace)
	}
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
	var pr pairing
	for i := 0; i < len(g.slots); {
		p := g.slots[i].pool
		end := i + sort.Search(len(g.slots)-i, func(k int) bool { return g.slots[i+k].pool != p })
		slots := g.slots[i:end]
		i = end
		if p.closed() || within != nil && p != within || !p.serves(w) {
			continue
		}
		free, present := a.joinable(w, slots)
		if present[0] && present[1] && (!free[0].IsValid() || !free[1].IsValid()) && w.n == 2 {
			continue // both or neither of an address pair
		}
		if pl, ok := pr.offer(a, w, p, free); ok {
			return pl, true
		}
	}
	return pr.best(w)
}

// joinable returns the first address of each wanted family in slots of one pool
// that admits the request, and the families of which there is any.
func (a *Allocator) joinable(w *wish, slots []*slot) (free [2]netip.Addr, present [2]bool) {
	for _, s := range slots {
		if s.stray {
			continue
		}
		f := s.family.index()
		present[f] = true
		if !free[f].IsValid() && w.wants(s.family) && a.welcomes(s, w) {
			free[f] = s.addr
		}
	}
	return free, present
}

// welcomes reports whether the request, of the group of s, can join.
func (a *Allocator) welcomes(s *slot, w *wish) bool {
	return s.admits(w) && a.cost(w, s.addr) <= w.roomIn(s.pool) && a.barred(s.addr, w) == nil
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
			if !s.stray && (best == nil || s.cmp(best) < 0) && a.welcomes(s, w) {
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
