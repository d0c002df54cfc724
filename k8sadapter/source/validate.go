package source

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// validateObject refuses what the API server would refuse in the core kinds
// and what would mislead a reader. Semantic rules of the metallb.io kinds are
// those of k8sadapter/config.
func validateObject(obj object) error {
	switch o := obj.(type) {
	case *corev1.Service:
		return validateService(o)
	case *discoveryv1.EndpointSlice:
		return oneOf("addressType", o.AddressType, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	}
	return nil
}

func validateService(svc *corev1.Service) error {
	spec := &svc.Spec
	if err := oneOf("spec.type", spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName); err != nil {
		return err
	}
	if spec.ExternalTrafficPolicy != "" {
		if err := oneOf("spec.externalTrafficPolicy", spec.ExternalTrafficPolicy,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal); err != nil {
			return err
		}
	}
	if spec.IPFamilyPolicy != nil {
		if err := oneOf("spec.ipFamilyPolicy", *spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack); err != nil {
			return err
		}
	}
	for i, port := range spec.Ports {
		if port.Port < 1 || port.Port > 65535 {
			return fmt.Errorf("spec.ports[%d].port: %d is not in 1..65535", i, port.Port)
		}
		if err := oneOf(fmt.Sprintf("spec.ports[%d].protocol", i), port.Protocol,
			corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP); err != nil {
			return err
		}
	}
	return validateFamilies(spec)
}

func validateFamilies(spec *corev1.ServiceSpec) error {
	if err := validateClusterIPs(spec); err != nil {
		return err
	}
	for i, family := range spec.IPFamilies {
		if err := oneOf(fmt.Sprintf("spec.ipFamilies[%d]", i), family, corev1.IPv4Protocol, corev1.IPv6Protocol); err != nil {
			return err
		}
		if slices.Contains(spec.IPFamilies[:i], family) {
			return fmt.Errorf("spec.ipFamilies[%d]: %s is listed twice", i, family)
		}
	}
	return nil
}

func validateClusterIPs(spec *corev1.ServiceSpec) error {
	if spec.ClusterIP == corev1.ClusterIPNone || spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	if len(spec.ClusterIPs) > 2 {
		return fmt.Errorf("spec.clusterIPs: %d addresses, at most 2 are possible", len(spec.ClusterIPs))
	}
	for i, text := range spec.ClusterIPs {
		if _, err := netip.ParseAddr(text); err != nil {
			return fmt.Errorf("spec.clusterIPs[%d]: %q is no IP address", i, text)
		}
	}
	return nil
}

func oneOf[T ~string](field string, value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: unsupported value %q (supported: %q)", field, value, allowed)
}
