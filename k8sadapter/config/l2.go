package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// L2Advertisement is an advertisement in force.
type L2Advertisement struct {
	Name string
	// Interfaces are the links to announce on, sorted. Empty means every link.
	Interfaces []string
	// HasServiceSelectors says that the advertisement is for some Services only.
	HasServiceSelectors bool

	selection
	uid       types.UID
	preferred []preference
	key       string
}

type preference struct {
	Weight int
	Nodes  labelSelector
}

// Score returns how much the advertisement prefers a node with these labels: the sum of the weights of the
// preferences that match. It is 0 for a node that may not announce.
func (a L2Advertisement) Score(labels map[string]string) int {
	if len(a.preferred) == 0 || !a.MatchesNode(labels) {
		return 0
	}
	score := 0
	for _, p := range a.preferred {
		if p.Nodes.Matches(labels) {
			score += p.Weight
		}
	}
	return score
}

// LinksFor returns the links on which a node with these labels announces what the advertisements cover: the union of
// their interfaces, sorted, or none when one of them is for every link. ok is false when no advertisement lets the
// node announce.
func LinksFor(ads []L2Advertisement, nodeLabels map[string]string) (links []string, ok bool) {
	every := false
	for _, a := range ads {
		if !a.MatchesNode(nodeLabels) {
			continue
		}
		ok = true
		every = every || len(a.Interfaces) == 0
		links = append(links, a.Interfaces...)
	}
	if every {
		return nil, ok
	}
	slices.Sort(links)
	return slices.Compact(links), ok
}

// parseL2 checks one advertisement.
func parseL2(obj *v1beta1.L2Advertisement) (*L2Advertisement, faults) {
	a := &L2Advertisement{
		Name: obj.Name, HasServiceSelectors: len(obj.Spec.ServiceSelectors) > 0,
		uid: obj.UID,
	}
	if len(obj.Spec.Interfaces) > 0 {
		a.Interfaces = slices.Compact(slices.Sorted(slices.Values(obj.Spec.Interfaces)))
	}
	var bad faults
	if obj.Name == "" {
		bad = append(bad, &FieldError{Field: "metadata.name", Reason: "is empty; give the advertisement a name"})
	}
	var f faults
	a.selection, f = parseSelection(obj.Spec.IPAddressPools, obj.Spec.IPAddressPoolSelectors, obj.Spec.NodeSelectors, obj.Spec.ServiceSelectors)
	bad = append(bad, f...)
	bad = append(bad, a.parsePreferred(obj.Spec.PreferredNodeSelectors)...)
	a.key = strings.Join([]string{
		strings.Join(texts(a.nodes), "\n"), strings.Join(a.Interfaces, "\n"), strings.Join(texts(a.services), "\n"),
	}, "\n\n")
	return a, bad
}

func (a *L2Advertisement) parsePreferred(in []v1beta1.PreferredNodeSelector) faults {
	var bad faults
	for i := range in {
		at := fmt.Sprintf("spec.preferredNodeSelectors[%d]", i)
		if w := in[i].Weight; w < 1 || w > 100 {
			bad = append(bad, &FieldError{Field: at + ".weight", Value: strconv.Itoa(int(w)), Reason: "is outside 1 to 100"})
		}
		nodes, f := parseSelector(at+".preference", &in[i].Preference)
		bad = append(bad, f...)
		a.preferred = append(a.preferred, preference{Weight: int(in[i].Weight), Nodes: nodes})
	}
	return bad
}
