package allocator

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
			Drain:         rapid.IntRange(0, 7).Draw(t, "drain") == 0,
			Order:         rapid.SampledFrom([]Order{OrderLowest, OrderLowest, OrderSpread}).Draw(t, "order"),
			Quarantine:    time.Duration(rapid.SampledFrom([]int{0, 0, 20, 60}).Draw(t, "quarantine")) * time.Second,
			Displaced:     rapid.SampledFrom([]Policy{PolicyReassign, PolicyReassign, PolicyKeep}).Draw(t, "displaced"),

			LimitPerNamespace: rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "limit"),
		}
	}
	for _, r := range rapid.Permutation(blocks(t)).Draw(t, "blocks") {
		if i := rapid.IntRange(-1, len(pools)-1).Draw(t, "goes to"); i >= 0 && !pools[i].Opaque {
			pools[i].Ranges = append(pools[i].Ranges, r)
		}
	}
	pools = slices.DeleteFunc(pools, func(p Pool) bool { return !p.Opaque && len(p.Ranges) == 0 })
	for i := range pools {
		drawKept(t, &pools[i])
	}
	return pools
}

// drawKept draws exclusions and reservations.
func drawKept(t *rapid.T, p *Pool) {
	pick := func(label string) (netip.Addr, bool) {
		list := naive(*p)
		if p.Opaque || len(list) == 0 || rapid.IntRange(0, 2).Draw(t, label) > 0 {
			return netip.Addr{}, false
		}
		return rapid.SampledFrom(list).Draw(t, label), true
	}
	if addr, ok := pick("exclude"); ok {
		p.Exclude = []Range{{addr, addr}}
	}
	for range 2 {
		if addr, ok := pick("reserve"); ok {
			r := Reservation{addr, Owner(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "for"))}
			if !slices.Contains(p.Reserve, r) {
				p.Reserve = append(p.Reserve, r)
			}
		}
	}
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
	x.m.sweep()
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
	x.m.set(req.Owner, &modelHolding{pool, list, req})
	again, err := x.a.Assign(req)
	require.NoError(t, err)
	require.Equal(t, as, again, "idempotent")
}

func (x *machine) adopt(t *rapid.T) {
	req := drawRequest(t)
	x.m.sweep()
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
	x.m.set(req.Owner, &modelHolding{pool, list, req})
}

func (x *machine) release(t *rapid.T) {
	owner := drawRequest(t).Owner
	h, held := x.m.held[owner]
	as, ok := x.a.Release(owner)
	require.Equal(t, held, ok)
	if ok {
		require.Equal(t, Assignment{owner, h.pool, h.addrs}, as)
	}
	x.m.set(owner, nil)
}

// sleep lets quarantines end.
func (x *machine) sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	x.m.sweep()
}

func (x *machine) setLimits(t *rapid.T) {
	x.m.limits = Limits{
		PerNamespace: rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(t, "limit"),
		Namespaces:   map[string]int{"n1": rapid.IntRange(0, 3).Draw(t, "limit of n1")},
	}
	require.NoError(t, x.a.SetLimits(x.m.limits))
}

func (x *machine) setPools(t *rapid.T) { x.replacePools(t, drawPools(t)) }

// editPools changes what is not about addresses, so that spaces are reused.
func (x *machine) editPools(t *rapid.T) {
	pools := slices.Clone(x.m.pools)
	for i, other := range drawPools(t) {
		if i < len(pools) && !pools[i].Opaque {
			p := &pools[i]
			p.Drain, p.Order, p.Quarantine, p.Displaced = other.Drain, other.Order, other.Quarantine, other.Displaced
			p.Priority, p.Scope, p.LimitPerNamespace = other.Priority, other.Scope, other.LimitPerNamespace
		}
	}
	x.replacePools(t, pools)
}

func (x *machine) replacePools(t *rapid.T, pools []Pool) {
	x.m.sweep()
	// Who is under a pool that is gone already is there because that one kept.
	keeps := func(name string) bool { p := x.m.pool(name); return p == nil || p.Displaced == PolicyKeep }
	kept := map[Owner]bool{}
	for owner, h := range x.m.held {
		kept[owner] = keeps(h.pool)
	}
	x.m.pools = pools
	x.m.sweep()
	var displaced, renamed []Owner
	for owner, h := range x.m.held {
		switch pool := x.m.home(h, h.pool); {
		case pool == "" && x.m.pool(h.pool) == nil && kept[owner] && !x.m.elsewhere(h, nil):
		case pool == "":
			displaced = append(displaced, owner)
		case pool != h.pool:
			renamed = append(renamed, owner)
			h.pool = pool
			x.m.held[owner] = h
		}
	}
	slices.Sort(displaced)
	slices.Sort(renamed)
	for _, owner := range displaced {
		x.m.set(owner, nil)
	}
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
	x.a, err = New(Config{Pools: x.m.pools, Limits: x.m.limits})
	require.NoError(t, err)
	x.m.rests = nil
	if len(owners) == 0 {
		return
	}
	for _, owner := range rapid.Permutation(owners).Draw(t, "order") {
		h := x.m.held[owner]
		req := h.req
		req.Claim = h.pool
		as, err := x.a.Adopt(req, h.addrs)
		if x.m.pool(h.pool) == nil {
			require.ErrorIs(t, err, ErrNotInPool, "nobody knows any more that it was kept")
			delete(x.m.held, owner)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, Assignment{owner, h.pool, h.addrs}, as)
	}
}

// check compares everything that can be seen, and the inner books.
func (x *machine) check(t *rapid.T) {
	var next time.Time
	for _, r := range x.m.rests {
		if until := x.m.until(r); next.IsZero() || until.Before(next) {
			next = until
		}
	}
	got, rests := x.a.NextFree()
	require.Equal(t, len(x.m.rests) > 0, rests)
	require.Equal(t, next, got)
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
			under := func(h modelHolding) bool { return h.pool == p.Name }
			if !slices.Contains(list, addr) && slices.ContainsFunc(x.m.holders(addr), under) {
				list = append(list, addr)
			}
		}
		for _, addr := range list {
			count(addr).Total++
			switch {
			case distinct[addr]:
				count(addr).Used++
			case x.m.isKept(addr):
				count(addr).Kept++
			default:
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
		rapid.SyncTest(t, func(t *rapid.T) {
			x := &machine{m: model{held: map[Owner]modelHolding{}, pools: drawPools(t)}}
			var err error
			x.a, err = New(Config{Pools: x.m.pools})
			require.NoError(t, err)
			t.Repeat(map[string]func(*rapid.T){
				"assign":    x.assign,
				"assign 2":  x.assign,
				"assign 3":  x.assign,
				"assign 4":  x.assign,
				"adopt":     x.adopt,
				"release":   x.release,
				"release 2": x.release,
				"sleep":     x.sleep,
				"setLimits": x.setLimits,
				"setPools":  x.setPools,
				"editPools": x.editPools,
				"restart":   x.restart,
				"":          x.check,
			})
		})
	})
}
