package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Limits of a route. The attributes have to fit into one UPDATE of 4,096 bytes
// (RFC 4271 section 4.1) with room for prefixes.
const (
	MaxPrepend         = 32
	maxCommunityOctets = 2048
)

// Community is a standard community (RFC 1997), the first half in the upper 16 bits.
type Community uint32

func (c Community) String() string {
	return strconv.Itoa(int(c>>16)) + ":" + strconv.Itoa(int(c&0xffff))
}

// ParseCommunity reads "64512:7"; both halves are 0 to 65535 in decimal.
func ParseCommunity(text string) (Community, error) {
	high, low, ok := strings.Cut(text, ":")
	a, errA := strconv.ParseUint(high, 10, 16)
	b, errB := strconv.ParseUint(low, 10, 16)
	if !ok || errA != nil || errB != nil {
		return 0, fmt.Errorf("bgp: community %q: %w: write two numbers of 0 to 65535, such as 64512:7", text, ErrInvalid)
	}
	return Community(a<<16 | b), nil
}

// LargeCommunity is a large community (RFC 8092).
type LargeCommunity struct{ Global, Local1, Local2 uint32 }

func (c LargeCommunity) String() string {
	return fmt.Sprintf("large:%d:%d:%d", c.Global, c.Local1, c.Local2)
}

// Compare orders by the three numbers.
func (c LargeCommunity) Compare(o LargeCommunity) int {
	return cmp.Or(cmp.Compare(c.Global, o.Global), cmp.Compare(c.Local1, o.Local1), cmp.Compare(c.Local2, o.Local2))
}

// ParseLargeCommunity reads "large:64512:1:2"; each number is 0 to 4294967295.
func ParseLargeCommunity(text string) (LargeCommunity, error) {
	parts := strings.Split(text, ":")
	if len(parts) == 4 && parts[0] == "large" {
		var n [3]uint32
		var errs error
		for i, part := range parts[1:] {
			v, err := strconv.ParseUint(part, 10, 32)
			n[i], errs = uint32(v), errors.Join(errs, err)
		}
		if errs == nil {
			return LargeCommunity{n[0], n[1], n[2]}, nil
		}
	}
	return LargeCommunity{}, fmt.Errorf("bgp: community %q: %w: write large: and three numbers of 0 to 4294967295, such as large:64512:1:2", text, ErrInvalid)
}

// Route is one prefix to announce.
type Route struct {
	// Prefix is what is announced; host bits are ignored.
	Prefix netip.Prefix
	// NextHop is the next hop of Prefix's family, or an IPv6 one for an IPv4
	// prefix (RFC 8950). Unset: the address of this side of the session; for
	// the family that is not the session's, see [Peer.Source], else the lowest
	// global address of the link that the session is on. Without one the route
	// is not sent, and [Session.Withheld] counts it.
	NextHop netip.Addr
	// LocalPref is the preference inside the AS. It is sent to internal peers
	// only. Unset: they get the engine's default, 100, since RFC 4271 section 5.1.5
	// wants the attribute there.
	LocalPref *uint32
	// MED is the MULTI_EXIT_DISC; unset: not sent.
	MED *uint32
	// Prepend is how often the own AS number is put in front of the path, in
	// addition to once, for external peers; at most 32.
	Prepend uint8
	// Communities and LargeCommunities are sent sorted and without repetition.
	Communities      []Community
	LargeCommunities []LargeCommunity
	// Peers are the names of the peers that get the route; empty: all. Names that
	// no peer has are ignored.
	Peers []string
}

// RouteError says what is wrong with one route.
type RouteError struct {
	Prefix netip.Prefix
	Field  string // of [Route]
	Reason string
}

func (e *RouteError) Error() string {
	return fmt.Sprintf("bgp: route %s: %s: %s", e.Prefix, e.Field, e.Reason)
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *RouteError) Is(target error) bool { return target == ErrInvalid }

