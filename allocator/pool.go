package allocator

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// pool is a Pool in force.
type pool struct {
	Pool
	namespaces []string // of the scope, sorted
	parts      []Range  // Ranges without what Exclude takes from them
	rank       int      // place in the order of choice
	spaces     [2]space
	strays     [2]int64       // addresses held under the name of the pool that its spaces do not have
	tallies    map[string]int // with a limit: how many addresses a namespace holds
}

func newPool(cfg Pool) *pool {
	p := &pool{Pool: cfg}
	p.Ranges = slices.Clone(cfg.Ranges)
	if cfg.Opaque {
		p.Ranges, p.Exclude, p.Reserve, p.Source = nil, nil, nil, nil
	}
	p.Exclude, p.Reserve = slices.Clone(p.Exclude), slices.Clone(p.Reserve)
	p.parts = without(p.Ranges, p.Exclude)
	if p.LimitPerNamespace > 0 {
		p.tallies = map[string]int{}
	}
	if cfg.Scope != nil {
		scope := *cfg.Scope
		scope.Services = slices.Clone(scope.Services)
		p.Scope = &scope
		p.namespaces = slices.Sorted(slices.Values(scope.Namespaces))
	}
	return p
}

// build makes the spaces, or takes over those of old if they are the same, so
// that an edit of a scope or a priority costs little.
func (p *pool) build(old *pool) (reused bool) {
	if old != nil && old.AvoidBuggyIPs == p.AvoidBuggyIPs && slices.Equal(old.Ranges, p.Ranges) &&
		slices.Equal(old.parts, p.parts) && slices.Equal(old.Reserve, p.Reserve) {
		p.spaces = old.spaces
		return true
	}
	p.spaces[0] = newSpace(IPv4, p.parts, p.AvoidBuggyIPs)
	p.spaces[1] = newSpace(IPv6, p.parts, p.AvoidBuggyIPs)
	return false
}

// closed reports that nobody new gets an address of p, however it is asked for.
func (p *pool) closed() bool { return p.Opaque || p.Drain }

// trusts reports that a claim for an address outside of all pools is believed
// when it names p.
func (p *pool) trusts() bool { return p.Opaque || p.Source != nil || p.Displaced == PolicyKeep }

// serves reports whether the scope of p lets the request in.
func (p *pool) serves(w *wish) bool {
	if p.Scope == nil {
		return true
	}
	if !p.Scope.AnyNamespace {
		if _, ok := slices.BinarySearch(p.namespaces, w.req.Namespace); !ok {
			return false
		}
	}
	return p.selects(w.req.Labels)
}

// givesTo reports whether p may choose a free address for the request: a
// manual pool does so only for requests that name it.
func (p *pool) givesTo(w *wish) bool { return !p.Manual || w.req.Pool == p.Name }

func (p *pool) selects(labels map[string]string) bool {
	if p.Scope == nil || len(p.Scope.Services) == 0 {
		return true
	}
	return slices.ContainsFunc(p.Scope.Services, func(s Selector) bool { return s.Matches(labels) })
}

func (p *pool) has(f Family) bool    { return len(p.spaces[f.index()].blocks) > 0 }
func (p *pool) offers(f Family) bool { return !p.spaces[f.index()].free.empty() }

// next returns the address that p gives an owner next; offers(f) must hold.
func (p *pool) next(f Family, o Owner) netip.Addr {
	s := &p.spaces[f.index()]
	if p.Order == OrderSpread {
		return address(f, s.at(s.free.from(spot(o, s.last))))
	}
	return address(f, s.at(s.free.min()))
}

func (p *pool) usage() Usage {
	return Usage{V4: p.spaces[0].count().plus(p.strays[0]), V6: p.spaces[1].count().plus(p.strays[1])}
}

// plus counts n more that are used.
func (c Count) plus(n int64) Count {
	c.Total, c.Used = saturated(c.Total, n), saturated(c.Used, n)
	return c
}

func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// table is one set of pools in force: replaced as a whole by SetPools.
type table struct {
	ordered []*pool // by rank
	byName  map[string]*pool
	index   *index
	ghosts  map[string]*pool // removed pools with holders that keep their addresses

	reservedTo  [2]map[u128][]Owner // by family and address
	reservedFor map[Owner][]keptAddr

	// Pools for automatic choice, by rank. Those with a scope are found by
	// namespace, so that pools of other tenants cost nothing.
	open        []*pool
	anywhere    []*pool
	byNamespace map[string][]*pool
}

// newTable makes the table of valid pools. fresh holds those whose spaces are
// new and empty.
func newTable(cfg []Pool, old *table) (t *table, fresh map[*pool]bool) {
	t = &table{byName: make(map[string]*pool, len(cfg)), byNamespace: map[string][]*pool{}}
	fresh = map[*pool]bool{}
	for i := range cfg {
		p := newPool(cfg[i])
		var before *pool
		if old != nil {
			before = old.byName[p.Name]
		}
		if !p.build(before) {
			fresh[p] = true
		}
		t.byName[p.Name] = p
		t.ordered = append(t.ordered, p)
	}
	slices.SortFunc(t.ordered, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(a.stage(), b.stage()), cmp.Compare(a.order(), b.order()), cmp.Compare(a.Name, b.Name))
	})
	for i, p := range t.ordered {
		p.rank = i
		t.enlist(p)
	}
	t.index = newIndex(t.ordered)
	t.reserve()
	return t, fresh
}

// stage is 0 for pools with a scope, which come first.
func (p *pool) stage() int {
	if p.Scope != nil {
		return 0
	}
	return 1
}

func (p *pool) order() int {
	if p.Priority == 0 {
		return math.MaxInt
	}
	return p.Priority
}

func (t *table) enlist(p *pool) {
	switch {
	case p.Manual || p.closed():
	case p.Scope == nil:
		t.open = append(t.open, p)
	case p.Scope.AnyNamespace:
		t.anywhere = append(t.anywhere, p)
	default:
		for _, ns := range slices.Compact(slices.Clone(p.namespaces)) {
			t.byNamespace[ns] = append(t.byNamespace[ns], p)
		}
	}
}

// scoped returns the pools with a scope that serve the namespace, by rank. The
// result is not to be changed.
func (t *table) scoped(namespace string) []*pool {
	named, anywhere := t.byNamespace[namespace], t.anywhere
	if len(named) == 0 {
		return anywhere
	}
	if len(anywhere) == 0 {
		return named
	}
	merged := slices.Concat(named, anywhere)
	slices.SortFunc(merged, func(a, b *pool) int { return cmp.Compare(a.rank, b.rank) })
	return merged
}
