package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/heraldlb/herald/allocator"
)

// ServiceRequest reads what a Service asks for. The Service is taken to be one that is served (see [Ours]).
//
// The wanted families are those of spec.clusterIPs, or of spec.clusterIP where there is no list, or the
// spec.ipFamilies of a Service that has neither. With two of them, the policy RequireDualStack wants both addresses;
// PreferDualStack, and no policy, are content with one; SingleStack wants the first. Addresses are asked for by the
// annotation metallb.io/loadBalancerIPs, which goes before spec.loadBalancerIP.
//
// An error is a [*RequestError]. The request that comes with it holds what could be read: enough to adopt the
// addresses that the Service holds when [Adoptable] says so, not to ask for others. Notices may come with either.
func ServiceRequest(svc *corev1.Service) (allocator.Request, []Notice, error) {
	req := allocator.Request{
		Owner:     allocator.Owner(svc.Namespace + "/" + svc.Name),
		Namespace: svc.Namespace,
		Labels:    svc.Labels,
	}
	ports, err := servicePorts(svc)
	if err != nil {
		return req, nil, err
	}
	req.Ports = ports
	notices := readSharing(svc, &req)

	pool, n := annotation(svc, AnnotationAddressPool, LegacyAddressPool)
	notices = append(notices, n...)
	req.Pool = pool.value

	if err := readFamilies(svc, &req); err != nil {
		return req, notices, err
	}
	n, err = readAddresses(svc, &req)
	return req, append(notices, n...), err
}

func servicePorts(svc *corev1.Service) ([]allocator.Port, error) {
	out := make([]allocator.Port, 0, len(svc.Spec.Ports))
	for i, p := range svc.Spec.Ports {
		if p.Port < 1 || p.Port > 65535 {
			return nil, &RequestError{
				Fault: FaultMalformed, Field: fmt.Sprintf("spec.ports[%d].port", i), Value: strconv.Itoa(int(p.Port)),
				Detail: "is outside 1 to 65535",
			}
		}
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		out = append(out, allocator.Port{Protocol: protocol, Number: uint16(p.Port)})
	}
	return out, nil
}

// readSharing sets the sharing key and the backend key. Under the policy Local the traffic of an address goes to the
// nodes that run the Service's own pods, so that only Services with the same pods can share one. A Service without
// selector has pods that nobody knows: it shares with nobody.
func readSharing(svc *corev1.Service, req *allocator.Request) []Notice {
	key, notices := annotation(svc, AnnotationAllowSharedIP, LegacyAllowSharedIP)
	req.SharingKey = key.value
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return notices
	}
	if len(svc.Spec.Selector) > 0 {
		req.BackendKey = backendKey(svc)
		return notices
	}
	if req.SharingKey != "" {
		req.SharingKey = ""
		notices = append(notices, Notice{
			Reason: ReasonSharingIgnored,
			Message: fmt.Sprintf("annotation %s (%s) has no effect: a Service with externalTrafficPolicy Local and no selector "+
				"shares its address with nobody; set a selector, or the policy Cluster", key.key, quote(key.value)),
		})
	}
	return notices
}

// backendKey is the namespace and the selector of the Service, in a form that no two different ones share.
func backendKey(svc *corev1.Service) string {
	var b strings.Builder
	b.WriteString(svc.Namespace)
	for _, k := range slices.Sorted(maps.Keys(svc.Spec.Selector)) {
		fmt.Fprintf(&b, "/%q=%q", k, svc.Spec.Selector[k])
	}
	return b.String()
}

func readFamilies(svc *corev1.Service, req *allocator.Request) error {
	families, fault := clusterFamilies(svc)
	require := svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack
	single := svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if (fault == nil || fault.Fault != FaultNoClusterIP) && require && clusterIPCount(svc) < 2 {
		return &RequestError{
			Fault: FaultNotEnoughClusterIPs, Field: "spec.clusterIPs", Value: strings.Join(clusterIPs(svc), ","),
			Detail: "has fewer than the two addresses that spec.ipFamilyPolicy RequireDualStack wants; " +
				"use PreferDualStack, or a cluster with both families",
		}
	}
	if fault != nil {
		return fault
	}
	if len(families) == 2 && len(svc.Spec.IPFamilies) > 0 && family(svc.Spec.IPFamilies[0]) == families[1] {
		slices.Reverse(families)
	}
	switch {
	case single:
		families = families[:1]
	case len(families) == 2:
		req.Partial = !require
	}
	req.Families = families
	return nil
}

func clusterIPs(svc *corev1.Service) []string {
	if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
		return []string{svc.Spec.ClusterIP}
	}
	return svc.Spec.ClusterIPs
}

// clusterIPCount is the number of cluster IPs, or of families where there are none.
func clusterIPCount(svc *corev1.Service) int {
	if n := len(clusterIPs(svc)); n > 0 {
		return n
	}
	return len(svc.Spec.IPFamilies)
}

