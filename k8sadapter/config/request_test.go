package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/config"
)

type edit func(*corev1.Service)

// service returns a Service with one IPv4 cluster IP, changed by the edits.
func service(edits ...edit) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 443}},
		},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func clusterIPs(ips ...string) edit {
	return func(s *corev1.Service) {
		s.Spec.ClusterIPs, s.Spec.ClusterIP = ips, ""
		if len(ips) > 0 {
			s.Spec.ClusterIP = ips[0]
		}
	}
}

func policy(p corev1.IPFamilyPolicy) edit {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &p }
}

func families(f ...corev1.IPFamily) edit {
	return func(s *corev1.Service) { s.Spec.IPFamilies = f }
}

func annotated(kv ...string) edit {
	return func(s *corev1.Service) {
		for i := 0; i < len(kv); i += 2 {
			s.Annotations[kv[i]] = kv[i+1]
		}
	}
}

func holding(ips ...string) edit {
	return func(s *corev1.Service) {
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func local(selector map[string]string) edit {
	return func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy, s.Spec.Selector = corev1.ServiceExternalTrafficPolicyLocal, selector
	}
}

func loadBalancerIP(ip string) edit { return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip } }

const (
	single   = corev1.IPFamilyPolicySingleStack
	prefer   = corev1.IPFamilyPolicyPreferDualStack
	require2 = corev1.IPFamilyPolicyRequireDualStack
	v4IP     = "10.96.0.9"
	v6IP     = "fd00:96::9"
)

func TestRequestFamilies(t *testing.T) {
	v4, v6 := allocator.IPv4, allocator.IPv6
	tests := []struct {
		name    string
		edits   []edit
		want    []allocator.Family
		partial bool
	}{
		{"one, no policy", []edit{clusterIPs(v4IP)}, []allocator.Family{v4}, false},
		{"one, SingleStack", []edit{clusterIPs(v6IP), policy(single)}, []allocator.Family{v6}, false},
		{"one, PreferDualStack", []edit{clusterIPs(v4IP), policy(prefer)}, []allocator.Family{v4}, false},
		{"two, RequireDualStack", []edit{clusterIPs(v4IP, v6IP), policy(require2)}, []allocator.Family{v4, v6}, false},
		{"two, PreferDualStack", []edit{clusterIPs(v4IP, v6IP), policy(prefer)}, []allocator.Family{v4, v6}, true},
		{"two, no policy, as PreferDualStack", []edit{clusterIPs(v4IP, v6IP)}, []allocator.Family{v4, v6}, true},
		{"two, SingleStack: the first", []edit{clusterIPs(v6IP, v4IP), policy(single)}, []allocator.Family{v6}, false},
		{"order of the cluster IPs", []edit{clusterIPs(v6IP, v4IP), policy(prefer)}, []allocator.Family{v6, v4}, true},
		{
			"ipFamilies go first",
			[]edit{clusterIPs(v4IP, v6IP), policy(prefer), families(corev1.IPv6Protocol, corev1.IPv4Protocol)},
			[]allocator.Family{v6, v4},
			true,
		},
		{
			"ipFamilies do not add",
			[]edit{clusterIPs(v4IP), policy(prefer), families(corev1.IPv4Protocol, corev1.IPv6Protocol)},
			[]allocator.Family{v4},
			false,
		},
		{"clusterIP alone", []edit{clusterIPs(), func(s *corev1.Service) { s.Spec.ClusterIP = v6IP }}, []allocator.Family{v6}, false},
		{
			"no cluster IP but families",
			[]edit{clusterIPs(), families(corev1.IPv6Protocol, corev1.IPv4Protocol), policy(require2)},
			[]allocator.Family{v6, v4},
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, notices, err := config.ServiceRequest(service(tt.edits...))
			require.NoError(t, err)
			assert.Empty(t, notices)
			assert.Equal(t, tt.want, req.Families)
			assert.Equal(t, tt.partial, req.Partial)
			assert.Equal(t, allocator.Owner("shop/web"), req.Owner)
			assert.Equal(t, "shop", req.Namespace)
			assert.Equal(t, map[string]string{"app": "web"}, req.Labels)
			assert.Empty(t, req.Addresses)
		})
	}
}

