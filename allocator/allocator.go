package allocator

import (
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
)

// Config configures an Allocator.
type Config struct {
	// Pools are the first pools; SetPools replaces them. None is allowed: then
	// every request fails with ErrNoPool.
	Pools []Pool
	// Logger gets a record of each change of pools, and of each holder that it
	// displaces. Nil discards.
	Logger *slog.Logger
}

// Allocator decides who holds which address. All methods are safe for
// concurrent use; none blocks longer than its own computation.
type Allocator struct {
	log *slog.Logger

	mu     sync.Mutex
	table  *table
	owners map[Owner]*holding
	held   [2]map[u128]tenant // by family and address
	groups map[groupKey]*group
}

// New returns an allocator in which nothing is held yet. The error joins one
// *PoolError for each fault of the pools.
func New(cfg Config) (*Allocator, error) {
	if err := joinFaults(ValidatePools(cfg.Pools)); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t, _ := newTable(cfg.Pools, nil)
	return &Allocator{
		log:    log,
		table:  t,
		owners: map[Owner]*holding{},
		held:   [2]map[u128]tenant{{}, {}},
		groups: map[groupKey]*group{},
	}, nil
}

// Assign gives the owner what it asks for and returns what it then holds. On
// error nothing changes: the owner goes on holding what it held.
//
// It is idempotent. An owner keeps its addresses as long as they fit its
// families and explicit wishes and the members of its group, if it shares them,
// tolerate its ports and keys; ports and keys are refreshed, a missing second
// family is added, one that is no longer wanted is dropped. An owner that no
// longer fits gets other addresses. Scope, Manual and the order of pools are
// about new addresses and never take one away.
//
// A new address is one that the group of the request's SharingKey holds
// already, if there is one that ports and BackendKey allow; else the lowest
// free one of the first pool that can serve the request. See the package
// documentation for the order of pools.
//
// The error wraps ErrInvalid or ErrFamily for a request that is wrong in
// itself, and else tells what stands in the way: *ConflictError, ErrNotInPool,
// ErrScope, ErrNoPool, ErrOpaque, or *UnmetError with the answer of each pool.
func (a *Allocator) Assign(req Request) (Assignment, error) {
	w, err := newWish(&req)
	if err != nil {
		return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	cur := a.owners[req.Owner]
	pl, err := a.plan(&w, cur)
	if err != nil {
		return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, err)
	}
	return a.commit(&w, cur, pl).assignment(), nil
}

// Adopt records that the owner holds addrs already, as a status or another
// record of the past says. It is for the time after a restart: adopt all
// holders, in any order, then Assign. What the owner held before is replaced.
//
// The addresses must be one, or one of each family, inside one pool, and not
// in use, unless sharing allows it with the same keys and no port in common.
// They may also be outside of all pools if Claim (or Pool) names an opaque one.
// Whether the pool would serve the request today, and what it wishes, does not
// matter here: a later Assign looks at the wishes. On error nothing changes;
// of two that claim one address, the first to be adopted gets it.
func (a *Allocator) Adopt(req Request, addrs []netip.Addr) (Assignment, error) {
	as, err := a.adopt(&req, addrs)
	if err != nil {
		return Assignment{}, fmt.Errorf("adopt %s: %w", req.Owner, err)
	}
	return as, nil
}

