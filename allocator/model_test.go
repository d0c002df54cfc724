package allocator

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"
)

// model is the allocator in its slowest and plainest form: lists of addresses
// and loops over all holdings.
type model struct {
	pools  []Pool
	limits Limits
	held   map[Owner]modelHolding
	rests  []modelRest // in order of release
}

type modelRest struct {
	addr  netip.Addr
	owner Owner
	since time.Time
}

type modelHolding struct {
	pool  string
	addrs []netip.Addr
	req   Request // the last one that was met: its keys and ports count
}

func (m *model) pool(name string) *Pool {
	for i := range m.pools {
		if m.pools[i].Name == name {
			return &m.pools[i]
		}
	}
	return nil
}

// poolOf returns the pool that lists addr, nil for none.
func (m *model) poolOf(addr netip.Addr) *Pool {
	for i := range m.pools {
		if !m.pools[i].Opaque && slices.Contains(naive(m.pools[i]), addr) {
			return &m.pools[i]
		}
	}
	return nil
}

func (m *model) poolOfAll(list []netip.Addr) *Pool {
	p := m.poolOf(list[0])
	if p == nil || m.poolOf(list[len(list)-1]) != p {
		return nil
	}
	return p
}

// inOrder returns the pools in the order of choice.
func (m *model) inOrder() []*Pool {
	var list []*Pool
	for i := range m.pools {
		list = append(list, &m.pools[i])
	}
	last := func(p *Pool) int {
		n := p.Priority
		if n == 0 {
			n = math.MaxInt32
		}
		if p.Scope == nil {
			n += math.MaxInt32
		}
		return n
	}
	slices.SortFunc(list, func(a, b *Pool) int { return cmp.Or(last(a)-last(b), cmp.Compare(a.Name, b.Name)) })
	return list
}

func modelServes(p *Pool, req Request) bool {
	s := p.Scope
	if s == nil {
		return true
	}
	namespace := s.AnyNamespace || slices.Contains(s.Namespaces, req.Namespace)
	labels := len(s.Services) == 0
	for _, sel := range s.Services {
		labels = labels || sel.Matches(req.Labels)
	}
	return namespace && labels
}

func mayShare(a, b Request) bool {
	if a.SharingKey == "" || a.SharingKey != b.SharingKey || a.BackendKey != b.BackendKey {
		return false
	}
	for _, p := range a.Ports {
		if slices.Contains(b.Ports, p) {
			return false
		}
	}
	return true
}

// contains is about ranges and exclusions alone.
func contains(p *Pool, addr netip.Addr) bool {
	in := func(r Range) bool { return r.Contains(addr) }
	return !p.Opaque && slices.ContainsFunc(p.Ranges, in) && !slices.ContainsFunc(p.Exclude, in)
}

func closed(p *Pool) bool { return p == nil || p.Opaque || p.Drain }

func (m *model) reservedTo(addr netip.Addr) []Owner {
	var owners []Owner
	for _, p := range m.pools {
		for _, r := range p.Reserve {
			if r.Addr == addr && !p.Opaque {
				owners = append(owners, r.Owner)
			}
		}
	}
	return owners
}

// until returns when a rest ends, the zero time if its pool knows no quarantine.
func (m *model) until(r modelRest) time.Time {
	if p := m.poolOf(r.addr); p != nil && p.Quarantine > 0 {
		return r.since.Add(p.Quarantine)
	}
	return time.Time{}
}

func (m *model) sweep() {
	m.rests = slices.DeleteFunc(m.rests, func(r modelRest) bool { return !m.until(r).After(time.Now()) })
}

func (m *model) restsFor(addr netip.Addr) (Owner, bool) {
	for _, r := range m.rests {
		if r.addr == addr {
			return r.owner, true
		}
	}
	return "", false
}

// isKept reports that nobody can be given addr who is not meant.
func (m *model) isKept(addr netip.Addr) bool {
	_, rests := m.restsFor(addr)
	return rests || len(m.reservedTo(addr)) > 0
}

func (m *model) barred(addr netip.Addr, o Owner) bool {
	owners := m.reservedTo(addr)
	last, rests := m.restsFor(addr)
	return len(owners) > 0 && !slices.Contains(owners, o) || rests && last != o
}

// tally counts the addresses of a namespace, in one pool or in all.
func (m *model) tally(namespace, pool string) int {
	distinct := map[netip.Addr]bool{}
	for _, h := range m.held {
		if h.req.Namespace == namespace && (pool == "" || pool == h.pool) {
			for _, addr := range h.addrs {
				distinct[addr] = true
			}
		}
	}
	return len(distinct)
}

