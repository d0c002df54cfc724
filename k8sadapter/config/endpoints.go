package config

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// CanServe says whether an endpoint takes traffic: it is ready or does not say, or else it is serving. An endpoint that
// terminates and still serves counts.
func CanServe(ep discoveryv1.Endpoint) bool {
	if ep.Conditions.Ready == nil || *ep.Conditions.Ready {
		return true
	}
	return ep.Conditions.Serving != nil && *ep.Conditions.Serving
}

// ServingNodes reads the slices of one Service, of both families. found says whether any endpoint can serve; nodes are
// those that run one. An endpoint without a node name counts for found only. Slices of host names are skipped: no
// traffic of an address can go there.
func ServingNodes(slices []*discoveryv1.EndpointSlice) (found bool, nodes map[string]bool) {
	nodes = make(map[string]bool)
	for _, slice := range slices {
		if slice == nil || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, ep := range slice.Endpoints {
			if !CanServe(ep) {
				continue
			}
			found = true
			if ep.NodeName != nil && *ep.NodeName != "" {
				nodes[*ep.NodeName] = true
			}
		}
	}
	return found, nodes
}

// NetworkUnavailable says whether the node reports that its network is not set up. No node, and one that does not
// say, is available.
func NetworkUnavailable(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ExcludedFromLB says whether the node carries the label
// node.kubernetes.io/exclude-from-external-load-balancers, with any value.
func ExcludedFromLB(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	return excluded
}
