package speaker

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/heraldlb/herald/membership"
)

// notReadyLimit is how long a Node may be NotReady before it counts as dead: the kubelet's own grace period.
const notReadyLimit = 40 * time.Second

// NodeMembers is a membership made of the Nodes that the API knows, for clusters without gossip: all of them, without
// those that are NotReady for 40 s or longer, or tainted node.kubernetes.io/out-of-service. A Node that never reported
// counts as alive, as it does for MetalLB.
func NodeMembers(nodes []*corev1.Node, now time.Time) []membership.Member {
	out := make([]membership.Member, 0, len(nodes))
	for _, n := range nodes {
		if !dead(n, now) {
			out = append(out, membership.Member{Name: n.Name, Eligible: true})
		}
	}
	slices.SortFunc(out, func(a, b membership.Member) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func dead(n *corev1.Node, now time.Time) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return now.Sub(c.LastTransitionTime.Time) >= notReadyLimit
		}
	}
	return false
}

// conditions are the truth values of a Node's conditions, without the heartbeats.
func conditions(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	out := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(n.Status.Conditions))
	for _, c := range n.Status.Conditions {
		out[c.Type] = c.Status
	}
	return out
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }
