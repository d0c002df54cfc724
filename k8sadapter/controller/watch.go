package controller

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// watch registers for the changes that can matter. What cannot (a node's heartbeat, a pool's counters that we wrote
// ourselves) wakes nobody.
func (c *Controller) watch() error {
	service := func(obj any) {
		if !c.started.Load() {
			return
		}
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			c.queue.Add(item{kind: serviceItem, name: types.NamespacedName{Namespace: name.Namespace, Name: name.Name}})
		}
	}
	changed := func(any) {
		if c.started.Load() {
			c.queue.Add(item{kind: configItem})
		}
	}
	return errors.Join(
		source.OnChange(c.services, service, func(a, b *corev1.Service) bool { return a.ResourceVersion == b.ResourceVersion }),
		source.OnChange(c.pools, changed, func(a, b *v1beta1.IPAddressPool) bool {
			return a.UID == b.UID && reflect.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) &&
				config.SamePoolSettings(a, b) && a.CreationTimestamp.Equal(&b.CreationTimestamp)
		}),
		source.OnChange(c.ads, changed, func(a, b *v1beta1.L2Advertisement) bool {
			return a.UID == b.UID && reflect.DeepEqual(a.Spec, b.Spec)
		}),
		source.OnChange(c.namespaces, changed, func(a, b *corev1.Namespace) bool { return maps.Equal(a.Labels, b.Labels) }),
		source.OnChange(c.nodes, changed, func(a, b *corev1.Node) bool {
			return slices.Equal(a.Status.Addresses, b.Status.Addresses)
		}),
	)
}
