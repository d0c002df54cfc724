package speaker

import (
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// watch registers for the changes that can matter to a decision.
func (s *Speaker) watch() error {
	dirty := func(any) {
		select {
		case s.dirty <- struct{}{}:
		default:
		}
	}
	return errors.Join(
		source.OnChange(s.services, dirty, func(a, b *corev1.Service) bool { return a.ResourceVersion == b.ResourceVersion }),
		source.OnChange(s.endpoints, dirty, func(a, b *discoveryv1.EndpointSlice) bool {
			return maps.Equal(a.Labels, b.Labels) && equal(a.Endpoints, b.Endpoints)
		}),
		source.OnChange(s.nodes, dirty, func(a, b *corev1.Node) bool {
			return maps.Equal(a.Labels, b.Labels) && equal(conditions(a), conditions(b)) && equal(a.Spec.Taints, b.Spec.Taints) &&
				equal(a.Status.Addresses, b.Status.Addresses) // one of them is the router ID
		}),
		source.OnChange(s.namespaces, dirty, func(a, b *corev1.Namespace) bool { return maps.Equal(a.Labels, b.Labels) }),
		source.OnChange(s.pools, dirty, func(a, b *v1beta1.IPAddressPool) bool {
			return maps.Equal(a.Labels, b.Labels) && equal(a.Spec, b.Spec) && config.SamePoolSettings(a, b)
		}),
		source.OnChange(s.ads, dirty, func(a, b *v1beta1.L2Advertisement) bool { return equal(a.Spec, b.Spec) }),
		source.OnChange(s.peers, dirty, func(a, b *v1beta2.BGPPeer) bool { return equal(a.Spec, b.Spec) }),
		source.OnChange(s.bgpAds, dirty, func(a, b *v1beta1.BGPAdvertisement) bool { return equal(a.Spec, b.Spec) }),
		source.OnChange(s.bfdProfiles, dirty, func(a, b *v1beta1.BFDProfile) bool { return equal(a.Spec, b.Spec) }),
		source.OnChange(s.communities, dirty, func(a, b *v1beta1.Community) bool { return equal(a.Spec, b.Spec) }),
		source.OnChange(s.secrets, dirty, func(a, b *corev1.Secret) bool { return equal(a.Data, b.Data) && a.Type == b.Type }),
	)
}