func TestRequestRefused(t *testing.T) {
	ips, legacyIPs := config.AnnotationLoadBalancerIPs, config.LegacyLoadBalancerIPs
	dual := clusterIPs(v4IP, v6IP)
	tests := []struct {
		name           string
		edits          []edit
		fault          config.Fault
		field, words   string
		holds, pending string // Event reasons with and without an address
		clears         bool
	}{
		{"no cluster IP", []edit{clusterIPs()}, config.FaultNoClusterIP, "spec.clusterIPs", "empty", "", "", true},
		{"none, RequireDualStack", []edit{clusterIPs(), policy(require2)}, config.FaultNoClusterIP, "spec.clusterIPs", "empty", "", "", true},
		{
			"headless",
			[]edit{clusterIPs("None")},
			config.FaultClusterIPFamily, "spec.clusterIPs", `"None"`, "noclusterIPsIPFamily", "AllocationFailed", false,
		},
		{
			"two of one family",
			[]edit{clusterIPs(v4IP, "10.96.0.10")},
			config.FaultClusterIPFamily, "spec.clusterIPs", "10.96.0.10", "noclusterIPsIPFamily", "AllocationFailed", false,
		},
		{
			"three",
			[]edit{clusterIPs(v4IP, v6IP, "10.96.0.10")},
			config.FaultClusterIPFamily, "spec.clusterIPs", "10.96.0.10", "noclusterIPsIPFamily", "AllocationFailed", false,
		},
		{
			"RequireDualStack, one",
			[]edit{clusterIPs(v4IP), policy(require2)},
			config.FaultNotEnoughClusterIPs, "spec.clusterIPs", v4IP, "not enough clusterips", "not enough clusterips", true,
		},
		{
			"RequireDualStack, headless",
			[]edit{clusterIPs("None"), policy(require2)},
			config.FaultNotEnoughClusterIPs, "spec.clusterIPs", "None", "not enough clusterips", "not enough clusterips", true,
		},
		malformed("garbage", annotated(ips, "garbage"), "annotation "+ips, `"garbage" is not an IP address`),
		malformed("trailing comma", annotated(ips, "192.0.2.5,"), "annotation "+ips, "ends with a comma"),
		malformed("only a comma", annotated(ips, ","), "annotation "+ips, "empty entry"),
		malformed("hole", annotated(ips, "192.0.2.5,,2001:db8::5"), "annotation "+ips, "empty entry"),
		malformed("twice", annotated(ips, "192.0.2.5,192.0.2.5"), "annotation "+ips, "twice"),
		malformed("twice, spelled otherwise", annotated(ips, "2001:DB8:0::5,2001:db8::5"), "annotation "+ips, "twice"),
		malformed("two of one family", annotated(ips, "192.0.2.5,192.0.2.6"), "annotation "+ips, "two IPv4 addresses"),
		malformed("three", annotated(ips, "192.0.2.5,2001:db8::5,192.0.2.6"), "annotation "+ips, "two IPv4 addresses"),
		malformed("many", annotated(ips, strings.Repeat("192.0.2.5,", 5000)), "annotation "+ips, "5001 entries"),
		malformed("zone", annotated(ips, "fe80::1%eth0"), "annotation "+ips, "zone"),
		malformed("IPv4 in IPv6 form", annotated(ips, "::ffff:192.0.2.5"), "annotation "+ips, "write 192.0.2.5"),
		malformed("leading zeros", annotated(ips, "192.0.2.005"), "annotation "+ips, "leading zero"),
		malformed("prefix", annotated(ips, "192.0.2.5/32"), "annotation "+ips, "not an IP address"),
		malformed("legacy", annotated(legacyIPs, "x"), "annotation "+legacyIPs, `"x" is not`),
		malformed("spec", loadBalancerIP("x"), "spec.loadBalancerIP", `"x" is not`),
		{"port 0", []edit{func(s *corev1.Service) { s.Spec.Ports[0].Port = 0 }}, config.FaultMalformed, "spec.ports[0].port", "65535", "LoadBalancerFailed", "AllocationFailed", false},
		{"port too large", []edit{func(s *corev1.Service) { s.Spec.Ports[0].Port = 65536 }}, config.FaultMalformed, "spec.ports[0].port", "65536", "LoadBalancerFailed", "AllocationFailed", false},
		unmet("other family", annotated(ips, "2001:db8::5"), nil, ips),
		unmet("pair for a single one", annotated(ips, "192.0.2.5,2001:db8::5"), nil, ips),
		unmet("one for RequireDualStack", annotated(ips, "192.0.2.5"), func(s *corev1.Service) { dual(s); policy(require2)(s) }, ips),
		unmet("one for PreferDualStack", annotated(ips, "192.0.2.5"), func(s *corev1.Service) { dual(s); policy(prefer)(s) }, ips),
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, _, err := config.ServiceRequest(service(tt.edits...))
			var re *config.RequestError
			require.ErrorAs(t, err, &re)
			assert.Equal(t, tt.fault, re.Fault)
			assert.Equal(t, tt.field, re.Field)
			assert.Contains(t, err.Error(), tt.field)
			assert.Contains(t, err.Error(), tt.words)
			assert.Less(t, len(err.Error()), 512)
			reason, clears := config.EventReason(fmt.Errorf("wrapped: %w", err), true)
			assert.Equal(t, tt.holds, reason)
			assert.Equal(t, tt.clears, clears)
			reason, _ = config.EventReason(err, false)
			assert.Equal(t, tt.pending, reason)
			assert.Equal(t, !tt.clears, config.Adoptable(err))
			assert.Equal(t, allocator.Owner("shop/web"), req.Owner, "what is held can still be named")
			assert.Empty(t, req.Addresses)
		})
	}
}

