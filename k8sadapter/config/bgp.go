package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Lengths of the prefixes that hold one address.
const (
	host4 = 32
	host6 = 128
)

// BGPAdvertisement is an advertisement to routers in force.
type BGPAdvertisement struct {
	Name string
	// LocalPref is the LOCAL_PREF of the routes, nil for none.
	LocalPref *uint32
	// Communities and LargeCommunities of the routes, sorted and unique, with the names resolved.
	Communities      []bgp.Community
	LargeCommunities []bgp.LargeCommunity
	// Peers are the names of the peers that are told, sorted; empty means all of them.
	Peers []string

	selection
	uid     types.UID
	length4 int
	length6 int
	except  []string // pools that it selects and cannot announce, see Rejected
}

// MatchesPool says whether the addresses of the pool are announced.
func (a BGPAdvertisement) MatchesPool(pool Pool) bool {
	return a.selection.MatchesPool(pool) && !slices.Contains(a.except, pool.Name)
}

// Route returns the route that the advertisement makes of an address.
func (a BGPAdvertisement) Route(addr netip.Addr) bgp.Route {
	prefix, err := bgp.Aggregate(addr, a.length(addr.Unmap().Is4()))
	if err != nil {
		return bgp.Route{} // not reached: the lengths were checked
	}
	return bgp.Route{
		Prefix: prefix, LocalPref: a.LocalPref, Communities: a.Communities, LargeCommunities: a.LargeCommunities, Peers: a.Peers,
	}
}

func (a BGPAdvertisement) length(is4 bool) int {
	if is4 {
		return a.length4
	}
	return a.length6
}

// ConflictsWith says whether some peer would be told two preferences for one route, if one node announced the addresses
// under both advertisements. MetalLB's rule for a pool, or addresses, of both families is that the lengths must differ
// in both.
func (a BGPAdvertisement) ConflictsWith(b BGPAdvertisement, has4, has6 bool) bool {
	if samePref(a.LocalPref, b.LocalPref) || !overlapping(a.Peers, b.Peers) {
		return false
	}
	return has4 && a.length4 == b.length4 || has6 && a.length6 == b.length6
}

func samePref(a, b *uint32) bool { return a == b || a != nil && b != nil && *a == *b }

// overlapping says whether two lists of names have one in common; an empty list stands for all names.
func overlapping(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// BGPFor returns the advertisements to routers that cover the addresses of the pool, for any node and Service, sorted by
// name.
func (c Config) BGPFor(pool Pool) []BGPAdvertisement {
	var out []BGPAdvertisement
	for _, a := range c.BGP {
		if a.MatchesPool(pool) {
			out = append(out, a)
		}
	}
	return out
}

// parseBGP checks one advertisement for itself, with the names that Communities define.
func parseBGP(obj *v1beta1.BGPAdvertisement, aliases aliases) (*BGPAdvertisement, faults) {
	a := &BGPAdvertisement{Name: obj.Name, uid: obj.UID, length4: host4, length6: host6}
	var bad faults
	if obj.Name == "" {
		bad = append(bad, &FieldError{Field: "metadata.name", Reason: "is empty; give the advertisement a name"})
	}
	var f faults
	a.selection, f = parseSelection(obj.Spec.IPAddressPools, obj.Spec.IPAddressPoolSelectors, obj.Spec.NodeSelectors, obj.Spec.ServiceSelectors)
	bad = append(bad, f...)
	bad = append(bad, duplicateStrings("spec.peers", obj.Spec.Peers)...)
	a.Peers = slices.Sorted(slices.Values(obj.Spec.Peers))
	if obj.Spec.LocalPref != 0 {
		a.LocalPref = &obj.Spec.LocalPref
	}
	hosts := len(obj.Spec.ServiceSelectors) > 0
	bad = append(bad, parseLength("spec.aggregationLength", obj.Spec.AggregationLength, &a.length4, host4, hosts)...)
	bad = append(bad, parseLength("spec.aggregationLengthV6", obj.Spec.AggregationLengthV6, &a.length6, host6, hosts)...)
	return a, append(bad, a.parseCommunities(obj.Spec.Communities, aliases)...)
}

func parseLength(field string, in *int32, out *int, longest int, hosts bool) faults {
	if in == nil {
		return nil
	}
	*out = int(*in)
	switch {
	case *out < 1 || *out > longest:
		return faults{&FieldError{Field: field, Value: strconv.Itoa(*out), Reason: fmt.Sprintf("is outside 1 to %d", longest)}}
	case hosts && *out != longest:
		return faults{&FieldError{
			Field: field, Value: strconv.Itoa(*out),
			Reason: fmt.Sprintf("must be %d with serviceSelectors, since the prefix holds the addresses of other Services, too", longest),
		}}
	}
	return nil
}

func (a *BGPAdvertisement) parseCommunities(in []string, known aliases) faults {
	const field = "spec.communities"
	bad := duplicateStrings(field, in)
	for i, text := range in {
		value := text
		if alias, ok := known[text]; ok {
			value = alias.value
		}
		if err := a.addCommunity(value); err != nil {
			bad = append(bad, &FieldError{
				Field: fmt.Sprintf("%s[%d]", field, i), Value: text, Err: err,
				Reason: "is neither a community, such as 64512:7 or large:64512:1:2, nor a name that a Community defines",
			})
		}
	}
	slices.Sort(a.Communities)
	a.Communities = slices.Compact(a.Communities)
	slices.SortFunc(a.LargeCommunities, bgp.LargeCommunity.Compare)
	a.LargeCommunities = slices.Compact(a.LargeCommunities)
	return bad
}

func (a *BGPAdvertisement) addCommunity(text string) error {
	if strings.HasPrefix(text, "large:") {
		c, err := bgp.ParseLargeCommunity(text)
		if err == nil {
			a.LargeCommunities = append(a.LargeCommunities, c)
		}
		return err
	}
	c, err := bgp.ParseCommunity(text)
	if err == nil {
		a.Communities = append(a.Communities, c)
	}
	return err
}

// tooWide names the first range of the pool that a prefix of the advertisement's length reaches beyond.
func (a *BGPAdvertisement) tooWide(pool Pool) *FieldError {
	for _, r := range pool.Alloc.Ranges {
		field, length := "spec.aggregationLength", a.length4
		if r.From.Is6() {
			field, length = "spec.aggregationLengthV6", a.length6
		}
		if widest := widest(r); length < widest {
			return &FieldError{
				Field: field, Value: strconv.Itoa(length), Other: pool.Name,
				Reason: fmt.Sprintf("reaches beyond %s of IPAddressPool %q; use %d or more, or leave the pool out", r, pool.Name, widest),
			}
		}
	}
	return nil
}

// widest is the length of the widest prefix within a range.
func widest(r allocator.Range) int {
	prefixes := netipx.IPRangeFrom(r.From, r.To).Prefixes()
	if len(prefixes) == 0 {
		return 0
	}
	return slices.MinFunc(prefixes, func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) }).Bits()
}

// families says of which families a pool has addresses. Those of an opaque pool are not known.
func families(p Pool) (has4, has6 bool) {
	for _, r := range p.Alloc.Ranges {
		has4, has6 = has4 || r.From.Is4(), has6 || r.From.Is6()
	}
	return has4, has6
}
