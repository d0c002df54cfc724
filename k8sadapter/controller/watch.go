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
	config := func(any) {
		if c.started.Load() {
			c.queue.Add(item{kind: configItem})
		}
	}
	return errors.Join(
		register(c.services, service, func(a, b *corev1.Service) bool { return a.ResourceVersion == b.ResourceVersion }),
		register(c.pools, config, func(a, b *v1beta1.IPAddressPool) bool {
			return a.UID == b.UID && reflect.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) &&
				a.CreationTimestamp.Equal(&b.CreationTimestamp)
		}),
		register(c.ads, config, func(a, b *v1beta1.L2Advertisement) bool {
			return a.UID == b.UID && reflect.DeepEqual(a.Spec, b.Spec)
		}),
		register(c.namespaces, config, func(a, b *corev1.Namespace) bool { return maps.Equal(a.Labels, b.Labels) }),
		register(c.nodes, config, func(a, b *corev1.Node) bool {
			return slices.Equal(a.Status.Addresses, b.Status.Addresses)
		}),
	)
}

// register calls notify for every addition, deletion, and update that same does not call equal.
func register[T any](inf cache.SharedIndexInformer, notify func(any), same func(a, b T) bool) error {
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