type refused = struct {
	name           string
	edits          []edit
	fault          config.Fault
	field, words   string
	holds, pending string
	clears         bool
}

func malformed(name string, e edit, field, words string) refused {
	return refused{name, []edit{e}, config.FaultMalformed, field, words, "LoadBalancerFailed", "AllocationFailed", false}
}

func unmet(name string, wish, svc edit, key string) refused {
	edits := []edit{wish}
	if svc != nil {
		edits = append(edits, svc)
	}
	return refused{name, edits, config.FaultUnmet, "annotation " + key, "each family", "AllocationFailed", "AllocationFailed", true}
}

func TestRequestWishes(t *testing.T) {
	ips, legacyIPs := config.AnnotationLoadBalancerIPs, config.LegacyLoadBalancerIPs
	pair := func(s *corev1.Service) { clusterIPs(v4IP, v6IP)(s); policy(require2)(s) }
	deprecated, conflict := config.ReasonDeprecatedAnnotation, config.ReasonConflictingAnnotations
	tests := []struct {
		name    string
		edits   []edit
		addrs   []string
		pool    string
		notices []string
	}{
		{"nothing", nil, nil, "", nil},
		{"address", []edit{annotated(ips, "192.0.2.5")}, []string{"192.0.2.5"}, "", nil},
		{"spaces", []edit{annotated(ips, " 192.0.2.5\n")}, []string{"192.0.2.5"}, "", nil},
		{"pair with spaces", []edit{annotated(ips, " 192.0.2.5 , 2001:db8::5 "), pair}, []string{"192.0.2.5", "2001:db8::5"}, "", nil},
		{"pair, IPv6 first", []edit{annotated(ips, "2001:db8::5,192.0.2.5"), pair}, []string{"2001:db8::5", "192.0.2.5"}, "", nil},
		{"odd spelling", []edit{annotated(ips, "2001:DB8:0::5"), clusterIPs(v6IP)}, []string{"2001:db8::5"}, "", nil},
		{"empty", []edit{annotated(ips, "")}, nil, "", nil},
		{"blank", []edit{annotated(ips, " ")}, nil, "", nil},
		{"spec", []edit{loadBalancerIP("192.0.2.7")}, []string{"192.0.2.7"}, "", nil},
		{"empty annotation, spec", []edit{annotated(ips, ""), loadBalancerIP("192.0.2.7")}, []string{"192.0.2.7"}, "", nil},
		{"annotation and spec, equal", []edit{annotated(ips, "192.0.2.7"), loadBalancerIP("192.0.2.7")}, []string{"192.0.2.7"}, "", nil},
		{"annotation before spec", []edit{annotated(ips, "192.0.2.5"), loadBalancerIP("192.0.2.7")}, []string{"192.0.2.5"}, "", []string{conflict}},
		{"legacy", []edit{annotated(legacyIPs, "192.0.2.5")}, []string{"192.0.2.5"}, "", []string{deprecated}},
		{"both, equal", []edit{annotated(ips, "192.0.2.5", legacyIPs, " 192.0.2.5")}, []string{"192.0.2.5"}, "", []string{deprecated}},
		{"both, different", []edit{annotated(ips, "192.0.2.5", legacyIPs, "192.0.2.6")}, []string{"192.0.2.5"}, "", []string{deprecated, conflict}},
		{"empty hides legacy", []edit{annotated(ips, "", legacyIPs, "192.0.2.6")}, nil, "", []string{deprecated, conflict}},
		{"pool", []edit{annotated(config.AnnotationAddressPool, " edge ")}, nil, "edge", nil},
		{"legacy pool", []edit{annotated(config.LegacyAddressPool, "edge")}, nil, "edge", []string{deprecated}},
		{"pools differ", []edit{annotated(config.AnnotationAddressPool, "edge", config.LegacyAddressPool, "core")}, nil, "edge", []string{deprecated, conflict}},
		{"pool and address", []edit{annotated(config.AnnotationAddressPool, "edge", ips, "192.0.2.5")}, []string{"192.0.2.5"}, "edge", nil},
		{"the mark of the past is no wish", []edit{annotated(config.AnnotationAllocatedFrom, "edge", config.LegacyAllocatedFrom, "core")}, nil, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, notices, err := config.ServiceRequest(service(tt.edits...))
			require.NoError(t, err)
			assert.Equal(t, addrs(t, tt.addrs...), req.Addresses)
			assert.Equal(t, tt.pool, req.Pool)
			var reasons []string
			for _, n := range notices {
				reasons = append(reasons, n.Reason)
				if n.Reason == conflict && len(req.Addresses) > 0 {
					assert.Contains(t, n.Message, "192.0.2.5", "the one that is followed")
				}
			}
			assert.Equal(t, tt.notices, reasons)
		})
	}
}