func (m *model) room(p *Pool, req Request) int {
	room := math.MaxInt
	if limit := m.limits.of(req.Namespace); limit > 0 {
		room = limit - m.tally(req.Namespace, "")
	}
	if p.LimitPerNamespace > 0 {
		room = min(room, p.LimitPerNamespace-m.tally(req.Namespace, p.Name))
	}
	return room
}

func (m *model) cost(list []netip.Addr, req Request) int {
	cost := len(list)
	for _, addr := range list {
		for _, h := range m.held {
			if h.req.Namespace == req.Namespace && slices.Contains(h.addrs, addr) {
				cost--
				break
			}
		}
	}
	return cost
}

// mayJoin is mayHave for an address that is new for the owner.
func (m *model) mayJoin(p *Pool, addr netip.Addr, req Request) bool {
	return m.mayHave(addr, req) && !m.barred(addr, req.Owner) && m.cost([]netip.Addr{addr}, req) <= m.room(p, req)
}

// set makes the owner hold h, and release what it held; nil for nothing.
func (m *model) set(owner Owner, h *modelHolding) {
	before := m.held[owner].addrs
	delete(m.held, owner)
	if h != nil {
		m.held[owner] = *h
		m.rests = slices.DeleteFunc(m.rests, func(r modelRest) bool { return slices.Contains(h.addrs, r.addr) })
	}
	for _, addr := range before {
		if r := (modelRest{addr, owner, time.Now()}); !m.isHeld(addr) && m.until(r).After(time.Now()) {
			m.rests = append(m.rests, r)
		}
	}
}

func (m *model) mayHave(addr netip.Addr, req Request) bool {
	for owner, h := range m.held {
		if owner != req.Owner && slices.Contains(h.addrs, addr) && !mayShare(req, h.req) {
			return false
		}
	}
	return true
}

func (m *model) isHeld(addr netip.Addr) bool {
	for _, h := range m.held {
		if slices.Contains(h.addrs, addr) {
			return true
		}
	}
	return false
}

// free returns the free address of a family in p that the owner is given next,
// the zero one if none.
func (m *model) free(p *Pool, f Family, o Owner) netip.Addr {
	var all []netip.Addr
	for _, addr := range naive(*p) {
		if FamilyOf(addr) == f && !p.Opaque {
			all = append(all, addr)
		}
	}
	if len(all) == 0 {
		return netip.Addr{}
	}
	from := 0
	if p.Order == OrderSpread {
		from = int(spot(o, u128{lo: uint64(len(all) - 1)}).lo)
	}
	for _, addr := range slices.Concat(all[from:], all[:from]) {
		if !m.isHeld(addr) && !m.isKept(addr) {
			return addr
		}
	}
	return netip.Addr{}
}

// grouped returns the addresses of a family in p that the group of req holds,
// and the lowest of them that req may have.
func (m *model) grouped(p *Pool, f Family, req Request) (all []netip.Addr, lowest netip.Addr) {
	for _, addr := range naive(*p) {
		if FamilyOf(addr) != f {
			continue
		}
		for _, h := range m.held {
			if slices.Contains(h.addrs, addr) && h.req.SharingKey == req.SharingKey && h.req.BackendKey == req.BackendKey {
				all = append(all, addr)
				if !lowest.IsValid() && m.mayJoin(p, addr, req) {
					lowest = addr
				}
				break
			}
		}
	}
	return all, lowest
}

func givesFresh(p *Pool, req Request) bool { return !p.Manual || req.Pool == p.Name }

