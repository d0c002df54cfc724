package config

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selection is what both kinds of advertisements select: pools, nodes and Services.
type selection struct {
	pools         []string
	poolSelectors []labelSelector
	nodes         []labelSelector
	services      []labelSelector
}

// MatchesNode says whether a node with these labels may announce.
func (s selection) MatchesNode(labels map[string]string) bool {
	return len(s.nodes) == 0 || matchesAny(s.nodes, labels)
}

// MatchesService says whether a Service with these labels is announced.
func (s selection) MatchesService(labels map[string]string) bool {
	return len(s.services) == 0 || matchesAny(s.services, labels)
}

// MatchesPool says whether the addresses of the pool are announced.
func (s selection) MatchesPool(pool Pool) bool {
	if len(s.pools) == 0 && len(s.poolSelectors) == 0 {
		return true
	}
	return slices.Contains(s.pools, pool.Name) || matchesAny(s.poolSelectors, pool.Labels)
}

func parseSelection(pools []string, poolSelectors, nodes, services []metav1.LabelSelector) (s selection, bad faults) {
	s.pools = slices.Clone(pools)
	bad = append(bad, duplicateStrings("spec.ipAddressPools", pools)...)
	var f faults
	s.poolSelectors, f = parseSelectors("spec.ipAddressPoolSelectors", poolSelectors)
	bad = append(bad, f...)
	s.nodes, f = parseSelectors("spec.nodeSelectors", nodes)
	bad = append(bad, f...)
	s.services, f = parseSelectors("spec.serviceSelectors", services)
	return s, append(bad, f...)
}

// unknownNames warns of the names in a field that nothing in force has. They are tolerated: what they mean may come later.
func unknownNames(kind string, obj object, field string, names []string, of string, known func(name string) bool) []Warning {
	var out []Warning
	for i, name := range names {
		if known(name) {
			continue
		}
		at := fmt.Sprintf("%s[%d]", field, i)
		out = append(out, Warning{
			Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Object: obj, Field: at,
			Message: fmt.Sprintf("%s: no %s is named %s; nothing is announced for it", at, of, quote(name)),
		})
	}
	return out
}
