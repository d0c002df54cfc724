package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/k8sadapter/config"
)

func TestStatusAddrs(t *testing.T) {
	host := func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
	}
	hostAndIP := func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1", Hostname: "lb.example.com"}}
	}
	tests := []struct {
		name    string
		edits   []edit
		want    []string
		garbage []string
		bad     bool // CheckStatus refuses it
	}{
		{"nothing", nil, nil, nil, false},
		{"one", []edit{holding("192.0.2.1")}, []string{"192.0.2.1"}, nil, false},
		{"pair, order kept", []edit{holding("2001:DB8::1", "192.0.2.1")}, []string{"2001:db8::1", "192.0.2.1"}, nil, false},
		{"IPv4 in IPv6 form", []edit{holding("::ffff:192.0.2.1")}, []string{"192.0.2.1"}, nil, false},
		{"host name", []edit{host}, nil, nil, false},
		{"host name and address", []edit{host, holding("192.0.2.1")}, []string{"192.0.2.1"}, nil, false},
		{"both in one entry", []edit{hostAndIP}, []string{"192.0.2.1"}, nil, false},
		{"garbage", []edit{holding("notanip", "192.0.2.1", "", "fe80::1%eth0", "192.0.2.005", "None")}, []string{"192.0.2.1"}, []string{"notanip", "", "fe80::1%eth0", "192.0.2.005", "None"}, true},
		{"two IPv4", []edit{holding("192.0.2.1", "192.0.2.2")}, []string{"192.0.2.1", "192.0.2.2"}, nil, true},
		{"three", []edit{holding("192.0.2.1", "192.0.2.2", "2001:db8::1")}, []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, garbage := config.StatusAddrs(service(tt.edits...))
			assert.Equal(t, addrs(t, tt.want...), got)
			assert.Equal(t, tt.garbage, garbage)
			err := config.CheckStatus(got, garbage)
			if !tt.bad {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "status.loadBalancer.ingress")
			reason, clears := config.EventReason(err, true)
			assert.Equal(t, "nolbIPsIPFamily", reason)
			assert.True(t, clears)
		})
	}
	got, garbage := config.StatusAddrs(nil)
	assert.Empty(t, got)
	assert.Empty(t, garbage)
}

func TestOurs(t *testing.T) {
	class := func(c string) edit { return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &c } }
	typed := func(ty corev1.ServiceType) edit { return func(s *corev1.Service) { s.Spec.Type = ty } }
	tests := []struct {
		name  string
		edits []edit
		flag  string
		want  bool
	}{
		{"no class, no flag", nil, "", true},
		{"class, no flag", []edit{class("example.com/lb")}, "", false},
		{"empty class, no flag", []edit{class("")}, "", false},
		{"no class, flag", nil, "example.com/lb", false},
		{"the class of the flag", []edit{class("example.com/lb")}, "example.com/lb", true},
		{"another class", []edit{class("example.com/other")}, "example.com/lb", false},
		{"ClusterIP", []edit{typed(corev1.ServiceTypeClusterIP)}, "", false},
		{"NodePort of the class", []edit{typed(corev1.ServiceTypeNodePort), class("example.com/lb")}, "example.com/lb", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, config.Ours(service(tt.edits...), tt.flag))
		})
	}
	assert.False(t, config.Ours(nil, ""))
}

func TestPoolHint(t *testing.T) {
	current, legacy := config.AnnotationAllocatedFrom, config.LegacyAllocatedFrom
	assert.Empty(t, config.PoolHint(nil))
	assert.Empty(t, config.PoolHint(service()))
	assert.Equal(t, "a", config.PoolHint(service(annotated(current, "a", legacy, "b"))))
	assert.Equal(t, "b", config.PoolHint(service(annotated(legacy, "b"))))
	assert.Equal(t, "b", config.PoolHint(service(annotated(current, "", legacy, "b"))))
}

func TestSharesIP(t *testing.T) {
	assert.False(t, config.SharesIP(nil))
	assert.False(t, config.SharesIP(service()))
	assert.True(t, config.SharesIP(service(annotated(config.AnnotationAllowSharedIP, ""))))
	assert.True(t, config.SharesIP(service(annotated(config.LegacyAllowSharedIP, "k"))))
}

func endpoint(node string, ready, serving *bool) discoveryv1.Endpoint {
	ep := discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving}}
	if node != "" {
		ep.NodeName = &node
	}
	return ep
}

func TestCanServe(t *testing.T) {
	yes, no := new(bool), new(bool)
	*yes = true
	tests := []struct {
		ready, serving *bool
		want           bool
	}{
		{nil, nil, true},
		{nil, no, true},
		{yes, nil, true},
		{yes, no, true},
		{no, nil, false},
		{no, no, false},
		{no, yes, true}, // it terminates, and still serves
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, config.CanServe(endpoint("n", tt.ready, tt.serving)))
	}
}

func TestServingNodes(t *testing.T) {
	no := new(bool)
	slice := func(ty discoveryv1.AddressType, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{AddressType: ty, Endpoints: eps}
	}
	v4, v6 := discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	tests := []struct {
		name  string
		in    []*discoveryv1.EndpointSlice
		found bool
		nodes map[string]bool
	}{
		{"nothing", nil, false, map[string]bool{}},
		{"nil and empty slices", []*discoveryv1.EndpointSlice{nil, slice(v4), {}}, false, map[string]bool{}},
		{"two slices", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", nil, nil)), slice(v4, endpoint("b", nil, nil))}, true, map[string]bool{"a": true, "b": true}},
		{"one of two on a node", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", nil, nil), endpoint("a", no, no))}, true, map[string]bool{"a": true}},
		{"none serves", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", no, no))}, false, map[string]bool{}},
		{"no node name", []*discoveryv1.EndpointSlice{slice(v4, endpoint("", nil, nil))}, true, map[string]bool{}},
		{"host names", []*discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeFQDN, endpoint("a", nil, nil))}, false, map[string]bool{}},
		{"the same in both families", []*discoveryv1.EndpointSlice{slice(v4, endpoint("a", nil, nil)), slice(v6, endpoint("a", nil, nil))}, true, map[string]bool{"a": true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, nodes := config.ServingNodes(tt.in)
			assert.Equal(t, tt.found, found)
			assert.Equal(t, tt.nodes, nodes)
		})
	}
}

func TestNodes(t *testing.T) {
	condition := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeNetworkUnavailable, Status: status},
		}}}
	}
	assert.True(t, config.NetworkUnavailable(condition(corev1.ConditionTrue)))
	assert.False(t, config.NetworkUnavailable(condition(corev1.ConditionFalse)))
	assert.False(t, config.NetworkUnavailable(condition(corev1.ConditionUnknown)))
	assert.False(t, config.NetworkUnavailable(&corev1.Node{}))
	assert.False(t, config.NetworkUnavailable(nil))

	const label = "node.kubernetes.io/exclude-from-external-load-balancers"
	for _, value := range []string{"", "true", "false"} {
		assert.True(t, config.ExcludedFromLB(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: value}}}), value)
	}
	assert.False(t, config.ExcludedFromLB(&corev1.Node{}))
	assert.False(t, config.ExcludedFromLB(nil))
}