func (a *Allocator) adopt(req *Request, addrs []netip.Addr) (Assignment, error) {
	w, err := newClaim(req)
	if err != nil {
		return Assignment{}, err
	}
	if err := checkAddrs(addrs); err != nil {
		return Assignment{}, err
	}
	if len(addrs) == 0 {
		return Assignment{}, fmt.Errorf("%w: no address to adopt", ErrInvalid)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := req.Claim
	if claim == "" {
		claim = req.Pool
	}
	p, err := a.table.home(addrs, claim)
	if err != nil {
		return Assignment{}, err
	}
	cur := a.owners[req.Owner]
	pl, err := a.unopposed(&w, cur, placementOf(p, addrs...))
	if err != nil {
		return Assignment{}, err
	}
	for _, addr := range addrs {
		// Only names of opaque pools can disagree about an address.
		if s := a.held[FamilyOf(addr).index()][number(addr)].slot; s != nil && s.pool != p && !s.onlyHas(cur) {
			return Assignment{}, notInNamed([]netip.Addr{addr}, p.Name, s.pool)
		}
	}
	return a.commit(&w, cur, pl).assignment(), nil
}

// home returns the pool under which addrs can be held: the one that contains
// them or, outside of all pools, the opaque pool that is claimed.
func (t *table) home(addrs []netip.Addr, claim string) (*pool, error) {
	p, err := t.containing(addrs)
	if err == nil {
		return p, nil
	}
	p = t.byName[claim]
	if p == nil || !p.Opaque {
		return nil, err
	}
	for _, addr := range addrs {
		if in, _, _ := t.index.find(FamilyOf(addr), number(addr)); in != nil {
			return nil, err
		}
	}
	return p, nil
}

// Release takes everything from the owner, at once and without a trace, and
// returns what that was; false if it held nothing.
func (a *Allocator) Release(o Owner) (Assignment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.owners[o]
	if h == nil {
		return Assignment{}, false
	}
	a.remove(h)
	return h.assignment(), true
}

// Get returns what the owner holds; false for nothing.
func (a *Allocator) Get(o Owner) (Assignment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.owners[o]
	if h == nil {
		return Assignment{}, false
	}
	return h.assignment(), true
}

// All returns an iterator over all owners, in no particular order. The body of
// the loop may call any method. Owners that come while it runs are not seen,
// owners that go may be missed, and what is yielded is what is held then.
func (a *Allocator) All() iter.Seq2[Owner, Assignment] {
	return func(yield func(Owner, Assignment) bool) {
		a.mu.Lock()
		list := make([]*holding, 0, len(a.owners))
		for _, h := range a.owners {
			list = append(list, h)
		}
		a.mu.Unlock()
		for _, h := range list {
			as, ok := a.Get(h.owner)
			if ok && !yield(h.owner, as) {
				return
			}
		}
	}
}

// Usage returns the counters of a pool; false if there is none of that name.
// Of an opaque pool only the held addresses are known, and Free is 0.
func (a *Allocator) Usage(pool string) (Usage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.table.byName[pool]
	if p == nil {
		return Usage{}, false
	}
	return p.usage(), true
}

// commit makes the owner of w hold what was planned.
func (a *Allocator) commit(w *wish, cur *holding, pl placement) *holding {
	if cur != nil {
		if cur.pool == pl.pool && cur.addrs == pl.addrs && w.unchanged(cur) {
			return cur
		}
		a.remove(cur)
	}
	h := &holding{owner: w.req.Owner, pool: pl.pool, addrs: pl.addrs}
	if w.req.SharingKey != "" {
		h.ports = w.ports
		h.group = a.groupOf(groupKey{w.req.SharingKey, w.req.BackendKey})
	}
	a.add(h)
	return h
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

// unchanged reports that keys and ports are those of the holding.
func (w *wish) unchanged(h *holding) bool {
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
		pos := a.mark(h.pool, f, n)
		if h.group == nil {
			t = tenant{alone: h}
		} else {
			t = tenant{slot: &slot{
				group: h.group, pool: h.pool, family: f, addr: addr, pos: pos,
				members: map[*holding]struct{}{}, ports: map[Port]*holding{},
			}}
			h.group.add(t.slot)
		}
		a.held[f.index()][n] = t
	}
	if t.slot != nil {
		t.slot.join(h)
	}
}

// mark takes address n out of the free ones and returns its position.
func (a *Allocator) mark(p *pool, f Family, n u128) u128 {
	if p.Opaque {
		p.opaqueUsed[f.index()]++
		return n
	}
	_, pos, _ := a.table.index.find(f, n)
	p.spaces[f.index()].take(pos)
	return pos
}

// unmark is the inverse of mark.
func (a *Allocator) unmark(p *pool, f Family, n u128) {
	if p.Opaque {
		p.opaqueUsed[f.index()]--
		return
	}
	_, pos, _ := a.table.index.find(f, n)
	p.spaces[f.index()].give(pos)
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
		if len(s.members) > 0 {
			return false
		}
		s.group.drop(s)
		if len(s.group.slots) == 0 {
			delete(a.groups, s.group.groupKey)
		}
	}
	delete(a.held[f], n)
	return true
}