// clusterFamilies returns the families of the cluster IPs, in their order.
func clusterFamilies(svc *corev1.Service) ([]allocator.Family, *RequestError) {
	ips := clusterIPs(svc)
	fault := func(detail string) *RequestError {
		return &RequestError{Fault: FaultClusterIPFamily, Field: "spec.clusterIPs", Value: strings.Join(ips, ","), Detail: detail}
	}
	var out []allocator.Family
	for _, text := range ips {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fault("is not a list of addresses; a Service without cluster IP cannot have a load balancer")
		}
		out = append(out, familyOf(a))
	}
	if len(ips) == 0 {
		for _, f := range svc.Spec.IPFamilies {
			out = append(out, family(f))
		}
	}
	switch {
	case len(out) == 0:
		return nil, &RequestError{
			Fault: FaultNoClusterIP, Field: "spec.clusterIPs",
			Detail: "is empty; the address family is not known before the Service has a cluster IP",
		}
	case len(out) > 2 || (len(out) == 2 && out[0] == out[1]):
		return nil, fault("has more than one address of a family")
	}
	return out, nil
}

func family(f corev1.IPFamily) allocator.Family {
	if f == corev1.IPv6Protocol {
		return allocator.IPv6
	}
	return allocator.IPv4
}

func familyOf(a netip.Addr) allocator.Family {
	if a.Unmap().Is4() {
		return allocator.IPv4
	}
	return allocator.IPv6
}

// readAddresses sets the explicit addresses.
func readAddresses(svc *corev1.Service, req *allocator.Request) ([]Notice, error) {
	asked, notices := annotation(svc, AnnotationLoadBalancerIPs, LegacyLoadBalancerIPs)
	field := "annotation " + asked.key
	spec := strings.TrimSpace(svc.Spec.LoadBalancerIP)
	switch {
	case asked.value == "" && spec == "":
		return notices, nil
	case asked.value == "":
		asked.value, field = spec, "spec.loadBalancerIP"
	case spec != "" && spec != asked.value:
		notices = append(notices, Notice{
			Reason: ReasonConflictingAnnotations,
			Message: fmt.Sprintf("annotation %s (%s) and spec.loadBalancerIP (%s) differ; the annotation is followed; remove one of them",
				asked.key, quote(asked.value), quote(spec)),
		})
	}
	addrs, err := ParseAddresses(asked.value)
	if err != nil {
		return notices, &RequestError{Fault: FaultMalformed, Field: field, Value: asked.value, Detail: err.Error(), Err: err}
	}
	if !sameFamilies(addrs, req.Families) {
		if !req.Partial || !holdsExactly(svc, addrs) {
			return notices, &RequestError{
				Fault: FaultUnmet, Field: field, Value: asked.value,
				Detail: fmt.Sprintf("must name one address of each family of the Service (%s)", familyNames(req.Families)),
			}
		}
		req.Families, req.Partial = []allocator.Family{familyOf(addrs[0])}, false
	}
	req.Addresses = addrs
	return notices, nil
}

// holdsExactly says whether the Service holds just these addresses.
func holdsExactly(svc *corev1.Service, addrs []netip.Addr) bool {
	held, garbage := StatusAddrs(svc)
	return len(garbage) == 0 && len(held) == len(addrs) &&
		!slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !slices.Contains(held, a) })
}

// sameFamilies says whether the addresses, of which no two are of one family, have just these families.
func sameFamilies(addrs []netip.Addr, families []allocator.Family) bool {
	return len(addrs) == len(families) &&
		!slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !slices.Contains(families, familyOf(a)) })
}

func familyNames(families []allocator.Family) string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.String()
	}
	return strings.Join(names, " and ")
}

// ParseAddresses reads the list of the annotation metallb.io/loadBalancerIPs: one or two addresses, separated by a
// comma, at most one of each family, with or without spaces around them. IPv6 addresses may be spelled in any way, but
// neither with a zone nor as an IPv4 address in IPv6 form; octets of IPv4 addresses must not have leading zeros.
func ParseAddresses(list string) ([]netip.Addr, error) {
	parts := strings.Split(list, ",")
	if len(parts) > 3 { // one more than the two and a trailing comma: do not read on
		return nil, fmt.Errorf("has %d entries; name at most one IPv4 and one IPv6 address", len(parts))
	}
	var out []netip.Addr
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if part == "" {
			if i > 0 && i == len(parts)-1 {
				return nil, errors.New("ends with a comma; remove it")
			}
			return nil, errors.New("has an empty entry; remove it")
		}
		a, err := parseAddress(part)
		if err != nil {
			return nil, err
		}
		for _, b := range out {
			if a == b {
				return nil, fmt.Errorf("names %s twice; remove one of them", a)
			}
			if a.Is4() == b.Is4() {
				return nil, fmt.Errorf("names two %s addresses, %s and %s; name at most one of each family", familyOf(a), b, a)
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		_, detail, _ := strings.Cut(err.Error(), "): ")
		return netip.Addr{}, fmt.Errorf("%s is not an IP address: %s", quote(text), detail)
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s has a zone; name an address without one", quote(text))
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%s is an IPv4 address in IPv6 form; write %s", quote(text), a.Unmap())
	}
	return a, nil
}
