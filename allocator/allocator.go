package allocator

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// Config configures an Allocator.
type Config struct {
	// Pools are the first pools; SetPools replaces them. None is allowed: then
	// every request fails with ErrNoPool.
	Pools []Pool
	// Limits are the first limits of namespaces; SetLimits replaces them.
	Limits Limits
	// Logger gets a record of each change of pools, and of each holder that it
	// displaces. Nil discards.
	Logger *slog.Logger
}

// Allocator decides who holds which address. All methods are safe for
// concurrent use; none but Obtain and Settle, which talk to a Source, blocks
// longer than its own computation.
type Allocator struct {
	log *slog.Logger

	mu     sync.Mutex
	table  *table
	owners map[Owner]*holding
	held   [2]map[u128]tenant // by family and address
	groups map[groupKey]*group

	limits  Limits
	tallies map[string]int // with limits: how many addresses a namespace holds

	resting [2]map[u128]*rest // by family and address
	restsOf map[Owner][]*rest // in order of release
	queue   restQueue

	debts []debt
	talks map[Owner]chan struct{} // who talks to sources; closed at the end
}

// New returns an allocator in which nothing is held yet. The error joins one
// *PoolError for each fault of the pools.
func New(cfg Config) (*Allocator, error) {
	if err := joinFaults(ValidatePools(cfg.Pools)); err != nil {
		return nil, err
	}
	if err := cfg.Limits.check(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t, fresh := newTable(cfg.Pools, nil)
	limits := cfg.Limits
	limits.Namespaces = maps.Clone(limits.Namespaces)
	a := &Allocator{
		log:     log,
		table:   t,
		owners:  map[Owner]*holding{},
		held:    [2]map[u128]tenant{{}, {}},
		groups:  map[groupKey]*group{},
		limits:  limits,
		tallies: map[string]int{},
		resting: [2]map[u128]*rest{{}, {}},
		restsOf: map[Owner][]*rest{},
		talks:   map[Owner]chan struct{}{},
	}
	a.settle(fresh)
	return a, nil
}

// Assign gives the owner what it asks for and returns what it then holds. On
// error nothing changes: the owner goes on holding what it held.
//
// It is idempotent. An owner keeps its addresses as long as they fit its
// families and explicit wishes and the members of its group, if it shares them,
// tolerate its ports and keys; ports and keys are refreshed, a missing second
// family is added, one that is no longer wanted is dropped. An owner that no
// longer fits gets other addresses. Scope, Manual, Drain, limits, reservations
// and the order of pools are about new addresses and never take one away.
//
// A new address is one that is reserved for the owner; else one that the group
// of the request's SharingKey holds already, if there is one that ports and
// BackendKey allow; else one that the owner held not long ago and that rests in
// quarantine; else a free one of the first pool that can serve the request. See
// the package documentation for the order of pools.
//
// The error wraps ErrInvalid or ErrFamily for a request that is wrong in
// itself, and else tells what stands in the way: *ConflictError, *LimitError,
// *SourceError, ErrNotInPool, ErrScope, ErrNoPool, ErrOpaque, ErrDrained, or
// *UnmetError with the answer of each pool.
func (a *Allocator) Assign(req Request) (Assignment, error) {
	w, err := newWish(&req)
	if err != nil {
		return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, err)
	}
	as, p, err := a.attempt(&w)
	if p != nil {
		return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, &SourceError{Pool: p.Name})
	}
	return as, err
}

// Adopt records that the owner holds addrs already, as a status or another
// record of the past says. It is for the time after a restart: adopt all
// holders, in any order, then Assign. What the owner held before is replaced.
//
// The addresses must be one, or one of each family, inside one pool, and not
// in use, unless sharing allows it with the same keys and no port in common.
// They may also be outside of all pools if Claim (or Pool) names one that is
// opaque, has a Source, or keeps displaced holders. Whether the pool would serve
// the request today, and what it wishes, does not matter here, nor do limits,
// reservations and quarantines: what is held is held, and a later Assign looks
// at the wishes. On error nothing changes;
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
	a.sweep()
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
		// Only claims outside of all ranges can disagree about an address.
		if s := a.held[FamilyOf(addr).index()][number(addr)].slot; s != nil && s.pool != p && !s.onlyHas(cur) {
			return Assignment{}, notInNamed([]netip.Addr{addr}, p.Name, s.pool)
		}
	}
	return a.commit(&w, cur, pl).assignment(), nil
}

// home returns the pool under which addrs can be held: the one that contains
// them or, if no other does, the one that is claimed and trusts the claim.
func (t *table) home(addrs []netip.Addr, claim string) (*pool, error) {
	p, err := t.containing(addrs)
	if err == nil {
		return p, nil
	}
	if p := t.trusting(addrs, claim); p != nil {
		return p, nil
	}
	return nil, err
}

// trusting returns the pool that is claimed for addrs that no pool contains, if
// it trusts the claim.
func (t *table) trusting(addrs []netip.Addr, claim string) *pool {
	p := t.byName[claim]
	if p == nil || !p.trusts() || t.elsewhere(addrs, p) {
		return nil
	}
	return p
}

// elsewhere reports that a pool other than p contains one of addrs.
func (t *table) elsewhere(addrs []netip.Addr, p *pool) bool {
	return slices.ContainsFunc(addrs, func(addr netip.Addr) bool {
		in, _, _ := t.index.find(FamilyOf(addr), number(addr))
		return in != nil && in != p
	})
}

// Release takes everything from the owner, at once, and returns what that was;
// false if it held nothing. In a pool with a Quarantine the addresses then rest,
// and one that came from a Source is given back by the next Settle.
func (a *Allocator) Release(o Owner) (Assignment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.owners[o]
	if h == nil {
		return Assignment{}, false
	}
	a.remove(h)
	a.retire(h)
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
// The addresses are not copied: Addrs must not be changed.
func (a *Allocator) All() iter.Seq2[Owner, Assignment] {
	return func(yield func(Owner, Assignment) bool) {
		a.mu.Lock()
		list := make([]*holding, 0, len(a.owners))
		for _, h := range a.owners {
			list = append(list, h)
		}
		a.mu.Unlock()
		for _, h := range list {
			as, ok := a.inForce(h.owner)
			if ok && !yield(h.owner, as) {
				return
			}
		}
	}
}

// inForce returns what the owner holds, not a copy. A holding does not change,
// apart from its pool.
func (a *Allocator) inForce(o Owner) (Assignment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.owners[o]
	if h == nil {
		return Assignment{}, false
	}
	return Assignment{Owner: o, Pool: h.pool.Name, Addrs: slices.Clip(h.list())}, true
}

// Usage returns the counters of a pool; false if there is none of that name.
// Of a pool that is opaque or has a Source only the held addresses are known,
// and Free is 0.
func (a *Allocator) Usage(pool string) (Usage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	p := a.table.byName[pool]
	if p == nil {
		return Usage{}, false
	}
	return p.usage(), true
}
