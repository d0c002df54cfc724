package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// named is an object of which the store remembers versions.
type named interface {
	comparable
	object
}

// goodness says how objects of a kind are judged and used.
type goodness[O named, V any] struct {
	parse func(O) (V, faults)
	check func(V) faults // against what is in force already; nil for no check
	use   func(O, V)     // puts a version in force
	uid   func(V) types.UID
	lost  string // what it means that no good version is known
}

// keepGood puts the present version of each object in force, or else the last good one, and returns the good ones for the
// next time. The objects come by age.
func keepGood[O named, V any](u *update, kind string, objs []O, last map[string]V, g goodness[O, V]) map[string]V {
	good := make(map[string]V, len(objs))
	seen := make(map[string]bool, len(objs))
	for _, obj := range objs {
		name := obj.GetName()
		if seen[name] {
			u.reject(kind, obj, faults{duplicateName(obj)}, false, "the other one is in force")
			continue
		}
		seen[name] = name != ""
		v, bad := g.parse(obj)
		if len(bad) == 0 && g.check != nil {
			bad = g.check(v)
		}
		if len(bad) == 0 {
			good[name] = v
			g.use(obj, v)
			continue
		}
		old, known := last[name]
		if !known || g.uid(old) != obj.GetUID() {
			u.reject(kind, obj, bad, false, g.lost)
			continue
		}
		u.reject(kind, obj, bad, true, "its last good version stays in force")
		good[name] = old
		g.use(obj, old)
	}
	return good
}

// addBGP puts advertisements in force, the oldest first. A version that is good in itself may still not go together with a
// pool: its prefixes reach beyond it, or an older advertisement gives other preferences to the same routes. It is then
// rejected in favour of the last good version, and what is in force leaves such a pool out.
func (u *update) addBGP(objs []*v1beta1.BGPAdvertisement, known aliases, nodes []*corev1.Node) {
	good := make(map[string]*BGPAdvertisement, len(objs))
	seen := make(map[string]bool, len(objs))
	const kind = v1beta1.KindBGPAdvertisement
	for _, obj := range objs {
		if seen[obj.Name] {
			u.reject(kind, obj, faults{duplicateName(obj)}, false, "the other one is in force")
			continue
		}
		seen[obj.Name] = obj.Name != ""
		v, bad := parseBGP(obj, known)
		var except []string
		if len(bad) == 0 {
			except, bad = u.misfits(v, nodes)
			if len(bad) == 0 {
				u.warnBGP(obj)
			}
		}
		old := u.store.bgp[obj.Name]
		kept := len(bad) > 0 && old != nil && old.uid == obj.UID
		effect := "no earlier version is known, so there is no way to know what it would announce, and it announces nothing"
		switch {
		case len(bad) == 0:
		case kept:
			v, effect = old, "its last good version stays in force"
			except, _ = u.misfits(v, nodes)
		case len(except) > 0: // good in itself
			effect = "it is in force for other pools"
		default:
			v = nil
		}
		if kept && len(except) > 0 {
			effect += fmt.Sprintf(", but for the pools %q, with which it does not go together", except)
		}
		if len(bad) > 0 {
			u.reject(kind, obj, bad, kept, effect)
		}
		if v != nil {
			good[obj.Name] = v
			inForce := *v
			inForce.except = except
			u.cfg.BGP = append(u.cfg.BGP, inForce)
		}
	}
	u.store.bgp = good
}

// misfits returns the pools that the version selects and does not go together with, and why.
func (u *update) misfits(v *BGPAdvertisement, nodes []*corev1.Node) (pools []string, bad faults) {
	for _, pool := range u.cfg.Pools {
		if !v.selection.MatchesPool(pool) {
			continue
		}
		fault := v.tooWide(pool)
		if fault == nil {
			fault = u.contradiction(v, pool, nodes)
		}
		if fault != nil {
			pools, bad = append(pools, pool.Name), append(bad, fault)
		}
	}
	return pools, bad
}

// contradiction finds an older advertisement that gives other preferences to the same routes. Those with service selectors
// may meet on no Service: they are compared when a Service is announced.
func (u *update) contradiction(v *BGPAdvertisement, pool Pool, nodes []*corev1.Node) *FieldError {
	if len(v.services) > 0 {
		return nil
	}
	has4, has6 := families(pool)
	for _, other := range u.cfg.BGP {
		if len(other.services) > 0 || !other.MatchesPool(pool) || !v.ConflictsWith(other, has4, has6) || !meet(*v, other, nodes) {
			continue
		}
		return &FieldError{
			Field: "spec.localPref", Value: prefText(v.LocalPref), Other: other.Name,
			Reason: fmt.Sprintf("contradicts BGPAdvertisement %q, which is older and gives %s to the same routes of IPAddressPool %q; make them equal, or separate them by peers, nodes or aggregation length",
				other.Name, prefText(other.LocalPref), pool.Name),
		}
	}
	return nil
}

func meet(a, b BGPAdvertisement, nodes []*corev1.Node) bool {
	for _, n := range nodes {
		if n != nil && a.MatchesNode(n.Labels) && b.MatchesNode(n.Labels) {
			return true
		}
	}
	return false
}

func prefText(p *uint32) string {
	if p == nil {
		return "0"
	}
	return fmt.Sprint(*p)
}

func (u *update) warnBGP(obj *v1beta1.BGPAdvertisement) {
	const kind = v1beta1.KindBGPAdvertisement
	u.cfg.Warnings = append(u.cfg.Warnings,
		unknownNames(kind, obj, "spec.ipAddressPools", obj.Spec.IPAddressPools, v1beta1.KindIPAddressPool, u.isPool)...)
	u.cfg.Warnings = append(u.cfg.Warnings,
		unknownNames(kind, obj, "spec.peers", obj.Spec.Peers, v1beta2.KindBGPPeer, func(name string) bool { return u.store.peers[name] != nil })...)
}
