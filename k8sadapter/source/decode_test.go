package source

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// lines joins lines with line ends, so that their numbers can be counted.
func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }

func TestSyntaxErrorsNameTheLineOfTheFile(t *testing.T) {
	tests := []struct {
		name, file, data string
		want             []string
	}{
		{
			"mapping in a scalar, first document", "a.yaml",
			lines("kind: Service", "metadata: x: y"),
			[]string{"a.yaml:2: mapping values are not allowed in this context"},
		},
		{
			"the very first line", "a.yaml", lines("a: b: c"),
			[]string{"a.yaml:1: mapping values are not allowed in this context"},
		},
		{
			"a tab", "a.yaml", lines("a:", "  b: 1", "\tc: 2"),
			[]string{"a.yaml:3: found a tab character that violates indentation"},
		},
		{
			"wrong indentation", "a.yaml", lines("a:", "    b: 1", "  c: 2", "d: 3"),
			[]string{"a.yaml:3: did not find expected key"},
		},
		{
			"an open bracket", "a.yaml", lines("a: 1", "b: [1, 2", "c: 3"),
			[]string{"a.yaml:3: did not find expected ',' or ']'"},
		},
		{
			"second document", "a.yaml", lines("kind: A", "---", "# comment", "b: c: d"),
			[]string{"a.yaml:4: mapping values are not allowed in this context"},
		},
		{
			"two documents, each its own", "b.yml",
			lines("a: b: c", "---", "ok: true", "---", "", "x:", " y: 1", "  z: 2"),
			[]string{
				"b.yml:1: mapping values are not allowed in this context",
				"b.yml:8: mapping values are not allowed in this context",
			},
		},
		{
			"after an end marker", "a.yaml", lines("a: 1", "...", "b: c: d"),
			[]string{"a.yaml:3: mapping values are not allowed in this context"},
		},
		{
			"an unknown anchor has no line of its own", "a.yaml", lines("# c", "---", "a: *nowhere"),
			[]string{"a.yaml:3: unknown anchor 'nowhere' referenced"},
		},
		{
			"Windows line ends", "a.yaml", "a: 1\r\n---\r\nb: c: d\r\n",
			[]string{"a.yaml:3: mapping values are not allowed in this context"},
		},
		{
			"line ends of a carriage return alone", "a.yaml", "a: 1\r---\rb: c: d\r",
			[]string{"a.yaml:3: mapping values are not allowed in this context"},
		},
		{
			"UTF-16", "a.yaml", "\xff\xfea\x00:\x00 \x001\x00\n\x00",
			[]string{"a.yaml:1: the file is UTF-16; save it as UTF-8"},
		},
		{
			"JSON", "a.json", lines("{", `  "kind": "Service",`, `  "metadata": }`),
			[]string{"a.json:3: invalid character '}' looking for beginning of value"},
		},
		{
			"JSON that ends early", "a.json", lines(`{"a": 1}`, `{"b":`),
			[]string{"a.json:3: unexpected EOF"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := decodeFile(tt.file, []byte(tt.data), DefaultNamespace)
			var got []string
			for _, fault := range faults {
				got = append(got, fault.Error())
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// outcome renders documents for comparison: where, what, and why not.
func outcome(docs []document) []string {
	var got []string
	for _, doc := range docs {
		switch {
		case doc.rejected != nil:
			got = append(got, "rejected "+doc.rejected.Error())
		case doc.ignored != nil:
			got = append(got, "ignored "+doc.ignored.Error())
		default:
			got = append(got, fmt.Sprintf("%s:%d %s %s/%s", doc.file, doc.line, doc.key.kind, doc.key.namespace, doc.key.name))
		}
		for _, warning := range doc.warnings {
			got = append(got, "warning "+warning)
		}
	}
	return got
}

func TestDocuments(t *testing.T) {
	tests := []struct {
		name, data string
		want       []string
	}{
		{"nothing", "", nil},
		{"comments only", lines("# a", "---", "# b", "---"), nil},
		{
			"a stream",
			lines("# head", "apiVersion: v1", "kind: Node", "metadata: {name: n1}", "---", "---", "# c", "apiVersion: v1", "kind: Node", "metadata: {name: n2}", "...", "apiVersion: v1", "kind: Node", "metadata: {name: n3}"),
			[]string{"f.yaml:2 nodes /n1", "f.yaml:8 nodes /n2", "f.yaml:12 nodes /n3"},
		},
		{
			"a directive, and content on the marker's line",
			lines("%YAML 1.1", "---", "{apiVersion: v1, kind: Node, metadata: {name: n1}}", "--- {apiVersion: v1, kind: Node, metadata: {name: n2}}"),
			[]string{"f.yaml:3 nodes /n1", "f.yaml:4 nodes /n2"},
		},
		{
			"a marker inside a block scalar's text is none",
			lines("apiVersion: v1", "kind: Node", "metadata:", "  name: n1", "  annotations:", "    a: |", "      ---", "      x"),
			[]string{"f.yaml:1 nodes /n1"},
		},
		{
			"a byte order mark", "\xef\xbb\xbf" + lines("apiVersion: v1", "kind: Node", "metadata: {name: n1}"),
			[]string{"f.yaml:1 nodes /n1"},
		},
		{
			"two documents with carriage returns alone", "apiVersion: v1\rkind: Node\rmetadata: {name: n1}\r---\rapiVersion: v1\rkind: Node\rmetadata: {name: n2}\r",
			[]string{"f.yaml:1 nodes /n1", "f.yaml:5 nodes /n2"},
		},
		{
			"Lists of nothing and of something else",
			lines("apiVersion: v1", "kind: List", "---", "apiVersion: v1", "kind: List", "items:", "---", "apiVersion: v1", "kind: List", "items: web"),
			[]string{"rejected f.yaml:8: List: invalid object: does not decode as List: items is not a list"},
		},
		{
			"a List, nested, with its faults",
			lines("apiVersion: v1", "kind: List", "items:", "- {apiVersion: v1, kind: Node, metadata: {name: n1}}", "- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: ns}}]}", "- {apiVersion: v1, kind: Node, metadata: {}}"),
			[]string{"f.yaml:1 nodes /n1", "f.yaml:1 namespaces /ns", "rejected f.yaml:1: Node: metadata.name is missing"},
		},
		{
			"a typed list without kinds in its items",
			lines("apiVersion: v1", "kind: ServiceList", "items:", "- {metadata: {name: a, namespace: x}}"),
			[]string{"f.yaml:1 services x/a"},
		},
		{
			"JSON with tabs in a YAML file", "{\n\t\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\"}\n}\n",
			[]string{"f.yaml:1 nodes /n1"},
		},
		{
			"unknown kinds and versions are named",
			lines("apiVersion: apps/v1", "kind: Deployment", "metadata: {name: d, namespace: x}", "---", "apiVersion: discovery.k8s.io/v1beta1", "kind: EndpointSlice", "metadata: {name: e}"),
			[]string{
				"ignored f.yaml:1: Deployment x/d: unknown kind Deployment of apps/v1",
				"ignored f.yaml:5: EndpointSlice e: unknown kind EndpointSlice of discovery.k8s.io/v1beta1",
			},
		},
		{
			"metallb.io objects elsewhere",
			lines("apiVersion: metallb.io/v1beta1", "kind: IPAddressPool", "metadata: {name: p, namespace: other}", "spec: {addresses: [192.0.2.0/24]}"),
			[]string{`ignored f.yaml:1: IPAddressPool other/p: outside the MetalLB namespace: only objects in "metallb-system" are read`},
		},
		{
			"where objects without a namespace live",
			lines("apiVersion: metallb.io/v1beta1", "kind: L2Advertisement", "metadata: {name: a}", "---", "apiVersion: v1", "kind: Service", "metadata: {name: s}", "---", "apiVersion: v1", "kind: Node", "metadata: {name: n1, namespace: x}"),
			[]string{"f.yaml:1 l2advertisements metallb-system/a", "f.yaml:5 services default/s", "f.yaml:9 nodes /n1"},
		},
		{
			"unknown fields and repeated keys are no rejection",
			lines("apiVersion: v1", "kind: Service", "metadata: {name: s}", "spec:", "  typo: 1", "  type: ClusterIP", "  type: LoadBalancer"),
			[]string{"f.yaml:1 services default/s", `warning key "type" already set in map`, `warning unknown field "spec.typo"`},
		},
		{
			"no objects at all",
			lines("just text", "---", "- a", "- b", "---", "name: x", "---", "kind: Service", "---", "42"),
			[]string{
				"rejected f.yaml:1: not a Kubernetes object: a manifest needs apiVersion and kind",
				"rejected f.yaml:3: not a Kubernetes object: a manifest needs apiVersion and kind",
				"rejected f.yaml:6: not a Kubernetes object: a manifest needs apiVersion and kind",
				"rejected f.yaml:8: Service: not a Kubernetes object: a manifest needs apiVersion and kind",
				"rejected f.yaml:10: not a Kubernetes object: a manifest needs apiVersion and kind",
			},
		},
		{
			"names become file names",
			lines("apiVersion: v1", "kind: Service", "metadata: {name: ../../etc/passwd}", "---", "apiVersion: v1", "kind: Service", "metadata: {name: s, namespace: A_b}"),
			[]string{
				`rejected f.yaml:1: Service default/../../etc/passwd: invalid object: metadata.name "../../etc/passwd": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				`rejected f.yaml:5: Service A_b/s: invalid object: metadata.namespace "A_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, faults := decodeFile("f.yaml", []byte(tt.data), DefaultNamespace)
			require.Empty(t, faults)
			assert.Equal(t, tt.want, outcome(docs))
		})
	}
}

func TestRejectedDocumentsNameObjectAndField(t *testing.T) {
	tests := []struct{ name, spec, want string }{
		{"ports of the wrong type", "ports: eighty", "ServiceSpec.spec.ports"},
		{"type", "type: LoadBalancr", `spec.type: unsupported value "LoadBalancr"`},
		{"policy", "type: LoadBalancer, externalTrafficPolicy: Here", `spec.externalTrafficPolicy: unsupported value "Here"`},
		{"family policy", "ipFamilyPolicy: Both", `spec.ipFamilyPolicy: unsupported value "Both"`},
		{"family", "ipFamilies: [IPv5]", `spec.ipFamilies[0]: unsupported value "IPv5"`},
		{"family twice", "ipFamilies: [IPv6, IPv6]", "spec.ipFamilies[1]: IPv6 is listed twice"},
		{"cluster IP", "clusterIP: here", `spec.clusterIPs[0]: "here" is no IP address`},
		{"three cluster IPs", "clusterIPs: [10.0.0.1, 10.0.0.2, 10.0.0.3]", "spec.clusterIPs: 3 addresses"},
		{"port out of range", "ports: [{port: 65536}]", "spec.ports[0].port: 65536 is not in 1..65535"},
		{"protocol", "ports: [{port: 1, protocol: ICMP}]", `spec.ports[0].protocol: unsupported value "ICMP"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := lines("# one", "apiVersion: v1", "kind: Service", "metadata: {name: web, namespace: shop}", "spec: {"+tt.spec+"}")
			docs, faults := decodeFile("sub/f.yaml", []byte(data), DefaultNamespace)
			require.Empty(t, faults)
			require.Len(t, docs, 1)
			require.NotNil(t, docs[0].rejected)
			require.ErrorIs(t, docs[0].rejected, ErrInvalid)
			assert.Contains(t, docs[0].rejected.Error(), "sub/f.yaml:2: Service shop/web: ")
			assert.Contains(t, docs[0].rejected.Error(), tt.want)
			assert.Equal(t, key{Services, "shop", "web"}, docs[0].key)
		})
	}
}

func decodeOne(t *testing.T, data string) object {
	t.Helper()
	docs, faults := decodeFile("f.yaml", []byte(data), DefaultNamespace)
	require.Empty(t, faults)
	require.Len(t, docs, 1)
	require.NotNil(t, docs[0].obj, "%v", outcome(docs))
	return docs[0].obj
}

func TestServiceDefaults(t *testing.T) {
	svc := decodeOne(t, webService).(*corev1.Service)
	assert.Equal(t, "default", svc.Namespace)
	assert.Equal(t, "Service", svc.Kind)
	assert.Equal(t, corev1.ServiceExternalTrafficPolicyCluster, svc.Spec.ExternalTrafficPolicy)
	assert.Equal(t, corev1.ServiceAffinityNone, svc.Spec.SessionAffinity)
	assert.Equal(t, corev1.ProtocolTCP, svc.Spec.Ports[0].Protocol)
	assert.EqualValues(t, 80, svc.Spec.Ports[0].TargetPort.IntVal)
	assert.True(t, *svc.Spec.AllocateLoadBalancerNodePorts)
	assert.Equal(t, decodeOne(t, webService).GetUID(), svc.UID, "the same in every process")
	assert.Len(t, string(svc.UID), 36)
	plain := decodeOne(t, lines("apiVersion: v1", "kind: Service", "metadata: {name: web}")).(*corev1.Service)
	assert.Equal(t, corev1.ServiceTypeClusterIP, plain.Spec.Type)
	assert.Empty(t, plain.Spec.ExternalTrafficPolicy)
}

func TestFamiliesOfServicesWithoutClusterIPs(t *testing.T) {
	v4, v6 := SyntheticClusterIPv4, SyntheticClusterIPv6
	tests := []struct {
		name, spec   string
		ips          []string
		families     []corev1.IPFamily
		policy       corev1.IPFamilyPolicy // "": absent
		externalName bool
	}{
		{"nothing said", "", []string{v4}, []corev1.IPFamily{"IPv4"}, "SingleStack", false},
		{"v6", "ipFamilies: [IPv6]", []string{v6}, []corev1.IPFamily{"IPv6"}, "SingleStack", false},
		{"both, v6 first", "ipFamilies: [IPv6, IPv4], ipFamilyPolicy: PreferDualStack", []string{v6, v4}, []corev1.IPFamily{"IPv6", "IPv4"}, "PreferDualStack", false},
		{"both without a policy", "ipFamilies: [IPv4, IPv6]", []string{v4, v6}, []corev1.IPFamily{"IPv4", "IPv6"}, "", false},
		{"prefer without families", "ipFamilyPolicy: PreferDualStack", []string{v4}, []corev1.IPFamily{"IPv4"}, "PreferDualStack", false},
		{"require without families", "ipFamilyPolicy: RequireDualStack", []string{v4, v6}, []corev1.IPFamily{"IPv4", "IPv6"}, "RequireDualStack", false},
		{"require with one", "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]", []string{v6, v4}, []corev1.IPFamily{"IPv6", "IPv4"}, "RequireDualStack", false},
		{"given", "clusterIP: 10.0.0.1", []string{"10.0.0.1"}, []corev1.IPFamily{"IPv4"}, "SingleStack", false},
		{"given, both", "clusterIPs: ['fd00::1', 10.0.0.1]", []string{"fd00::1", "10.0.0.1"}, []corev1.IPFamily{"IPv6", "IPv4"}, "", false},
		{"headless", "clusterIP: None", []string{"None"}, []corev1.IPFamily{"IPv4"}, "SingleStack", false},
		{"external name", "type: ExternalName, externalName: x.example", nil, nil, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := decodeOne(t, lines("apiVersion: v1", "kind: Service", "metadata: {name: web}", "spec: {"+tt.spec+"}")).(*corev1.Service)
			assert.Equal(t, tt.ips, svc.Spec.ClusterIPs)
			assert.Equal(t, tt.families, svc.Spec.IPFamilies)
			if tt.policy == "" {
				assert.Nil(t, svc.Spec.IPFamilyPolicy)
			} else if assert.NotNil(t, svc.Spec.IPFamilyPolicy) {
				assert.Equal(t, tt.policy, *svc.Spec.IPFamilyPolicy)
			}
			if !tt.externalName {
				assert.Equal(t, tt.ips[0], svc.Spec.ClusterIP)
			}
		})
	}
}

func TestOtherDefaults(t *testing.T) {
	pool := decodeOne(t, publicPool).(*v1beta1.IPAddressPool)
	require.NotNil(t, pool.Spec.AutoAssign)
	assert.True(t, *pool.Spec.AutoAssign)
	off := decodeOne(t, publicPool+"  autoAssign: false\n").(*v1beta1.IPAddressPool)
	assert.False(t, *off.Spec.AutoAssign)

	ns := decodeOne(t, lines("apiVersion: v1", "kind: Namespace", "metadata: {name: shop, labels: {a: b, kubernetes.io/metadata.name: wrong}}")).(*corev1.Namespace)
	assert.Equal(t, map[string]string{"a": "b", "kubernetes.io/metadata.name": "shop"}, ns.Labels)

	slice := decodeOne(t, lines("apiVersion: discovery.k8s.io/v1", "kind: EndpointSlice", "metadata: {name: e}", "addressType: IPv4", "ports: [{port: 80}]", "endpoints: [{addresses: [10.0.0.1]}]")).(*discoveryv1.EndpointSlice)
	assert.Equal(t, corev1.ProtocolTCP, *slice.Ports[0].Protocol)
	assert.Nil(t, slice.Endpoints[0].Conditions.Ready)
	assert.Empty(t, slice.Labels, "a slice without its Service's label is kept as it is")

	given := decodeOne(t, lines("apiVersion: v1", "kind: Node", "metadata: {name: n1, uid: mine, resourceVersion: '7', managedFields: [{manager: x}]}"))
	assert.EqualValues(t, "mine", given.GetUID())
	assert.Empty(t, given.GetResourceVersion())
	assert.Empty(t, given.GetManagedFields())
}

// FuzzDecode: whatever a file holds, decoding it ends, every line named lies in
// the file, every document is exactly one of used, rejected and ignored, and
// what is used survives being decoded again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		webService, publicPool, webService + "---\n" + publicPool,
		"a: b: c", "---\n...\n---", "%YAML 1.1\n---\nkind: List", "- a\n- *x", "{\"kind\":", "\xef\xbb\xbfkind: Service\r\n",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [{}]}, null, 1]",
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ipFamilyPolicy: RequireDualStack, clusterIPs: ['']}",
		"apiVersion: v1\nkind: ServiceList\nitems: {}", "a: &a [*a]", "!!binary x",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, asJSON bool) {
		file := "f.yaml"
		if asJSON {
			file = "f.json"
		}
		count := strings.Count(string(data), "\n") + 1
		docs, faults := decodeFile(file, data, DefaultNamespace)
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > count {
				t.Fatalf("%v in a file of %d lines", fault, count)
			}
		}
		for _, doc := range docs {
			if doc.line < 1 || doc.line > count {
				t.Fatalf("document at line %d of %d", doc.line, count)
			}
			states := 0
			for _, set := range []bool{doc.obj != nil, doc.rejected != nil, doc.ignored != nil} {
				if set {
					states++
				}
			}
			if states != 1 {
				t.Fatalf("a document in %d states", states)
			}
			if doc.obj != nil {
				checkStable(t, doc)
			}
		}
	})
}

func checkStable(t *testing.T, doc document) {
	t.Helper()
	data, err := json.Marshal(doc.obj)
	if err != nil {
		t.Fatal(err)
	}
	again, faults := decodeFile("again.json", data, DefaultNamespace)
	if len(faults) > 0 || len(again) != 1 || again[0].obj == nil || again[0].key != doc.key {
		t.Fatalf("%s does not decode again: %v %v", data, faults, outcome(again))
	}
}
