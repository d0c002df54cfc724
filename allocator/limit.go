package allocator

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
)

// Limits bounds how many addresses a namespace may hold in all pools together;
// one that several owners of the namespace share counts once. The zero value
// bounds nothing. See also Pool.LimitPerNamespace.
type Limits struct {
	// PerNamespace is for every namespace without an entry in Namespaces. Zero:
	// no limit.
	PerNamespace int
	// Namespaces has the limits of single namespaces. Zero: no limit.
	Namespaces map[string]int
}

func (l Limits) check() error {
	if l.PerNamespace < 0 {
		return fmt.Errorf("limit per namespace %d is negative; use 0 for none", l.PerNamespace)
	}
	for ns, n := range l.Namespaces {
		if n < 0 {
			return fmt.Errorf("limit %d of namespace %q is negative; use 0 for none", n, ns)
		}
	}
	return nil
}

func (l Limits) any() bool { return l.PerNamespace > 0 || len(l.Namespaces) > 0 }

// of returns the limit of a namespace, 0 for none.
func (l Limits) of(namespace string) int {
	if n, ok := l.Namespaces[namespace]; ok {
		return n
	}
	return l.PerNamespace
}

// LimitError tells which limit a request would exceed. It is an ErrLimit.
type LimitError struct {
	Namespace string
	Pool      string // empty: all pools together
	Limit     int
	Held      int // by the namespace, without what the request would give up
}

func (e *LimitError) Error() string {
	where := "in all pools"
	if e.Pool != "" {
		where = fmt.Sprintf("of pool %q", e.Pool)
	}
	return fmt.Sprintf("namespace %q holds %d addresses %s and may hold %d", e.Namespace, e.Held, where, e.Limit)
}

// Is makes every LimitError an ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// SetLimits replaces the limits of namespaces. Who holds more than that keeps
// it and gets nothing more.
func (a *Allocator) SetLimits(limits Limits) error {
	if err := limits.check(); err != nil {
		return err
	}
	limits.Namespaces = maps.Clone(limits.Namespaces)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = limits
	a.tallies = map[string]int{}
	if !limits.any() {
		return nil
	}
	for f := range a.held {
		for _, t := range a.held[f] {
			for ns := range t.namespaces() {
				a.tallies[ns]++
			}
		}
	}
	return nil
}

// tally notes that the namespace of h holds delta more distinct addresses.
// Nothing is counted where nothing is limited.
func (a *Allocator) tally(h *holding, delta int) {
	if h.pool.tallies != nil {
		adjust(h.pool.tallies, h.namespace, delta)
	}
	if a.limits.any() {
		adjust(a.tallies, h.namespace, delta)
	}
}

func adjust(tallies map[string]int, namespace string, delta int) {
	if tallies[namespace] += delta; tallies[namespace] == 0 {
		delete(tallies, namespace)
	}
}

// room returns how many more addresses a namespace may hold in all pools. It is
// negative for one that holds too many.
func (a *Allocator) room(namespace string) int {
	if limit := a.limits.of(namespace); limit > 0 {
		return limit - a.tallies[namespace]
	}
	return math.MaxInt
}

// roomIn returns the same for one pool; w.room must be set.
func (w *wish) roomIn(p *pool) int {
	if p.LimitPerNamespace == 0 {
		return w.room
	}
	return min(w.room, p.LimitPerNamespace-p.tallies[w.req.Namespace])
}

// cost is 0 for an address that the namespace of the request holds already, by
// another owner that shares it, and 1 for others.
func (a *Allocator) cost(w *wish, addr netip.Addr) int {
	s := a.held[FamilyOf(addr).index()][number(addr)].slot
	if s != nil && s.namespaces[w.req.Namespace] > 0 {
		return 0
	}
	return 1
}

// withinLimit checks a placement with addresses that cur may hold in part.
func (a *Allocator) withinLimit(w *wish, cur *holding, pl placement) error {
	if w.roomIn(pl.pool) == math.MaxInt {
		return nil
	}
	if cur != nil {
		if cur.hasAll(pl) {
			return nil // nothing new
		}
		a.remove(cur)
		defer a.restore(cur)
		w.room = a.room(w.req.Namespace)
	}
	cost := 0
	for _, addr := range pl.addrs {
		if addr.IsValid() {
			cost += a.cost(w, addr)
		}
	}
	if cost > 0 && cost > w.roomIn(pl.pool) {
		return a.limitError(w, pl.pool)
	}
	return nil
}

// limitError names the limit that leaves less room in p.
func (a *Allocator) limitError(w *wish, p *pool) *LimitError {
	ns := w.req.Namespace
	if w.roomIn(p) < w.room {
		return &LimitError{Namespace: ns, Pool: p.Name, Limit: p.LimitPerNamespace, Held: p.tallies[ns]}
	}
	return &LimitError{Namespace: ns, Limit: a.limits.of(ns), Held: a.tallies[ns]}
}
