package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// Objects are all the objects of a configuration. The order of the lists does not matter; nil entries are skipped.
type Objects struct {
	Pools            []*v1beta1.IPAddressPool
	L2Advertisements []*v1beta1.L2Advertisement
	// Namespaces are those that the namespace selectors of the pools choose from.
	Namespaces []*corev1.Namespace

	BGPPeers          []*v1beta2.BGPPeer
	BGPAdvertisements []*v1beta1.BGPAdvertisement
	BFDProfiles       []*v1beta1.BFDProfile
	Communities       []*v1beta1.Community
	// Secrets are those that may hold the passwords of peers.
	Secrets []*corev1.Secret
	// Nodes are those that BGPAdvertisements may meet on: two that no node has in common do not contradict each other.
	Nodes []*corev1.Node
}

// Store makes configurations, and remembers the last good version of every object for the case that the next one is
// bad. The zero value is ready. A Store is for one goroutine at a time.
type Store struct {
	pools map[string]*poolVersion
	ads   map[string]*L2Advertisement

	peers       map[string]*peerVersion
	bgp         map[string]*BGPAdvertisement
	bfd         map[string]*BFDProfile
	communities map[string]*communityVersion
}

// Update returns the configuration that is in force with these objects. What is wrong with them is in it, too.
// An object that is not among them is gone, and so is the memory of its last good version; the same holds for one
// that was deleted and created again, which the UID tells.
func (s *Store) Update(in Objects) Config {
	u := update{store: s, namespaces: in.Namespaces}
	u.placePools(byAge(in.Pools))
	u.cfg.sort() // so that the advertisements can ask for pools by name
	u.addL2(byAge(in.L2Advertisements))
	u.addBFD(byAge(in.BFDProfiles))
	u.addPeers(byAge(in.BGPPeers), in.Secrets)
	u.addBGP(byAge(in.BGPAdvertisements), u.addAliases(byAge(in.Communities)), in.Nodes)
	u.cfg.sort()
	return u.cfg
}

// update is one run of Update.
type update struct {
	store      *Store
	namespaces []*corev1.Namespace
	cfg        Config
}

// placePools decides which version of each pool is in force, the oldest pool first.
func (u *update) placePools(objs []*v1beta1.IPAddressPool) {
	good := make(map[string]*poolVersion, len(objs))
	placed := make(map[string]bool, len(objs))
	for _, obj := range objs {
		if placed[obj.Name] {
			u.reject(v1beta1.KindIPAddressPool, obj, faults{duplicateName(obj)}, false, "the other one is in force")
			continue
		}
		placed[obj.Name] = obj.Name != ""
		v, warnings, bad := parsePool(obj)
		if len(bad) == 0 {
			bad = u.overlaps(v)
		}
		if len(bad) == 0 {
			u.place(v, v.alloc.Ranges, v.entries)
			u.cfg.Warnings = append(u.cfg.Warnings, warnings...)
			u.warnUnserved(obj)
			good[obj.Name] = v
			continue
		}
		if last := u.store.pools[obj.Name]; last != nil && last.uid == obj.UID {
			u.keepPool(obj, last, bad)
			good[obj.Name] = last
			continue
		}
		if obj.Name != "" {
			u.cfg.Pools = append(u.cfg.Pools, opaquePool(obj))
		}
		u.reject(v1beta1.KindIPAddressPool, obj, bad, false,
			"no earlier version is known, so addresses that Services hold in it stay with them, and nothing new is given from it")
	}
	u.store.pools = good
}

// overlaps names the older pools that have taken addresses of the version.
func (u *update) overlaps(v *poolVersion) faults {
	var bad faults
	for i, r := range v.alloc.Ranges {
		other, overlap := u.cfg.claims.overlapping(r)
		if !overlap {
			continue
		}
		bad = append(bad, &FieldError{
			Field: fmt.Sprintf("spec.addresses[%d]", i), Value: v.entries[i], Other: other.pool,
			Reason: fmt.Sprintf("overlaps %s of IPAddressPool %q, which is older and stays; remove what is in both from one of them",
				quote(other.text), other.pool),
		})
	}
	return bad
}

// place puts a version in force with the ranges, which overlap nothing, and their texts.
func (u *update) place(v *poolVersion, ranges []allocator.Range, entries []string) {
	p := v.pool(ranges, u.namespaces)
	u.cfg.Pools = append(u.cfg.Pools, p)
	for i, r := range ranges {
		u.cfg.claims.add(claim{Range: r, pool: p.Name, text: entries[i]})
	}
}

