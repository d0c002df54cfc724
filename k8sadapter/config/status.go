package config

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// StatusAddrs returns the addresses in status.loadBalancer.ingress of the Service, in their order, and the texts that
// are no address. Entries with a host name and no address are somebody else's, and ignored. An IPv4 address in IPv6
// form is returned as the IPv4 address; one with a zone is garbage, and so is an entry that is empty.
func StatusAddrs(svc *corev1.Service) (addrs []netip.Addr, garbage []string) {
	if svc == nil {
		return nil, nil
	}
	for _, entry := range svc.Status.LoadBalancer.Ingress {
		if entry.IP == "" && entry.Hostname != "" {
			continue
		}
		a, err := netip.ParseAddr(entry.IP)
		if err != nil || a.Zone() != "" {
			garbage = append(garbage, entry.IP)
			continue
		}
		addrs = append(addrs, a.Unmap())
	}
	return addrs, garbage
}

// CheckStatus returns a [*RequestError] when what [StatusAddrs] returned cannot have been given to one Service: texts
// that are no address, or more than one address of a family.
func CheckStatus(addrs []netip.Addr, garbage []string) error {
	const field = "status.loadBalancer.ingress"
	if len(garbage) > 0 {
		return &RequestError{
			Fault: FaultStatusFamily, Field: field, Value: strings.Join(garbage, ","), Detail: "is not an IP address; it is cleared",
		}
	}
	if len(addrs) > 2 || (len(addrs) == 2 && addrs[0].Is4() == addrs[1].Is4()) {
		texts := make([]string, len(addrs))
		for i, a := range addrs {
			texts[i] = a.String()
		}
		return &RequestError{
			Fault: FaultStatusFamily, Field: field, Value: strings.Join(texts, ","),
			Detail: "has more than one address of a family; it is cleared",
		}
	}
	return nil
}

// Ours says whether the Service is served here: its type is LoadBalancer, and its class is lbClass. An empty lbClass
// stands for the Services without class, as Kubernetes asks of a default implementation.
func Ours(svc *corev1.Service, lbClass string) bool {
	if svc == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	if svc.Spec.LoadBalancerClass == nil {
		return lbClass == ""
	}
	return lbClass != "" && *svc.Spec.LoadBalancerClass == lbClass
}