func (m *model) join(req Request, pools []*Pool) (string, []netip.Addr) {
	if req.SharingKey == "" {
		return "", nil
	}
	var fits []*Pool
	for _, p := range pools {
		if !closed(p) && modelServes(p, req) {
			fits = append(fits, p)
		}
	}
	if len(req.Families) == 1 {
		for _, p := range fits {
			if _, addr := m.grouped(p, req.Families[0], req); addr.IsValid() {
				return p.Name, []netip.Addr{addr}
			}
		}
		return "", nil
	}
	for _, p := range fits {
		_, v4 := m.grouped(p, IPv4, req)
		_, v6 := m.grouped(p, IPv6, req)
		if v4.IsValid() && v6.IsValid() && m.cost([]netip.Addr{v4, v6}, req) <= m.room(p, req) {
			return p.Name, []netip.Addr{v4, v6}
		}
	}
	for _, fresh := range []bool{true, false} {
		for _, p := range fits {
			all4, v4 := m.grouped(p, IPv4, req)
			all6, v6 := m.grouped(p, IPv6, req)
			if fresh && v4.IsValid() && len(all6) == 0 {
				if list := m.withFresh(p, v4, req); list != nil {
					return p.Name, list
				}
			}
			if fresh && v6.IsValid() && len(all4) == 0 {
				if list := m.withFresh(p, v6, req); list != nil {
					return p.Name, list
				}
			}
			if !fresh && req.Partial && v4.IsValid() && len(all6) == 0 {
				return p.Name, []netip.Addr{v4}
			}
			if !fresh && req.Partial && v6.IsValid() && len(all4) == 0 {
				return p.Name, []netip.Addr{v6}
			}
		}
	}
	return "", nil
}

// withFresh pairs addr of p with a free address of the other family, IPv4 first.
func (m *model) withFresh(p *Pool, addr netip.Addr, req Request) []netip.Addr {
	other := m.free(p, FamilyOf(addr).other(), req.Owner)
	if !other.IsValid() || !givesFresh(p, req) || m.cost([]netip.Addr{addr}, req)+1 > m.room(p, req) {
		return nil
	}
	return inOrder(addr, other)
}

// recall looks among the addresses that are reserved for the owner, or that rest
// since it let them go, pool by pool.
func (m *model) recall(req Request, pools []*Pool, reserved bool) (string, []netip.Addr) {
	var mine []netip.Addr
	if reserved {
		for _, p := range m.inOrder() {
			for _, r := range p.Reserve {
				if r.Owner == req.Owner {
					mine = append(mine, r.Addr)
				}
			}
		}
	} else {
		for _, r := range slices.Backward(m.rests) {
			if r.owner == req.Owner {
				mine = append(mine, r.addr)
			}
		}
	}
	mixed, single, mixedIn, singleIn := []netip.Addr(nil), []netip.Addr(nil), "", ""
	asked := map[string]bool{}
	for _, k := range mine {
		p := m.poolOf(k)
		if asked[p.Name] || closed(p) || !slices.Contains(pools, p) || !modelServes(p, req) || !reserved && !givesFresh(p, req) {
			continue
		}
		asked[p.Name] = true
		var have []netip.Addr
		for _, f := range req.Families {
			for _, addr := range mine {
				if m.poolOf(addr) == p && FamilyOf(addr) == f && m.mayJoin(p, addr, req) {
					have = append(have, addr)
					break
				}
			}
		}
		if len(have) == 2 && m.cost(have, req) > m.room(p, req) {
			have = have[:1]
		}
		switch {
		case len(have) == 0:
		case len(have) == len(req.Families):
			if len(have) == 2 {
				have = inOrder(have[0], have[1])
			}
			return p.Name, have
		default:
			if list := m.withFresh(p, have[0], req); mixed == nil && list != nil {
				mixed, mixedIn = list, p.Name
			}
			if single == nil {
				single, singleIn = have, p.Name
			}
		}
	}
	if mixed == nil && req.Partial {
		return singleIn, single
	}
	return mixedIn, mixed
}

// known is what the owner can have that is not free.
func (m *model) known(req Request, pools []*Pool) (string, []netip.Addr) {
	if name, list := m.recall(req, pools, true); list != nil {
		return name, list
	}
	if name, list := m.join(req, pools); list != nil {
		return name, list
	}
	return m.recall(req, pools, false)
}

// fresh chooses free addresses in the first of the pools that can serve.
func (m *model) fresh(req Request, pools []*Pool) (string, []netip.Addr) {
	for _, p := range pools {
		list := []netip.Addr{m.free(p, IPv4, req.Owner), m.free(p, IPv6, req.Owner)}
		list = slices.DeleteFunc(list, func(addr netip.Addr) bool {
			return !addr.IsValid() || !slices.Contains(req.Families, FamilyOf(addr))
		})
		if len(list) == len(req.Families) && len(list) <= m.room(p, req) {
			return p.Name, list
		}
	}
	if !req.Partial {
		return "", nil
	}
	for _, f := range req.Families {
		for _, p := range pools {
			if addr := m.free(p, f, req.Owner); addr.IsValid() && m.room(p, req) > 0 {
				return p.Name, []netip.Addr{addr}
			}
		}
	}
	return "", nil
}