// A PreferDualStack Service that pins the only address it holds keeps it, as in MetalLB, although the same wish of a
// Service without an address is refused.
func TestPreferDualStackPinsWhatItHolds(t *testing.T) {
	req, _, err := config.ServiceRequest(service(clusterIPs(v4IP, v6IP), policy(prefer),
		annotated(config.AnnotationLoadBalancerIPs, "192.0.2.5"), holding("192.0.2.5")))
	require.NoError(t, err)
	assert.Equal(t, addrs(t, "192.0.2.5"), req.Addresses)
	assert.Equal(t, []allocator.Family{allocator.IPv4}, req.Families)
	assert.False(t, req.Partial)

	for _, held := range [][]string{{"192.0.2.6"}, {"192.0.2.5", "2001:db8::1"}, {"192.0.2.5", "junk"}} {
		_, _, err = config.ServiceRequest(service(clusterIPs(v4IP, v6IP), policy(prefer),
			annotated(config.AnnotationLoadBalancerIPs, "192.0.2.5"), holding(held...)))
		require.Error(t, err, held)
	}
}

func TestSharing(t *testing.T) {
	key := annotated(config.AnnotationAllowSharedIP, "dns")
	read := func(edits ...edit) (allocator.Request, []config.Notice) {
		req, notices, err := config.ServiceRequest(service(edits...))
		require.NoError(t, err)
		return req, notices
	}
	cluster, _ := read(key)
	assert.Equal(t, "dns", cluster.SharingKey)
	assert.Empty(t, cluster.BackendKey)

	a, notices := read(key, local(map[string]string{"a": "1", "b": "2"}))
	b, _ := read(key, local(map[string]string{"b": "2", "a": "1"}))
	assert.Empty(t, notices)
	assert.NotEmpty(t, a.BackendKey)
	assert.Equal(t, a.BackendKey, b.BackendKey, "order does not matter")
	others := map[string]edit{
		"fewer labels":    local(map[string]string{"a": "1"}),
		"other value":     local(map[string]string{"a": "1", "b": "3"}),
		"quotes":          local(map[string]string{"a": `1"/"b"="2`}),
		"other namespace": func(s *corev1.Service) { local(map[string]string{"a": "1", "b": "2"})(s); s.Namespace = "other" },
	}
	for name, e := range others {
		c, _ := read(key, e)
		assert.NotEqual(t, a.BackendKey, c.BackendKey, name)
	}

	for _, empty := range []map[string]string{nil, {}} {
		alone, notices := read(key, local(empty))
		assert.Empty(t, alone.SharingKey, "nobody knows where its traffic ends")
		assert.Empty(t, alone.BackendKey)
		require.Len(t, notices, 1)
		assert.Equal(t, config.ReasonSharingIgnored, notices[0].Reason)
		assert.Contains(t, notices[0].Message, `"dns"`)
		_, notices = read(local(empty))
		assert.Empty(t, notices, "nothing was asked for")
	}

	legacy, notices := read(annotated(config.LegacyAllowSharedIP, "dns"))
	assert.Equal(t, "dns", legacy.SharingKey)
	assert.Len(t, notices, 1)
	label, _ := read(func(s *corev1.Service) { s.Labels[config.AnnotationAllowSharedIP] = "dns" })
	assert.Empty(t, label.SharingKey, "a label is no annotation")
}

func TestPorts(t *testing.T) {
	req, _, err := config.ServiceRequest(service(func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{{Port: 53}, {Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}, {Protocol: corev1.ProtocolSCTP, Port: 65535}}
	}))
	require.NoError(t, err)
	assert.Equal(t, []allocator.Port{{Protocol: "TCP", Number: 53}, {Protocol: "UDP", Number: 53}, {Protocol: "SCTP", Number: 65535}}, req.Ports)
}
