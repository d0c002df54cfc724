package v1beta1_test

import (
	"encoding/json"
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
	CEL        []any             `json:"x-kubernetes-validations"`
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
		Group    string         `json:"group"`
		Scope    string         `json:"scope"`
		Names    map[string]any `json:"names"`
		Versions []struct {
			Name         string         `json:"name"`
			Served       bool           `json:"served"`
			Storage      bool           `json:"storage"`
			Deprecated   bool           `json:"deprecated"`
			Subresources map[string]any `json:"subresources"`
			Columns      []column       `json:"additionalPrinterColumns"`
			Schema       struct {
				OpenAPI schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

func readCRD(t *testing.T, plural string) crd {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "daemons", "deploy", "crds", "metallb.io_"+plural+".yaml"))
	require.NoError(t, err)
	var out crd
	require.NoError(t, yaml.Unmarshal(data, &out))
	require.Len(t, out.Spec.Versions, 1)
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
			version := got.Spec.Versions[0]
			assert.Equal(t, v1beta1.Version, version.Name)
			assert.True(t, version.Served && version.Storage && !version.Deprecated)
			assert.Contains(t, version.Subresources, "status")
			assert.Equal(t, tt.columns, version.Columns)
			root := version.Schema.OpenAPI
			assert.Equal(t, tt.required, root.Required)
			fields := make(map[string]string)
			flat("", root, fields)
			for _, name := range []string{"apiVersion", "kind", "metadata"} {
				assert.Contains(t, fields, name)
				delete(fields, name)
			}
			assert.Equal(t, tt.fields, fields)
		})
	}
}

// TestSchemaHasTheFieldsOfTheTypes fails when a field was added to a type and nothing was generated.
func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	for plural, obj := range map[string]any{"ipaddresspools": v1beta1.IPAddressPoolSpec{}, "l2advertisements": v1beta1.L2AdvertisementSpec{}} {
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