// keep returns what the owner would keep, nil if it has to move.
func (m *model) keep(req Request, h modelHolding) []netip.Addr {
	if req.Pool != "" && req.Pool != h.pool {
		return nil
	}
	var list []netip.Addr
	for _, addr := range h.addrs {
		if slices.Contains(req.Families, FamilyOf(addr)) {
			list = append(list, addr)
			if !m.mayHave(addr, req) {
				return nil
			}
		}
	}
	if len(list) != 1 || len(req.Families) == 1 {
		return list
	}
	p, missing := m.pool(h.pool), FamilyOf(list[0]).other()
	if !closed(p) && modelServes(p, req) {
		for _, r := range p.Reserve {
			if r.Owner == req.Owner && FamilyOf(r.Addr) == missing && m.mayJoin(p, r.Addr, req) {
				return append(list, r.Addr)
			}
		}
		for _, addr := range naive(*p) {
			for owner, other := range m.held {
				partner := owner != req.Owner && slices.Contains(other.addrs, list[0]) && slices.Contains(other.addrs, addr)
				if partner && FamilyOf(addr) == missing && m.mayJoin(p, addr, req) {
					return append(list, addr)
				}
			}
		}
		if addr := m.free(p, missing, req.Owner); givesFresh(p, req) && addr.IsValid() && m.room(p, req) > 0 {
			return append(list, addr)
		}
	}
	if req.Partial {
		return list
	}
	return nil
}

// mayMove reports that neither reservations, quarantines nor limits keep the
// owner from the addresses of p that it does not hold.
func (m *model) mayMove(p *Pool, list []netip.Addr, req Request) bool {
	cur, holds := m.held[req.Owner]
	news := 0
	for _, addr := range list {
		if !slices.Contains(cur.addrs, addr) {
			news++
			if m.barred(addr, req.Owner) {
				return false
			}
		}
	}
	if holds {
		delete(m.held, req.Owner)
		defer func() { m.held[req.Owner] = cur }()
	}
	cost := m.cost(list, req)
	return holds && news == 0 || cost == 0 || cost <= m.room(p, req)
}

func (m *model) decide(req Request) (string, []netip.Addr) {
	cur, holds := m.held[req.Owner]
	if len(req.Addresses) > 0 {
		pool, list := "", req.Addresses
		same := holds && len(cur.addrs) == len(list)
		for _, addr := range list {
			if !m.mayHave(addr, req) {
				return "", nil
			}
			same = same && slices.Contains(cur.addrs, addr)
		}
		if same {
			pool, list = cur.pool, cur.addrs
		} else if p := m.poolOfAll(list); p != nil && modelServes(p, req) && !p.Drain && m.mayMove(p, list, req) {
			pool = p.Name
		}
		if pool == "" || req.Pool != "" && req.Pool != pool {
			return "", nil
		}
		return pool, list
	}
	if holds {
		if list := m.keep(req, cur); list != nil {
			return cur.pool, list
		}
		delete(m.held, req.Owner) // what it leaves is free
		defer func() { m.held[req.Owner] = cur }()
	}
	if req.Pool != "" {
		p := m.pool(req.Pool)
		if closed(p) || !modelServes(p, req) {
			return "", nil
		}
		if name, list := m.known(req, []*Pool{p}); list != nil {
			return name, list
		}
		return m.fresh(req, []*Pool{p})
	}
	if name, list := m.known(req, m.inOrder()); list != nil {
		return name, list
	}
	for _, scoped := range []bool{true, false} {
		var stage []*Pool
		for _, p := range m.inOrder() {
			if !p.Manual && !closed(p) && (p.Scope != nil) == scoped && modelServes(p, req) {
				stage = append(stage, p)
			}
		}
		if name, list := m.fresh(req, stage); list != nil {
			return name, list
		}
	}
	return "", nil
}

func (m *model) home(h modelHolding, claim string) string {
	if p := m.poolOfAll(h.addrs); p != nil {
		return p.Name
	}
	p := m.pool(claim)
	if p == nil || !p.Opaque && p.Displaced != PolicyKeep || m.elsewhere(h, p) {
		return ""
	}
	return claim
}

// elsewhere reports that a pool other than p contains an address of h.
func (m *model) elsewhere(h modelHolding, p *Pool) bool {
	for _, addr := range h.addrs {
		for i := range m.pools {
			if other := &m.pools[i]; other != p && contains(other, addr) {
				return true
			}
		}
	}
	return false
}
