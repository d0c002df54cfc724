package config_test

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

// A good pool is edited into a bad one. Its last good version stays in force, and the other pool is not concerned.
func ExampleStore_Update() {
	pool := func(name, addresses string) *v1beta1.IPAddressPool {
		return &v1beta1.IPAddressPool{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metallb-system", Name: name},
			Spec:       v1beta1.IPAddressPoolSpec{Addresses: []string{addresses}},
		}
	}
	var store config.Store
	edge, core := pool("edge", "192.0.2.0/28"), pool("core", "198.51.100.0/28")
	store.Update(config.Objects{Pools: []*v1beta1.IPAddressPool{edge, core}})

	edge = pool("edge", "192.0.2.15-192.0.2.0")
	cfg := store.Update(config.Objects{Pools: []*v1beta1.IPAddressPool{edge, core}})
	for _, p := range cfg.Pools {
		fmt.Println(p.Name, p.Alloc.Ranges)
	}
	for _, r := range cfg.Rejected {
		if fe, ok := errors.AsType[*config.FieldError](r); ok {
			fmt.Println(r.Kind, r.Name, fe.Field, fe.Value)
		}
		fmt.Println(r.Effect())
	}
	// Output:
	// core [198.51.100.0/28]
	// edge [192.0.2.0/28]
	// IPAddressPool edge spec.addresses[0] 192.0.2.15-192.0.2.0
	// its last good version stays in force
}

func ExampleServiceRequest() {
	policy := corev1.IPFamilyPolicyPreferDualStack
	req, notices, err := config.ServiceRequest(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web",
			Annotations: map[string]string{"metallb.universe.tf/address-pool": "edge", "metallb.io/allow-shared-ip": "front"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilyPolicy: &policy,
			ClusterIPs: []string{"10.96.0.9", "fd00:96::9"},
			Ports:      []corev1.ServicePort{{Port: 443}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Owner, req.Families, req.Partial, req.Pool, req.SharingKey, req.Ports)
	for _, n := range notices {
		fmt.Println(n.Reason+":", n.Message)
	}
	// Output:
	// shop/web [IPv4 IPv6] true edge front [TCP/443]
	// deprecatedAnnotation: annotation metallb.universe.tf/address-pool is deprecated; use metallb.io/address-pool
}

func ExampleEventReason() {
	_, _, err := config.ServiceRequest(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"metallb.io/loadBalancerIPs": "192.0.2.5,"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.9"}},
	})
	reason, clears := config.EventReason(err, true)
	fmt.Println(reason, clears)
	fmt.Println(err)
	// Output:
	// LoadBalancerFailed false
	// annotation metallb.io/loadBalancerIPs: "192.0.2.5," ends with a comma; remove it
}