// keepPool puts the last good version in force, less what older pools have taken since.
func (u *update) keepPool(obj *v1beta1.IPAddressPool, last *poolVersion, bad faults) {
	const kind = v1beta1.KindIPAddressPool
	if len(u.overlaps(last)) == 0 {
		u.place(last, last.alloc.Ranges, last.entries)
		u.reject(kind, obj, bad, true, "its last good version stays in force")
		return
	}
	var left []allocator.Range
	var entries []string
	for _, r := range last.alloc.Ranges {
		for _, part := range u.cfg.claims.free(r) {
			left = append(left, part)
			entries = append(entries, part.String())
		}
	}
	if len(left) == 0 {
		u.cfg.Pools = append(u.cfg.Pools, opaquePool(obj))
		u.reject(kind, obj, bad, false, "older pools have taken all addresses of its last good version, so nothing new is given from it")
		return
	}
	u.place(last, left, entries)
	u.reject(kind, obj, bad, true, "its last good version stays in force, less the addresses that older pools have taken")
}

// warnUnserved warns when the pool that was placed last serves nobody.
func (u *update) warnUnserved(obj *v1beta1.IPAddressPool) {
	s := u.cfg.Pools[len(u.cfg.Pools)-1].Alloc.Scope
	if s == nil || s.AnyNamespace || len(s.Namespaces) > 0 {
		return
	}
	const field = "spec.serviceAllocation.namespaceSelectors"
	u.cfg.Warnings = append(u.cfg.Warnings, poolWarning(obj, field,
		field+": match no namespace, and none is listed by name; the pool serves nobody"))
}

func (u *update) addL2(objs []*v1beta1.L2Advertisement) {
	good := make(map[string]*L2Advertisement, len(objs))
	seen := make(map[string]bool, len(objs))
	for _, obj := range objs {
		if seen[obj.Name] {
			u.reject(v1beta1.KindL2Advertisement, obj, faults{duplicateName(obj)}, false, "the other one is in force")
			continue
		}
		seen[obj.Name] = obj.Name != ""
		a, bad := parseL2(obj)
		if len(bad) == 0 {
			u.cfg.Warnings = append(u.cfg.Warnings,
				unknownNames(v1beta1.KindL2Advertisement, obj, "spec.ipAddressPools", obj.Spec.IPAddressPools, v1beta1.KindIPAddressPool, u.isPool)...)
			good[obj.Name] = a
			u.cfg.L2 = append(u.cfg.L2, *a)
			continue
		}
		if last := u.store.ads[obj.Name]; last != nil && last.uid == obj.UID {
			u.reject(v1beta1.KindL2Advertisement, obj, bad, true, "its last good version stays in force")
			good[obj.Name] = last
			u.cfg.L2 = append(u.cfg.L2, *last)
			continue
		}
		u.reject(v1beta1.KindL2Advertisement, obj, bad, false,
			"no earlier version is known, so there is no way to know what it would announce, and it announces nothing")
	}
	u.store.ads = good
}

func (u *update) isPool(name string) bool {
	_, ok := u.cfg.Pool(name)
	return ok
}

// object is what every kind of a configuration is.
type object interface {
	runtime.Object
	metav1.Object
}

func (u *update) reject(kind string, obj object, bad faults, kept bool, effect string) {
	u.cfg.Rejected = append(u.cfg.Rejected, Rejection{
		Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Object: obj, Err: bad.err(), Kept: kept, effect: effect,
	})
}

func duplicateName(obj metav1.Object) *FieldError {
	return &FieldError{
		Field: "metadata.name", Value: obj.GetName(), Other: obj.GetName(),
		Reason: "is the name of an older object of the same kind; rename or remove one of them",
	}
}

// byAge returns the objects without the nil ones, sorted by creationTimestamp and name. What makes two objects of one
// name different breaks the tie, so that the order of in never matters.
func byAge[T interface {
	comparable
	object
}](in []T) []T {
	var none T
	out := slices.DeleteFunc(slices.Clone(in), func(o T) bool { return o == none })
	slices.SortFunc(out, func(a, b T) int {
		at, bt := a.GetCreationTimestamp().Time, b.GetCreationTimestamp().Time
		if c := cmp.Or(at.Compare(bt), strings.Compare(a.GetName(), b.GetName()),
			strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(string(a.GetUID()), string(b.GetUID()))); c != 0 {
			return c
		}
		return strings.Compare(text(a), text(b))
	})
	return out
}

// text is the object as JSON. Objects of this package's kinds always have one.
func text(obj any) string {
	out, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
