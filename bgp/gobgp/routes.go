package gobgp

import (
	"errors"
	"net/netip"

	"github.com/heraldlb/herald/bgp"
)

// routeTable is the desired state: all routes by prefix, normalized. The slices
// of routes in it are never changed, only replaced, so that a session may read
// them after the lock is gone.
type routeTable struct {
	entries map[netip.Prefix]*entry
	round   uint64 // of replace
}

type entry struct {
	routes []bgp.Route
	round  uint64 // in which seen was counted
	seen   int    // routes of the prefix found so far, all equal to those held
}

func newRouteTable() routeTable { return routeTable{entries: make(map[netip.Prefix]*entry)} }

// replace makes routes the whole content and returns the prefixes that changed.
// What is equal is neither copied nor validated again.
func (t *routeTable) replace(routes []bgp.Route) ([]netip.Prefix, error) {
	t.round++
	rebuilt := make(map[netip.Prefix][]bgp.Route)
	for i := range routes {
		if p := routes[i].Prefix.Masked(); !t.unchanged(p, &routes[i]) {
			rebuilt[p] = nil
		}
	}
	for p, en := range t.entries {
		if en.round != t.round || en.seen != len(en.routes) {
			rebuilt[p] = nil
		}
	}
	if len(rebuilt) == 0 {
		return nil, nil
	}
	var errs []error
	bad := make(map[netip.Prefix]bool)
	for i := range routes {
		p := routes[i].Prefix.Masked()
		list, ok := rebuilt[p]
		if !ok {
			continue
		}
		if err := routes[i].Validate(); err != nil {
			errs, bad[p] = append(errs, err), true
			continue
		}
		rebuilt[p] = append(list, routes[i].Normalize())
	}
	dirty := make([]netip.Prefix, 0, len(rebuilt))
	for p, list := range rebuilt {
		if !bad[p] && t.put(p, list) {
			dirty = append(dirty, p)
		}
	}
	return dirty, errors.Join(errs...)
}

// unchanged reports whether r is what stands at the next place of the prefix.
func (t *routeTable) unchanged(p netip.Prefix, r *bgp.Route) bool {
	en := t.entries[p]
	if en == nil {
		return false
	}
	if en.round != t.round {
		en.round, en.seen = t.round, 0
	}
	if en.seen == len(en.routes) {
		return false
	}
	masked := *r
	masked.Prefix = p
	if !en.routes[en.seen].Equal(&masked) {
		return false
	}
	en.seen++
	return true
}

// update replaces the routes of single prefixes.
func (t *routeTable) update(changes []bgp.Change) ([]netip.Prefix, error) {
	var dirty []netip.Prefix
	var errs []error
	for _, c := range changes {
		p := c.Prefix.Masked()
		list := make([]bgp.Route, 0, len(c.Routes))
		var bad error
		for i := range c.Routes {
			r := &c.Routes[i]
			if r.Prefix.Masked() != p {
				bad = errors.Join(bad, &bgp.RouteError{Prefix: r.Prefix, Field: "Prefix", Reason: "is in a change of " + p.String()})
			}
			bad = errors.Join(bad, r.Validate())
			list = append(list, r.Normalize())
		}
		if bad != nil {
			errs = append(errs, bad)
		} else if t.put(p, list) {
			dirty = append(dirty, p)
		}
	}
	return dirty, errors.Join(errs...)
}

// put stores the routes of a prefix, and reports whether they are others.
func (t *routeTable) put(p netip.Prefix, routes []bgp.Route) bool {
	en := t.entries[p]
	switch {
	case len(routes) == 0:
		delete(t.entries, p)
		return en != nil
	case en == nil:
		t.entries[p] = &entry{routes: routes}
		return true
	case equalRoutes(en.routes, routes):
		return false
	}
	t.entries[p] = &entry{routes: routes}
	return true
}

func equalRoutes(a, b []bgp.Route) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(&b[i]) {
			return false
		}
	}
	return true
}

// get returns the routes of a prefix; nil when there is none.
func (t *routeTable) get(p netip.Prefix) []bgp.Route {
	if en := t.entries[p]; en != nil {
		return en.routes
	}
	return nil
}
