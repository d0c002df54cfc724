package allocator

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the allocator in its slowest and plainest form: lists of addresses
// and loops over all holdings.
type model struct {
	pools []Pool
	held  map[Owner]modelHolding
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

// free returns the lowest free address of a family in p, the zero one if none.
func (m *model) free(p *Pool, f Family) netip.Addr {
	if p.Opaque {
		return netip.Addr{}
	}
	for _, addr := range naive(*p) {
		if FamilyOf(addr) == f && !m.isHeld(addr) {
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
				if !lowest.IsValid() && m.mayHave(addr, req) {
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
		if !p.Opaque && modelServes(p, req) {
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
		if v4.IsValid() && v6.IsValid() {
			return p.Name, []netip.Addr{v4, v6}
		}
	}
	for _, fresh := range []bool{true, false} {
		for _, p := range fits {
			all4, v4 := m.grouped(p, IPv4, req)
			all6, v6 := m.grouped(p, IPv6, req)
			if fresh && givesFresh(p, req) {
				if v4.IsValid() && len(all6) == 0 && m.free(p, IPv6).IsValid() {
					return p.Name, []netip.Addr{v4, m.free(p, IPv6)}
				}
				if v6.IsValid() && len(all4) == 0 && m.free(p, IPv4).IsValid() {
					return p.Name, []netip.Addr{m.free(p, IPv4), v6}
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

// fresh chooses free addresses in the first of the pools that can serve.
func (m *model) fresh(req Request, pools []*Pool) (string, []netip.Addr) {
	for _, p := range pools {
		list := []netip.Addr{m.free(p, IPv4), m.free(p, IPv6)}
		list = slices.DeleteFunc(list, func(addr netip.Addr) bool {
			return !addr.IsValid() || !slices.Contains(req.Families, FamilyOf(addr))
		})
		if len(list) == len(req.Families) {
			return p.Name, list
		}
	}
	if !req.Partial {
		return "", nil
	}
	for _, f := range req.Families {
		for _, p := range pools {
			if addr := m.free(p, f); addr.IsValid() {
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
	if modelServes(p, req) && !p.Opaque {
		for _, addr := range naive(*p) {
			for owner, other := range m.held {
				partner := owner != req.Owner && slices.Contains(other.addrs, list[0]) && slices.Contains(other.addrs, addr)
				if partner && FamilyOf(addr) == missing && m.mayHave(addr, req) {
					return append(list, addr)
				}
			}
		}
		if addr := m.free(p, missing); givesFresh(p, req) && addr.IsValid() {
			return append(list, addr)
		}
	}
	if req.Partial {
		return list
	}
	return nil
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
		} else if p := m.poolOfAll(list); p != nil && modelServes(p, req) {
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
		if p == nil || !modelServes(p, req) || p.Opaque {
			return "", nil
		}
		if name, list := m.join(req, []*Pool{p}); list != nil {
			return name, list
		}
		return m.fresh(req, []*Pool{p})
	}
	if name, list := m.join(req, m.inOrder()); list != nil {
		return name, list
	}
	for _, scoped := range []bool{true, false} {
		var stage []*Pool
		for _, p := range m.inOrder() {
			if !p.Manual && !p.Opaque && (p.Scope != nil) == scoped && modelServes(p, req) {
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
	if p == nil || !p.Opaque {
		return ""
	}
	for _, addr := range h.addrs {
		for _, other := range m.pools {
			if !other.Opaque && slices.ContainsFunc(other.Ranges, func(r Range) bool { return r.Contains(addr) }) {
				return ""
			}
		}
	}
	return claim
}

// machine drives an Allocator and a model side by side.
type machine struct {
	a *Allocator
	m model
}

func drawRequest(t *rapid.T) Request {
	req := Request{
		Owner:      Owner(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "owner")),
		Namespace:  rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "namespace"),
		Labels:     map[string]string{"tier": rapid.SampledFrom([]string{"gold", "silver"}).Draw(t, "tier")},
		Families:   rapid.SampledFrom([][]Family{{IPv4}, {IPv6}, {IPv4, IPv6}, {IPv6, IPv4}}).Draw(t, "families"),
		SharingKey: rapid.SampledFrom([]string{"", "", "k1", "k1", "k2"}).Draw(t, "key"),
		BackendKey: rapid.SampledFrom([]string{"", "", "", "b"}).Draw(t, "backend"),
		Pool:       rapid.SampledFrom([]string{"", "", "", "", "p0", "p1", "p2"}).Draw(t, "pool"),
	}
	req.Partial = len(req.Families) == 2 && rapid.Bool().Draw(t, "partial")
	for _, n := range rapid.SliceOfNDistinct(rapid.Uint16Range(1, 3), 0, 2, rapid.ID).Draw(t, "ports") {
		req.Ports = append(req.Ports, Port{"TCP", n})
	}
	return req
}

// blocks are disjoint ranges from which pools are drawn.
func blocks(t require.TestingT) []Range {
	var list []Range
	for _, text := range []string{
		"192.0.2.0-192.0.2.2", "192.0.2.254-192.0.3.1", "198.51.100.1/32", "198.51.100.8/31",
		"2001:db8::/127", "2001:db8::8-2001:db8::a", "2001:db8::ff/128",
	} {
		r, _, err := ParseRange(text)
		require.NoError(t, err)
		list = append(list, r)
	}
	return list
}

func drawPools(t *rapid.T) []Pool {
	pools := make([]Pool, rapid.IntRange(1, 4).Draw(t, "pools"))
	scopes := []*Scope{
		nil, nil,
		{AnyNamespace: true},
		{},
		{Namespaces: []string{"n1"}},
		{Namespaces: []string{"n2", "n1"}},
		{AnyNamespace: true, Services: []Selector{labelIs{"tier", "gold"}}},
	}
	for i := range pools {
		pools[i] = Pool{
			Name:          fmt.Sprint("p", i),
			Manual:        rapid.IntRange(0, 4).Draw(t, "manual") == 0,
			AvoidBuggyIPs: rapid.IntRange(0, 3).Draw(t, "avoid") == 0,
			Priority:      rapid.IntRange(0, 2).Draw(t, "priority"),
			Scope:         rapid.SampledFrom(scopes).Draw(t, "scope"),
			Opaque:        rapid.IntRange(0, 7).Draw(t, "opaque") == 0,
		}
	}
	for _, r := range rapid.Permutation(blocks(t)).Draw(t, "blocks") {
		if i := rapid.IntRange(-1, len(pools)-1).Draw(t, "goes to"); i >= 0 && !pools[i].Opaque {
			pools[i].Ranges = append(pools[i].Ranges, r)
		}
	}
	return slices.DeleteFunc(pools, func(p Pool) bool { return !p.Opaque && len(p.Ranges) == 0 })
}

// anyAddress draws an address in or beside the blocks.
func anyAddress(t *rapid.T, f Family) netip.Addr {
	var list []netip.Addr
	for _, r := range blocks(t) {
		if FamilyOf(r.From) == f {
			list = append(list, naive(Pool{Ranges: []Range{r}})...)
		}
	}
	if f == IPv4 {
		list = append(list, netip.MustParseAddr("203.0.113.1"))
	} else {
		list = append(list, netip.MustParseAddr("2001:db8:1::1"))
	}
	return rapid.SampledFrom(list).Draw(t, "address")
}

func (x *machine) assign(t *rapid.T) {
	req := drawRequest(t)
	if rapid.IntRange(0, 3).Draw(t, "explicit") == 0 {
		for _, f := range req.Families {
			req.Addresses = append(req.Addresses, anyAddress(t, f))
		}
	}
	pool, list := x.m.decide(req)
	used := ""
	for _, v := range x.a.Explain(req) {
		if v.Reason == ReasonUsed {
			require.Equal(t, list, v.Addrs)
			used = v.Pool
		}
	}
	require.Equal(t, pool, used, "Explain")
	as, err := x.a.Assign(req)
	if list == nil {
		require.Error(t, err, "model finds nothing, allocator %v", as)
		return
	}
	require.NoError(t, err)
	require.Equal(t, Assignment{req.Owner, pool, list}, as)
	x.m.held[req.Owner] = modelHolding{pool, list, req}
	again, err := x.a.Assign(req)
	require.NoError(t, err)
	require.Equal(t, as, again, "idempotent")
}

func (x *machine) adopt(t *rapid.T) {
	req := drawRequest(t)
	req.Claim = rapid.SampledFrom([]string{"", "p0", "p1", "p2", "p3"}).Draw(t, "claim")
	var list []netip.Addr
	for _, f := range req.Families {
		list = append(list, anyAddress(t, f))
	}
	pool := x.m.home(modelHolding{addrs: list}, cmp.Or(req.Claim, req.Pool))
	for _, addr := range list {
		if !x.m.mayHave(addr, req) {
			pool = ""
		}
		for owner, h := range x.m.held {
			if owner != req.Owner && slices.Contains(h.addrs, addr) && h.pool != pool {
				pool = "" // two claims of opaque pools
			}
		}
	}
	as, err := x.a.Adopt(req, list)
	if pool == "" {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, Assignment{req.Owner, pool, list}, as)
	x.m.held[req.Owner] = modelHolding{pool, list, req}
}

func (x *machine) release(t *rapid.T) {
	owner := drawRequest(t).Owner
	h, held := x.m.held[owner]
	as, ok := x.a.Release(owner)
	require.Equal(t, held, ok)
	if ok {
		require.Equal(t, Assignment{owner, h.pool, h.addrs}, as)
	}
	delete(x.m.held, owner)
}

func (x *machine) setPools(t *rapid.T) {
	x.m.pools = drawPools(t)
	var displaced, renamed []Owner
	for owner, h := range x.m.held {
		switch pool := x.m.home(h, h.pool); {
		case pool == "":
			displaced = append(displaced, owner)
			delete(x.m.held, owner)
		case pool != h.pool:
			renamed = append(renamed, owner)
			h.pool = pool
			x.m.held[owner] = h
		}
	}
	slices.Sort(displaced)
	slices.Sort(renamed)
	change, err := x.a.ReplacePools(x.m.pools)
	require.NoError(t, err)
	var gone, moved []Owner
	for _, d := range change.Displaced {
		gone = append(gone, d.Owner)
	}
	for _, r := range change.Renamed {
		moved = append(moved, r.Owner)
		require.Equal(t, x.m.held[r.Owner].pool, r.Pool)
	}
	require.Equal(t, displaced, gone)
	require.Equal(t, renamed, moved)
}

// restart makes a new allocator that adopts what was held, in any order.
func (x *machine) restart(t *rapid.T) {
	var owners []Owner
	for owner := range x.m.held {
		owners = append(owners, owner)
	}
	slices.Sort(owners)
	var err error
	x.a, err = New(Config{Pools: x.m.pools})
	require.NoError(t, err)
	if len(owners) == 0 {
		return
	}
	for _, owner := range rapid.Permutation(owners).Draw(t, "order") {
		h := x.m.held[owner]
		req := h.req
		req.Claim = h.pool
		as, err := x.a.Adopt(req, h.addrs)
		require.NoError(t, err)
		require.Equal(t, Assignment{owner, h.pool, h.addrs}, as)
	}
}

// check compares everything that can be seen, and the inner books.
func (x *machine) check(t *rapid.T) {
	seen := map[Owner]modelHolding{}
	for owner, as := range x.a.All() {
		require.Equal(t, x.m.held[owner].pool, as.Pool)
		require.Equal(t, x.m.held[owner].addrs, as.Addrs)
		seen[owner] = x.m.held[owner]
	}
	require.Len(t, seen, len(x.m.held))
	distinct := map[netip.Addr]bool{}
	keys := map[groupKey]bool{}
	for o1, h1 := range seen {
		for _, addr := range h1.addrs {
			distinct[addr] = true
			for o2, h2 := range seen {
				require.False(t, o1 != o2 && slices.Contains(h2.addrs, addr) && !mayShare(h1.req, h2.req), "%s held by %s and %s", addr, o1, o2)
			}
		}
		if h1.req.SharingKey != "" {
			keys[groupKey{h1.req.SharingKey, h1.req.BackendKey}] = true
		}
	}
	require.Len(t, x.a.groups, len(keys))
	require.Len(t, distinct, len(x.a.held[0])+len(x.a.held[1]))
	for _, p := range x.m.pools {
		var want Usage
		count := func(addr netip.Addr) *Count {
			if addr.Is4() {
				return &want.V4
			}
			return &want.V6
		}
		list := naive(p)
		for addr := range distinct {
			if p.Opaque && slices.ContainsFunc(x.m.holders(addr), func(h modelHolding) bool { return h.pool == p.Name }) {
				list = append(list, addr)
			}
		}
		for _, addr := range list {
			count(addr).Total++
			if distinct[addr] {
				count(addr).Used++
			} else {
				count(addr).Free++
			}
		}
		got, ok := x.a.Usage(p.Name)
		require.True(t, ok)
		require.Equal(t, want, got, p.Name)
	}
	for _, p := range x.a.table.ordered {
		p.spaces[0].free.check(t)
		p.spaces[1].free.check(t)
	}
}

func (m *model) holders(addr netip.Addr) []modelHolding {
	var list []modelHolding
	for _, h := range m.held {
		if slices.Contains(h.addrs, addr) {
			list = append(list, h)
		}
	}
	return list
}

// For more steps: go test ./allocator -run Model -rapid.checks=2000 -rapid.steps=50
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &machine{m: model{held: map[Owner]modelHolding{}, pools: drawPools(t)}}
		var err error
		x.a, err = New(Config{Pools: x.m.pools})
		require.NoError(t, err)
		t.Repeat(map[string]func(*rapid.T){
			"assign":   x.assign,
			"assign 2": x.assign,
			"assign 3": x.assign,
			"adopt":    x.adopt,
			"release":  x.release,
			"setPools": x.setPools,
			"restart":  x.restart,
			"":         x.check,
		})
	})
}
