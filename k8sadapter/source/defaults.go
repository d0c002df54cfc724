package source

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// The cluster IPs that a Service of a manifest gets when it names none. They
// only express the address families that the Service wants, are addresses of
// the documentation prefixes (RFC 5737, RFC 3849), are the same for every
// Service, and are never written anywhere.
const (
	SyntheticClusterIPv4 = "192.0.2.1"
	SyntheticClusterIPv6 = "2001:db8::1"
)

// setDefaults fills in what the API server (core kinds) or the CRD (metallb.io
// kinds) would, as far as a reader in Herald looks at it.
func setDefaults(info kindInfo, obj object) {
	if obj.GetUID() == "" {
		obj.SetUID(syntheticUID(info.gvk.Kind, obj.GetNamespace(), obj.GetName()))
	}
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	obj.GetObjectKind().SetGroupVersionKind(info.gvk)
	switch o := obj.(type) {
	case *corev1.Service:
		defaultService(o)
	case *corev1.Namespace:
		defaultNamespace(o)
	case *discoveryv1.EndpointSlice:
		for i := range o.Ports {
			setIfNil(&o.Ports[i].Protocol, corev1.ProtocolTCP)
			setIfNil(&o.Ports[i].Name, "")
		}
	case *v1beta1.IPAddressPool:
		setIfNil(&o.Spec.AutoAssign, true)
	case *v1beta2.BGPPeer:
		setIfZero(&o.Spec.Port, 179)
	case *v1beta1.BGPAdvertisement:
		setIfNil(&o.Spec.AggregationLength, 32)
		setIfNil(&o.Spec.AggregationLengthV6, 128)
	case *corev1.Secret:
		defaultSecret(o)
	}
}

// defaultSecret moves stringData, which an API server only takes and never
// shows, to where it belongs.
func defaultSecret(s *corev1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for name, value := range s.StringData {
		s.Data[name] = []byte(value)
	}
	s.StringData = nil
}

func defaultNamespace(ns *corev1.Namespace) {
	if ns.Labels == nil {
		ns.Labels = make(map[string]string, 1)
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
	setIfZero(&ns.Status.Phase, corev1.NamespaceActive)
}

func defaultService(svc *corev1.Service) {
	spec := &svc.Spec
	setIfZero(&spec.Type, corev1.ServiceTypeClusterIP)
	setIfZero(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		setIfZero(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	setIfNil(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	if spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort {
		setIfZero(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		setIfNil(&spec.AllocateLoadBalancerNodePorts, true)
	}
	defaultFamilies(spec)
}

// defaultFamilies settles clusterIPs and ipFamilies. Given cluster IPs, "None"
// among them, stay and decide the families. Otherwise ipFamilies decides
// (IPv4 when absent; both when the policy is RequireDualStack), and cluster
// IPs of the right families are put in, so that every reader has one rule.
func defaultFamilies(spec *corev1.ServiceSpec) {
	given := len(spec.ClusterIPs) > 0 || spec.ClusterIP != ""
	switch {
	case len(spec.ClusterIPs) == 0 && spec.ClusterIP != "":
		spec.ClusterIPs = []string{spec.ClusterIP}
	case spec.ClusterIP == "" && given:
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if given && spec.ClusterIP != corev1.ClusterIPNone {
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = familiesOf(spec.ClusterIPs)
		}
		if len(spec.ClusterIPs) == 1 {
			setIfNil(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
		}
		return
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack {
		for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			if !slices.Contains(spec.IPFamilies, family) {
				spec.IPFamilies = append(spec.IPFamilies, family)
			}
		}
	}
	if len(spec.IPFamilies) == 1 {
		setIfNil(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	}
	if given {
		return
	}
	for _, family := range spec.IPFamilies {
		address := SyntheticClusterIPv4
		if family == corev1.IPv6Protocol {
			address = SyntheticClusterIPv6
		}
		spec.ClusterIPs = append(spec.ClusterIPs, address)
	}
	spec.ClusterIP = spec.ClusterIPs[0]
}

func familiesOf(addresses []string) []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, text := range addresses {
		addr, err := netip.ParseAddr(text)
		switch {
		case err != nil: // validateObject names it
		case addr.Is4():
			families = append(families, corev1.IPv4Protocol)
		default:
			families = append(families, corev1.IPv6Protocol)
		}
	}
	return families
}

// syntheticUID derives a UID from what an object is called, so that it is the
// same in every process and after every restart.
func syntheticUID(kind, namespace, name string) types.UID {
	sum := sha256.Sum256([]byte(kind + "\x00" + namespace + "\x00" + name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
