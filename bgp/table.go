package bgp

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Owner identifies whom routes are announced for; opaque to this package.
type Owner string

// Change is the whole new state of one prefix.
type Change struct {
	Prefix netip.Prefix
	// Routes are all routes of the prefix from now on; none withdraws it.
	Routes []Route
}

// Conflict says that owners of one prefix want an attribute to differ for some
// peer. [Merge] says what is announced in spite of that.
type Conflict struct {
	Prefix netip.Prefix
	Field  string  // "LocalPref", "MED", "Prepend" or "NextHop"
	Owners []Owner // all that take part, sorted
}

func (c Conflict) String() string {
	names := make([]string, len(c.Owners))
	for i, o := range c.Owners {
		names[i] = string(o)
	}
	return fmt.Sprintf("%s: %s differs between %s", c.Prefix, c.Field, strings.Join(names, ", "))
}

// Aggregate returns the prefix of the given length that holds an address.
func Aggregate(addr netip.Addr, bits int) (netip.Prefix, error) {
	p, err := addr.Unmap().WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("bgp: aggregate %s to length %d: %w: %w", addr, bits, ErrInvalid, err)
	}
	return p, nil
}

// Table keeps the routes of many owners and counts who needs which prefix: a
// prefix is announced as long as one owner wants it, whatever the others do.
// What it holds depends on its present content only, never on the order in which
// it came. The zero Table is empty and ready. Its methods must not be called
// concurrently.
type Table struct {
	prefixes map[netip.Prefix]map[Owner][]Route
	owners   map[Owner][]netip.Prefix // sorted
}

// Set replaces everything that an owner wants, and returns the prefixes whose
// routes are others now, sorted. Several routes of one owner for one prefix are
// fine. The cost depends on the routes of this owner, not on the size of the
// table. On an error nothing has changed.
func (t *Table) Set(owner Owner, routes []Route) ([]Change, error) {
	want := make(map[netip.Prefix][]Route, len(routes))
	for i := range routes {
		if err := routes[i].Validate(); err != nil {
			return nil, fmt.Errorf("owner %q: %w", owner, err)
		}
		r := routes[i].Normalize()
		want[r.Prefix] = append(want[r.Prefix], r)
	}
	if t.prefixes == nil {
		t.prefixes = make(map[netip.Prefix]map[Owner][]Route)
		t.owners = make(map[Owner][]netip.Prefix)
	}
	touched := slices.Collect(maps.Keys(want))
	for _, p := range t.owners[owner] {
		if _, kept := want[p]; !kept {
			touched = append(touched, p)
		}
	}
	slices.SortFunc(touched, netip.Prefix.Compare)

	var changes []Change
	for _, p := range touched {
		before := t.routes(p)
		t.replace(p, owner, want[p])
		if after := t.routes(p); !slices.EqualFunc(before, after, func(a, b Route) bool { return a.Equal(&b) }) {
			changes = append(changes, Change{Prefix: p, Routes: after})
		}
	}
	delete(t.owners, owner)
	if len(want) > 0 {
		t.owners[owner] = slices.SortedFunc(maps.Keys(want), netip.Prefix.Compare)
	}
	return changes, nil
}

// Delete removes an owner, as Set with no routes.
func (t *Table) Delete(owner Owner) []Change {
	changes, _ := t.Set(owner, nil) // no route, no fault
	return changes
}

func (t *Table) replace(p netip.Prefix, owner Owner, routes []Route) {
	holders := t.prefixes[p]
	switch {
	case len(routes) > 0 && holders == nil:
		t.prefixes[p] = map[Owner][]Route{owner: routes}
	case len(routes) > 0:
		holders[owner] = routes
	default:
		delete(holders, owner)
		if len(holders) == 0 {
			delete(t.prefixes, p)
		}
	}
}

// routes returns the routes of a prefix: one for each set of peers that somebody
// names, sorted by that set.
func (t *Table) routes(p netip.Prefix) []Route {
	var all []Route
	for _, routes := range t.prefixes[p] {
		all = append(all, routes...)
	}
	slices.SortStableFunc(all, func(a, b Route) int { return slices.Compare(a.Peers, b.Peers) })
	merged := all[:0]
	for _, r := range all {
		if last := len(merged) - 1; last >= 0 && slices.Equal(merged[last].Peers, r.Peers) {
			merged[last].add(&r)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// Routes returns the whole content, sorted by prefix, for [Speaker.SetRoutes].
func (t *Table) Routes() []Route {
	var all []Route
	for _, p := range slices.SortedFunc(maps.Keys(t.prefixes), netip.Prefix.Compare) {
		all = append(all, t.routes(p)...)
	}
	return all
}

// Owners returns who wants a prefix, sorted.
func (t *Table) Owners(prefix netip.Prefix) []Owner {
	return slices.Sorted(maps.Keys(t.prefixes[prefix.Masked()]))
}

// Conflicts returns where owners contradict each other, sorted.
func (t *Table) Conflicts() []Conflict {
	var all []Conflict
	for p, holders := range t.prefixes {
		if len(holders) > 1 {
			all = append(all, conflicts(p, holders)...)
		}
	}
	slices.SortFunc(all, func(a, b Conflict) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Field, b.Field))
	})
	return all
}

func conflicts(p netip.Prefix, holders map[Owner][]Route) []Conflict {
	fields := map[string]func(a, b *Route) bool{
		"LocalPref": func(a, b *Route) bool { return equal(a.LocalPref, b.LocalPref) },
		"MED":       func(a, b *Route) bool { return equal(a.MED, b.MED) },
		"Prepend":   func(a, b *Route) bool { return a.Prepend == b.Prepend },
		"NextHop":   func(a, b *Route) bool { return a.NextHop == b.NextHop },
	}
	owners := slices.Sorted(maps.Keys(holders))
	var found []Conflict
	for field, same := range fields {
		involved := make(map[Owner]bool)
		for i, a := range owners {
			for _, b := range owners[i+1:] {
				if disagree(holders[a], holders[b], same) {
					involved[a], involved[b] = true, true
				}
			}
		}
		if len(involved) > 0 {
			found = append(found, Conflict{Prefix: p, Field: field, Owners: slices.Sorted(maps.Keys(involved))})
		}
	}
	return found
}

// disagree reports whether some peer gets routes of both sides that differ.
func disagree(a, b []Route, same func(a, b *Route) bool) bool {
	for i := range a {
		for j := range b {
			if overlap(a[i].Peers, b[j].Peers) && !same(&a[i], &b[j]) {
				return true
			}
		}
	}
	return false
}

func overlap(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
