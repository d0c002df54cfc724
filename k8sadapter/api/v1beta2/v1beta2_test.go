package v1beta2_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// full sets every field that the schema has.
const full = `
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: metallb-system}
spec:
  myASN: 64512
  peerASN: 4200000001
  dynamicASN: external
  localASN: 64599
  peerAddress: 192.0.2.254
  interface: eth1
  sourceAddress: 192.0.2.9
  peerPort: 1179
  holdTime: 30s
  keepaliveTime: 10s
  connectTime: 7s
  routerID: 10.9.9.9
  nodeSelectors: [{matchLabels: {rack: r1}}]
  password: secret
  passwordSecret: {name: tor-key, namespace: metallb-system}
  bfdProfile: quick
  enableGracefulRestart: true
  ebgpMultiHop: true
  vrf: red
  disableMP: true
  dualStackAddressFamily: true
status: {}
`

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, v1beta2.AddToScheme(s))
	require.NoError(t, v1beta2.AddToScheme(s), "again")
	return s
}

func TestRoundTrip(t *testing.T) {
	obj, kind, err := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer().Decode([]byte(full), nil, nil)
	require.NoError(t, err)
	assert.Equal(t, v1beta2.GroupVersion().WithKind(v1beta2.KindBGPPeer), *kind)
	out, err := json.Marshal(obj)
	require.NoError(t, err)
	want, err := yaml.YAMLToJSON([]byte(full))
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(out))
	assert.Equal(t, obj, obj.DeepCopyObject())

	peer, ok := obj.(*v1beta2.BGPPeer)
	require.True(t, ok)
	c := (&v1beta2.BGPPeerList{Items: []v1beta2.BGPPeer{*peer}}).DeepCopy().Items[0].DeepCopy()
	c.Spec.HoldTime.Duration, c.Spec.NodeSelectors[0].MatchLabels["rack"] = 0, "x"
	again, err := json.Marshal(peer)
	require.NoError(t, err)
	assert.Equal(t, out, again, "a deep copy shares nothing")
}

// TestSchemaHasTheFieldsOfTheTypes fails when a field was added to the type and nothing was generated.
func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "daemons", "deploy", "crds", "metallb.io_"+v1beta2.ResourceBGPPeers+".yaml"))
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPI struct {
						Properties map[string]struct {
							Properties map[string]any `json:"properties"`
						} `json:"properties"`
					} `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(data, &crd))
	var manifest struct {
		Spec map[string]any `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(full), &manifest))
	v := crd.Spec.Versions[1]
	require.Equal(t, v1beta2.Version, v.Name)
	for name := range v.Schema.OpenAPI.Properties["spec"].Properties {
		assert.Contains(t, manifest.Spec, name)
	}
	assert.Len(t, v.Schema.OpenAPI.Properties["spec"].Properties, len(manifest.Spec))
}

func TestScheme(t *testing.T) {
	s := scheme(t)
	for _, name := range []string{"BGPPeer", "BGPPeerList"} {
		obj, err := s.New(v1beta2.GroupVersion().WithKind(name))
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(fmt.Sprintf("%T", obj), "v1beta2."+name))
	}
	assert.True(t, s.Recognizes(v1beta2.GroupVersion().WithKind("ListOptions")))
}

func ExampleAddToScheme() {
	s := runtime.NewScheme()
	if err := v1beta2.AddToScheme(s); err != nil {
		fmt.Println(err)
		return
	}
	obj, _, err := serializer.NewCodecFactory(s).UniversalDeserializer().Decode([]byte(`
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.254}
`), nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(obj.(*v1beta2.BGPPeer).Spec.Address)
	// Output: 192.0.2.254
}
