package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// alias is the community that a name stands for.
type alias struct {
	value string
	owner string // the Community that defines it
}

type aliases map[string]alias

// communityVersion is one version of a Community that is good in itself.
type communityVersion struct {
	uid     types.UID
	aliases []v1beta1.CommunityAlias
}

// parseCommunity checks one object for itself.
func parseCommunity(obj *v1beta1.Community) (*communityVersion, faults) {
	v := &communityVersion{uid: obj.UID}
	var bad faults
	if obj.Name == "" {
		bad = append(bad, &FieldError{Field: "metadata.name", Reason: "is empty; give the object a name"})
	}
	seen := make(map[string]int)
	for i, c := range obj.Spec.Communities {
		at := fmt.Sprintf("spec.communities[%d]", i)
		if c.Name == "" {
			bad = append(bad, &FieldError{Field: at + ".name", Reason: "is empty; give the community a name"})
		} else if first, twice := seen[c.Name]; twice {
			bad = append(bad, &FieldError{
				Field: at + ".name", Value: c.Name,
				Reason: fmt.Sprintf("is already in spec.communities[%d]; remove one of them", first),
			})
		}
		seen[c.Name] = i
		if err := checkCommunity(c.Value); err != nil {
			bad = append(bad, &FieldError{
				Field: at + ".value", Value: c.Value, Err: err,
				Reason: "is no community; write one such as 64512:7 or large:64512:1:2",
			})
		}
		v.aliases = append(v.aliases, c)
	}
	return v, bad
}

func checkCommunity(text string) error {
	if strings.HasPrefix(text, "large:") {
		_, err := bgp.ParseLargeCommunity(text)
		return err
	}
	_, err := bgp.ParseCommunity(text)
	return err
}

// addAliases collects the names that the objects define, the oldest object first. One that defines a name that an older
// one has is rejected.
func (u *update) addAliases(objs []*v1beta1.Community) aliases {
	all := make(aliases)
	u.store.communities = keepGood(u, v1beta1.KindCommunity, objs, u.store.communities, goodness[*v1beta1.Community, *communityVersion]{
		parse: parseCommunity,
		check: func(v *communityVersion) faults { return all.taken(v) },
		use: func(obj *v1beta1.Community, v *communityVersion) {
			for _, c := range v.aliases {
				if _, taken := all[c.Name]; !taken {
					all[c.Name] = alias{value: c.Value, owner: obj.Name}
				}
			}
		},
		uid:  func(v *communityVersion) types.UID { return v.uid },
		lost: "no earlier version is known, so advertisements that use its names are rejected, too",
	})
	return all
}

// taken names the names that other objects have.
func (a aliases) taken(v *communityVersion) faults {
	var bad faults
	for i, c := range v.aliases {
		if other, taken := a[c.Name]; taken {
			bad = append(bad, &FieldError{
				Field: fmt.Sprintf("spec.communities[%d].name", i), Value: c.Name, Other: other.owner,
				Reason: fmt.Sprintf("is defined by Community %q, which is older and stays; remove one of them", other.owner),
			})
		}
	}
	return bad
}
