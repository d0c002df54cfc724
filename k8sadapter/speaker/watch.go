package speaker

import (
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// listed returns what an informer holds, as its own type, in the order of the names.
func listed[T any](inf cache.SharedIndexInformer) []T {
	store := inf.GetStore()
	out := make([]T, 0, len(store.ListKeys()))
	for _, o := range store.List() {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// watch registers for the changes that can matter to a decision.
func (s *Speaker) watch() error {
	return errors.Join(
		register(s, s.services, func(a, b *corev1.Service) bool { return a.ResourceVersion == b.ResourceVersion }),
		register(s, s.endpoints, func(a, b *discoveryv1.EndpointSlice) bool {
			return maps.Equal(a.Labels, b.Labels) && equal(a.Endpoints, b.Endpoints)
		}),
		register(s, s.nodes, func(a, b *corev1.Node) bool {
			return maps.Equal(a.Labels, b.Labels) && equal(conditions(a), conditions(b)) && equal(a.Spec.Taints, b.Spec.Taints) &&
				equal(a.Status.Addresses, b.Status.Addresses) // one of them is the router ID
		}),
		register(s, s.namespaces, func(a, b *corev1.Namespace) bool { return maps.Equal(a.Labels, b.Labels) }),
		register(s, s.pools, func(a, b *v1beta1.IPAddressPool) bool {
			return maps.Equal(a.Labels, b.Labels) && equal(a.Spec, b.Spec) && config.SamePoolSettings(a, b)
		}),
		register(s, s.ads, func(a, b *v1beta1.L2Advertisement) bool { return equal(a.Spec, b.Spec) }),
		register(s, s.peers, func(a, b *v1beta2.BGPPeer) bool { return equal(a.Spec, b.Spec) }),
		register(s, s.bgpAds, func(a, b *v1beta1.BGPAdvertisement) bool { return equal(a.Spec, b.Spec) }),
		register(s, s.bfdProfiles, func(a, b *v1beta1.BFDProfile) bool { return equal(a.Spec, b.Spec) }),
		register(s, s.communities, func(a, b *v1beta1.Community) bool { return equal(a.Spec, b.Spec) }),
		register(s, s.secrets, func(a, b *corev1.Secret) bool { return equal(a.Data, b.Data) && a.Type == b.Type }),
	)
}

// register marks the state dirty for every addition, deletion, and update that same does not call equal.
func register[T any](s *Speaker, inf cache.SharedIndexInformer, same func(a, b T) bool) error {
	notify := func(any) {
		select {
		case s.dirty <- struct{}{}:
		default:
		}
	}
	if err := inf.SetTransform(source.Strip); err != nil {
		return err
	}
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    notify,
		DeleteFunc: notify,
		UpdateFunc: func(before, after any) {
			a, okA := before.(T)
			b, okB := after.(T)
			if !okA || !okB || !same(a, b) {
				notify(after)
			}
		},
	})
	return err
}