// Validate finds what cannot be announced. The error joins one [*RouteError] for
// each fault.
func (r *Route) Validate() error {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, &RouteError{Prefix: r.Prefix, Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	switch addr := r.Prefix.Addr(); {
	case !r.Prefix.IsValid():
		fail("Prefix", "is not valid")
	case addr.Is4In6():
		fail("Prefix", "is IPv4-mapped: use the IPv4 prefix")
	case addr.IsMulticast():
		fail("Prefix", "is multicast, and the session carries unicast")
	}
	if h := r.NextHop; h.IsValid() {
		switch {
		case h.Is4In6() || h.IsUnspecified() || h.IsMulticast() || h.IsLoopback():
			fail("NextHop", "%s is not the address of a host", h)
		case h.Is4() && r.Prefix.Addr().Is6():
			fail("NextHop", "%s is IPv4, and the prefix is IPv6", h)
		}
	}
	if r.Prepend > MaxPrepend {
		fail("Prepend", "%d is more than %d", r.Prepend, MaxPrepend)
	}
	if n := 4*len(r.Communities) + 12*len(r.LargeCommunities); n > maxCommunityOctets {
		fail("Communities", "take %d octets, and %d have room", n, maxCommunityOctets)
	}
	return errors.Join(errs...)
}

// Normalize returns the route with its prefix masked, and with communities and
// peers sorted and unique in slices of its own.
func (r *Route) Normalize() Route {
	n := *r
	n.Prefix = r.Prefix.Masked()
	n.NextHop = r.NextHop.WithZone("")
	n.Communities = unique(r.Communities, cmp.Compare)
	n.LargeCommunities = unique(r.LargeCommunities, LargeCommunity.Compare)
	n.Peers = unique(r.Peers, cmp.Compare)
	return n
}

func unique[E comparable](list []E, compare func(a, b E) int) []E {
	if len(list) == 0 {
		return nil
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, compare)
	return slices.Compact(sorted)
}

// Equal reports whether two routes, both normalized, are the same.
func (r *Route) Equal(o *Route) bool {
	return r.Prefix == o.Prefix && slices.Equal(r.Peers, o.Peers) && r.sameAttributes(o)
}

func (r *Route) sameAttributes(o *Route) bool {
	return r.NextHop == o.NextHop && r.Prepend == o.Prepend &&
		equal(r.LocalPref, o.LocalPref) && equal(r.MED, o.MED) &&
		slices.Equal(r.Communities, o.Communities) && slices.Equal(r.LargeCommunities, o.LargeCommunities)
}

func equal(a, b *uint32) bool { return a == b || a != nil && b != nil && *a == *b }

// Selects reports whether the peer gets the route.
func (r *Route) Selects(peer string) bool {
	return len(r.Peers) == 0 || slices.Contains(r.Peers, peer)
}

// Merge returns what a peer is sent for one prefix that has the given routes,
// all normalized; false when no route selects the peer. The order of the routes
// does not matter. Communities are united. Of attributes that differ the most
// preferred wins: the highest LOCAL_PREF, the lowest MED, the fewest prepends,
// the lowest next hop; a set one wins over an unset one. Whoever does not want
// that looks at [Table.Conflicts] first.
func Merge(peer string, routes []Route) (Route, bool) {
	var merged Route
	found := false
	for i := range routes {
		r := &routes[i]
		switch {
		case !r.Selects(peer):
		case !found:
			merged, found = *r, true
		case !merged.sameAttributes(r):
			merged.add(r)
		}
	}
	merged.Peers = nil
	return merged, found
}

func (r *Route) add(o *Route) {
	r.LocalPref = pick(r.LocalPref, o.LocalPref, func(a, b uint32) bool { return a >= b })
	r.MED = pick(r.MED, o.MED, func(a, b uint32) bool { return a <= b })
	r.Prepend = min(r.Prepend, o.Prepend)
	if !r.NextHop.IsValid() || o.NextHop.IsValid() && o.NextHop.Less(r.NextHop) {
		r.NextHop = o.NextHop
	}
	r.Communities = unique(slices.Concat(r.Communities, o.Communities), cmp.Compare)
	r.LargeCommunities = unique(slices.Concat(r.LargeCommunities, o.LargeCommunities), LargeCommunity.Compare)
}

func pick(a, b *uint32, better func(a, b uint32) bool) *uint32 {
	if b == nil || a != nil && better(*a, *b) {
		return a
	}
	return b
}
