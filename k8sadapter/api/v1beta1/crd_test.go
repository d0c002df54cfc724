package v1beta1_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// schema is the part of an OpenAPI schema that these CRDs use.
type schema struct {
	Type       string            `json:"type"`
	Format     string            `json:"format"`
	Default    any               `json:"default"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	MapType    string            `json:"x-kubernetes-map-type"`
	Enum       []string          `json:"enum"`
	MinItems   *float64          `json:"minItems"`
	CEL        []struct {
		Rule string `json:"rule"`
	} `json:"x-kubernetes-validations"`
}

type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	JSONPath string `json:"jsonPath"`
	Priority int    `json:"priority"`
}

type crd struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group      string         `json:"group"`
		Scope      string         `json:"scope"`
		Names      map[string]any `json:"names"`
		Conversion *struct{}      `json:"conversion"`
		Versions   []version      `json:"versions"`
	} `json:"spec"`
}

type version struct {
	Name         string         `json:"name"`
	Served       bool           `json:"served"`
	Storage      bool           `json:"storage"`
	Deprecated   bool           `json:"deprecated"`
	Warning      string         `json:"deprecationWarning"`
	Subresources map[string]any `json:"subresources"`
	Columns      []column       `json:"additionalPrinterColumns"`
	Schema       struct {
		OpenAPI schema `json:"openAPIV3Schema"`
	} `json:"schema"`
}

func readCRD(t *testing.T, plural string) crd {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "daemons", "deploy", "crds", "metallb.io_"+plural+".yaml"))
	require.NoError(t, err)
	var out crd
	require.NoError(t, yaml.Unmarshal(data, &out))
	return out
}

// flat lists the fields of a schema: path, type, and what is said about it. Label selectors are cut short.
func flat(path string, s schema, out map[string]string) {
	text := s.Type
	if s.Format != "" {
		text += " " + s.Format
	}
	if s.Default != nil {
		def, _ := json.Marshal(s.Default)
		text += " default " + string(def)
	}
	if s.Minimum != nil {
		text += " at least " + jsonText(*s.Minimum)
	}
	if s.Maximum != nil {
		text += " at most " + jsonText(*s.Maximum)
	}
	if len(s.Enum) > 0 {
		text += " one of " + strings.Join(s.Enum, ",")
	}
	if s.MinItems != nil {
		text += " items at least " + jsonText(*s.MinItems)
	}
	for _, rule := range s.CEL {
		text += " rule " + rule.Rule
	}
	if len(s.Required) > 0 {
		text += " requires " + strings.Join(s.Required, ",")
	}
	if _, selector := s.Properties["matchExpressions"]; selector {
		out[path] = "selector " + s.MapType
		return
	}
	if path != "" {
		out[path] = text
	}
	for name, p := range s.Properties {
		flat(strings.TrimPrefix(path+"."+name, "."), p, out)
	}
	if s.Items != nil {
		flat(path+"[]", *s.Items, out)
	}
}

func jsonText(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// TestCRDs pins what a MetalLB cluster relies on: names, defaults, limits, required fields and columns, no more and no
// less.
func TestCRDs(t *testing.T) {
	tests := []struct {
		plural, kind string
		required     []string
		fields       map[string]string
		columns      []column
	}{
		{
			"ipaddresspools", "IPAddressPool",
			[]string{"spec"},
			map[string]string{
				"spec":                                        "object requires addresses",
				"spec.addresses":                              "array",
				"spec.addresses[]":                            "string",
				"spec.autoAssign":                             "boolean default true",
				"spec.avoidBuggyIPs":                          "boolean default false",
				"spec.serviceAllocation":                      "object",
				"spec.serviceAllocation.priority":             "integer",
				"spec.serviceAllocation.namespaces":           "array",
				"spec.serviceAllocation.namespaces[]":         "string",
				"spec.serviceAllocation.namespaceSelectors":   "array",
				"spec.serviceAllocation.namespaceSelectors[]": "selector atomic",
				"spec.serviceAllocation.serviceSelectors":     "array",
				"spec.serviceAllocation.serviceSelectors[]":   "selector atomic",
				"status":               "object requires assignedIPv4,assignedIPv6,availableIPv4,availableIPv6",
				"status.assignedIPv4":  "integer int64",
				"status.assignedIPv6":  "integer int64",
				"status.availableIPv4": "integer int64",
				"status.availableIPv6": "integer int64",
			},
			[]column{
				{"Auto Assign", "boolean", ".spec.autoAssign", 0},
				{"Avoid Buggy IPs", "boolean", ".spec.avoidBuggyIPs", 0},
				{"Addresses", "string", ".spec.addresses", 0},
			},
		},
		{
			"l2advertisements", "L2Advertisement", nil,
			map[string]string{
				"spec":                                     "object",
				"spec.ipAddressPools":                      "array",
				"spec.ipAddressPools[]":                    "string",
				"spec.ipAddressPoolSelectors":              "array",
				"spec.ipAddressPoolSelectors[]":            "selector atomic",
				"spec.nodeSelectors":                       "array",
				"spec.nodeSelectors[]":                     "selector atomic",
				"spec.interfaces":                          "array",
				"spec.interfaces[]":                        "string",
				"spec.serviceSelectors":                    "array",
				"spec.serviceSelectors[]":                  "selector atomic",
				"spec.preferredNodeSelectors":              "array",
				"spec.preferredNodeSelectors[]":            "object requires preference,weight",
				"spec.preferredNodeSelectors[].weight":     "integer int32 at least 1 at most 100",
				"spec.preferredNodeSelectors[].preference": "selector atomic",
				"status": "object",
			},
			[]column{
				{"IPAddressPools", "string", ".spec.ipAddressPools", 0},
				{"IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors", 0},
				{"Interfaces", "string", ".spec.interfaces", 0},
				{"Node Selectors", "string", ".spec.nodeSelectors", 10},
			},
		},
		{
			"bgpadvertisements", "BGPAdvertisement", nil,
			map[string]string{
				"spec": "object rule !has(self.serviceSelectors) || size(self.serviceSelectors) == 0 ||" +
					" ((!has(self.aggregationLength) || self.aggregationLength == 32)" +
					" && (!has(self.aggregationLengthV6) || self.aggregationLengthV6 == 128))",
				"spec.aggregationLength":        "integer int32 default 32 at least 1",
				"spec.aggregationLengthV6":      "integer int32 default 128",
				"spec.localPref":                "integer int32",
				"spec.communities":              "array",
				"spec.communities[]":            "string",
				"spec.ipAddressPools":           "array",
				"spec.ipAddressPools[]":         "string",
				"spec.ipAddressPoolSelectors":   "array",
				"spec.ipAddressPoolSelectors[]": "selector atomic",
				"spec.nodeSelectors":            "array",
				"spec.nodeSelectors[]":          "selector atomic",
				"spec.peers":                    "array",
				"spec.peers[]":                  "string",
				"spec.serviceSelectors":         "array",
				"spec.serviceSelectors[]":       "selector atomic",
				"status":                        "object",
			},
			[]column{
				{"IPAddressPools", "string", ".spec.ipAddressPools", 0},
				{"IPAddressPool Selectors", "string", ".spec.ipAddressPoolSelectors", 0},
				{"Peers", "string", ".spec.peers", 0},
				{"Node Selectors", "string", ".spec.nodeSelectors", 10},
			},
		},
		{
			"bfdprofiles", "BFDProfile", nil,
			map[string]string{
				"spec":                  "object",
				"spec.receiveInterval":  "integer int32 at least 10 at most 60000",
				"spec.transmitInterval": "integer int32 at least 10 at most 60000",
				"spec.echoInterval":     "integer int32 at least 10 at most 60000",
				"spec.detectMultiplier": "integer int32 at least 2 at most 255",
				"spec.minimumTtl":       "integer int32 at least 1 at most 254",
				"spec.echoMode":         "boolean",
				"spec.passiveMode":      "boolean",
				"status":                "object",
			},
			[]column{
				{"Passive Mode", "boolean", ".spec.passiveMode", 0},
				{"Transmit Interval", "integer", ".spec.transmitInterval", 0},
				{"Receive Interval", "integer", ".spec.receiveInterval", 0},
				{"Multiplier", "integer", ".spec.detectMultiplier", 0},
			},
		},
		{
			"communities", "Community", nil,
			map[string]string{
				"spec":                     "object",
				"spec.communities":         "array",
				"spec.communities[]":       "object",
				"spec.communities[].name":  "string",
				"spec.communities[].value": "string",
				"status":                   "object",
			},
			nil,
		},
		{
			"servicebgpstatuses", "ServiceBGPStatus", nil,
			map[string]string{
				"spec":                    "object",
				"status":                  "object",
				"status.node":             "string rule self == oldSelf",
				"status.serviceName":      "string rule self == oldSelf",
				"status.serviceNamespace": "string rule self == oldSelf",
				"status.peers":            "array",
				"status.peers[]":          "string",
			},
			[]column{
				{"Node", "string", ".status.node", 0},
				{"Service Name", "string", ".status.serviceName", 0},
				{"Service Namespace", "string", ".status.serviceNamespace", 0},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			got := readCRD(t, tt.plural)
			assert.Equal(t, tt.plural+".metallb.io", got.Metadata.Name)
			assert.Equal(t, v1beta1.Group, got.Spec.Group)
			assert.Equal(t, "Namespaced", got.Spec.Scope)
			assert.Equal(t, map[string]any{
				"kind": tt.kind, "listKind": tt.kind + "List", "plural": tt.plural, "singular": strings.ToLower(tt.kind),
			}, got.Spec.Names, "neither short names nor categories")
			require.Len(t, got.Spec.Versions, 1)
			version := got.Spec.Versions[0]
			assert.Equal(t, v1beta1.Version, version.Name)
			assert.True(t, version.Served && version.Storage && !version.Deprecated)
			assert.Contains(t, version.Subresources, "status")
			assert.Equal(t, tt.columns, version.Columns)
			assert.Equal(t, tt.required, version.Schema.OpenAPI.Required)
			assert.Equal(t, tt.fields, fieldsOf(t, version))
		})
	}
}

// fieldsOf lists what is particular to the kind.
func fieldsOf(t *testing.T, v version) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	flat("", v.Schema.OpenAPI, fields)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		assert.Contains(t, fields, name)
		delete(fields, name)
	}
	return fields
}

// TestPeerCRD pins the two versions of BGPPeer. v1beta2 is stored; without a conversion webhook the API server converts
// by changing apiVersion.
func TestPeerCRD(t *testing.T) {
	got := readCRD(t, "bgppeers")
	assert.Equal(t, map[string]any{"kind": "BGPPeer", "listKind": "BGPPeerList", "plural": "bgppeers", "singular": "bgppeer"}, got.Spec.Names)
	assert.Nil(t, got.Spec.Conversion, "the strategy None")
	require.Len(t, got.Spec.Versions, 2)
	columns := []column{
		{"Address", "string", ".spec.peerAddress", 0},
		{"ASN", "string", ".spec.peerASN", 0},
		{"BFD Profile", "string", ".spec.bfdProfile", 0},
		{"Multi Hops", "string", ".spec.ebgpMultiHop", 0},
	}
	both := map[string]string{
		"spec.bfdProfile":      "string",
		"spec.ebgpMultiHop":    "boolean",
		"spec.holdTime":        "string",
		"spec.keepaliveTime":   "string",
		"spec.myASN":           "integer int64 at least 0 at most 4294967295",
		"spec.nodeSelectors":   "array",
		"spec.nodeSelectors[]": "selector atomic",
		"spec.password":        "string",
		"spec.peerASN":         "integer int64 at least 0 at most 4294967295",
		"spec.peerAddress":     "string",
		"spec.routerID":        "string",
		"spec.sourceAddress":   "string",
		"status":               "object",
	}
	tests := []struct {
		name               string
		stored, deprecated bool
		fields             map[string]string
	}{
		{"v1beta1", false, true, map[string]string{
			"spec":                 "object requires myASN,peerASN,peerAddress",
			"spec.peerPort":        "integer at least 0 at most 16384",
			"spec.nodeSelectors[]": "selector ",
		}},
		{"v1beta2", true, false, map[string]string{
			"spec": "object requires myASN",
			"spec.connectTime": "string rule duration(self).getSeconds() >= 1 && duration(self).getSeconds() <= 65535" +
				" rule duration(self).getMilliseconds() % 1000 == 0",
			"spec.disableMP":                "boolean default false",
			"spec.dualStackAddressFamily":   "boolean default false",
			"spec.dynamicASN":               "string one of internal,external",
			"spec.enableGracefulRestart":    "boolean rule self == oldSelf",
			"spec.interface":                "string",
			"spec.localASN":                 "integer int64 at least 1 at most 4294967295",
			"spec.passwordSecret":           "object",
			"spec.passwordSecret.name":      "string",
			"spec.passwordSecret.namespace": "string",
			"spec.peerPort":                 "integer default 179 at least 1 at most 16384",
			"spec.vrf":                      "string",
		}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := got.Spec.Versions[i]
			assert.Equal(t, tt.name, v.Name)
			assert.True(t, v.Served)
			assert.Equal(t, tt.stored, v.Storage)
			assert.Equal(t, tt.deprecated, v.Deprecated)
			assert.Equal(t, tt.deprecated, v.Warning == "v1beta1 is deprecated, please use v1beta2")
			assert.Contains(t, v.Subresources, "status")
			assert.Equal(t, columns, v.Columns)
			want := maps.Clone(both)
			maps.Copy(want, tt.fields)
			assert.Equal(t, want, fieldsOf(t, v))
		})
	}
	// Of the older version's own selectors, the values are required.
	selector := got.Spec.Versions[0].Schema.OpenAPI.Properties["spec"].Properties["nodeSelectors"].Items
	expression := selector.Properties["matchExpressions"].Items
	assert.Equal(t, []string{"key", "operator", "values"}, expression.Required)
	assert.InDelta(t, 1, *expression.Properties["values"].MinItems, 0)
}

// TestSchemaHasTheFieldsOfTheTypes fails when a field was added to a type and nothing was generated.
func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	for plural, obj := range map[string]any{
		"ipaddresspools": v1beta1.IPAddressPoolSpec{}, "l2advertisements": v1beta1.L2AdvertisementSpec{},
		"bgpadvertisements": v1beta1.BGPAdvertisementSpec{}, "bfdprofiles": v1beta1.BFDProfileSpec{},
		"communities": v1beta1.CommunitySpec{}, "bgppeers": v1beta1.BGPPeerSpec{},
	} {
		var want, got []string
		ty := reflect.TypeOf(obj)
		for field := range ty.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, name)
		}
		for name := range readCRD(t, plural).Spec.Versions[0].Schema.OpenAPI.Properties["spec"].Properties {
			got = append(got, name)
		}
		assert.ElementsMatch(t, want, got, plural)
	}
}
