package v1beta1_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

const fullPool = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: edge
  namespace: metallb-system
  labels:
    zone: east
spec:
  addresses:
  - 192.0.2.0/24
  - 198.51.100.10-198.51.100.19
  - 2001:db8:77::/112
  autoAssign: false
  avoidBuggyIPs: true
  serviceAllocation:
    priority: 50
    namespaces: [shop, web]
    namespaceSelectors:
    - matchLabels:
        team: red
    serviceSelectors:
    - matchExpressions:
      - key: app
        operator: In
        values: [front, back]
status:
  assignedIPv4: 2
  assignedIPv6: 0
  availableIPv4: 254
  availableIPv6: 65536
`

const fullL2 = `
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata:
  name: lan
  namespace: metallb-system
spec:
  ipAddressPools: [edge]
  ipAddressPoolSelectors:
  - matchLabels:
      zone: east
  nodeSelectors:
  - matchLabels:
      kubernetes.io/hostname: node-a
  - matchExpressions:
    - key: rack
      operator: Exists
  interfaces: [eth0, eth1]
  serviceSelectors:
  - matchLabels:
      app: front
  preferredNodeSelectors:
  - weight: 80
    preference:
      matchLabels:
        zone: east
`

const fullBGP = `
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata:
  name: edge
spec:
  aggregationLength: 26
  aggregationLengthV6: 64
  localPref: 150
  communities: ["64512:7", "large:64512:1:2", no-export-east]
  ipAddressPools: [edge]
  ipAddressPoolSelectors: [{matchLabels: {zone: east}}]
  nodeSelectors: [{matchLabels: {rack: r1}}]
  peers: [tor-a, tor-b]
  serviceSelectors: [{matchExpressions: [{key: app, operator: Exists}]}]
`

const fullBFD = `
apiVersion: metallb.io/v1beta1
kind: BFDProfile
metadata:
  name: quick
spec: {receiveInterval: 50, transmitInterval: 51, detectMultiplier: 4, echoInterval: 60, echoMode: false, passiveMode: true, minimumTtl: 250}
`

const aliases = `
apiVersion: metallb.io/v1beta1
kind: Community
metadata:
  name: ours
spec:
  communities: [{name: no-export-east, value: "64512:9"}, {name: big, value: "large:64512:1:2"}]
`

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, v1beta1.AddToScheme(s))
	require.NoError(t, v1beta1.AddToScheme(s), "again")
	return s
}

// TestRoundTrip reads manifests strictly, writes them again, and compares: no field is lost, renamed or added.
func TestRoundTrip(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     string // when it is not the manifest itself
	}{
		"full pool": {manifest: fullPool},
		"full L2":   {manifest: fullL2},
		"full BGP":  {manifest: fullBGP},
		"full BFD":  {manifest: fullBFD},
		"aliases":   {manifest: aliases},
		"smallest pool": {
			manifest: `--- {apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: p}, spec: {addresses: [10.0.0.0/24]}}`,
			want: `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: p}, spec: {addresses: [10.0.0.0/24]},
				status: {assignedIPv4: 0, assignedIPv6: 0, availableIPv4: 0, availableIPv6: 0}}`,
		},
		"advertisement without spec": {
			manifest: `--- {apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: a}}`,
			want:     `{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: a}, spec: {}, status: {}}`,
		},
	}
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obj, kind, err := decoder.Decode([]byte(tt.manifest), nil, nil)
			require.NoError(t, err)
			assert.Equal(t, v1beta1.GroupVersion(), kind.GroupVersion())
			out, err := json.Marshal(obj)
			require.NoError(t, err)
			want := tt.want
			if want == "" {
				want = tt.manifest
			}
			wantJSON, err := yaml.YAMLToJSON([]byte(want))
			require.NoError(t, err)
			if _, isPool := obj.(*v1beta1.IPAddressPool); !isPool && tt.want == "" {
				wantJSON = append(wantJSON[:len(wantJSON)-1], `,"status":{}}`...)
			}
			assert.JSONEq(t, string(wantJSON), string(out))
			assert.Equal(t, obj, obj.DeepCopyObject())
		})
	}
}

func TestUnknownFieldIsRefused(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	_, _, err := decoder.Decode([]byte(`--- {apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: p}, spec: {addreses: []}}`), nil, nil)
	require.ErrorContains(t, err, "addreses")
}

func TestScheme(t *testing.T) {
	s := scheme(t)
	for _, kind := range []string{
		v1beta1.KindIPAddressPool, v1beta1.KindL2Advertisement, v1beta1.KindBGPPeer, v1beta1.KindBGPAdvertisement,
		v1beta1.KindBFDProfile, v1beta1.KindCommunity, "ServiceL2Status", "ServiceBGPStatus", "ConfigurationState",
	} {
		for _, name := range []string{kind, kind + "List"} {
			obj, err := s.New(v1beta1.GroupVersion().WithKind(name))
			require.NoError(t, err)
			kinds, _, err := s.ObjectKinds(obj)
			require.NoError(t, err)
			assert.Equal(t, name, kinds[0].Kind)
		}
		assert.Equal(t, "metallb.io", v1beta1.Kind(kind).Group)
	}
	assert.Equal(t, "ipaddresspools.metallb.io", v1beta1.Resource(v1beta1.ResourceIPAddressPools).String())
	assert.True(t, s.Recognizes(v1beta1.GroupVersion().WithKind("ListOptions")))
}

// A deep copy shares nothing with the original.
func TestDeepCopy(t *testing.T) {
	yes := true
	pool := &v1beta1.IPAddressPool{Spec: v1beta1.IPAddressPoolSpec{
		Addresses: []string{"10.0.0.0/24"}, AutoAssign: &yes,
		AllocateTo: &v1beta1.ServiceAllocation{
			Namespaces:       []string{"a"},
			ServiceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}},
		},
	}}
	was := jsonText(pool)
	list := &v1beta1.IPAddressPoolList{Items: []v1beta1.IPAddressPool{*pool}}
	c := list.DeepCopy().Items[0].DeepCopy()
	c.Spec.Addresses[0] = "x"
	*c.Spec.AutoAssign = false
	c.Spec.AllocateTo.Namespaces[0] = "x"
	c.Spec.AllocateTo.ServiceSelectors[0].MatchLabels["a"] = "x"
	assert.Equal(t, was, jsonText(pool))

	ad := &v1beta1.L2Advertisement{Spec: v1beta1.L2AdvertisementSpec{
		Interfaces:             []string{"eth0"},
		PreferredNodeSelectors: []v1beta1.PreferredNodeSelector{{Weight: 1, Preference: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
	}}
	was = jsonText(ad)
	d := (&v1beta1.L2AdvertisementList{Items: []v1beta1.L2Advertisement{*ad}}).DeepCopy().Items[0].DeepCopy()
	d.Spec.Interfaces[0] = "x"
	d.Spec.PreferredNodeSelectors[0].Preference.MatchLabels["a"] = "x"
	assert.Equal(t, was, jsonText(ad))
}

func ExampleAddToScheme() {
	s := runtime.NewScheme()
	if err := v1beta1.AddToScheme(s); err != nil {
		fmt.Println(err)
		return
	}
	obj, _, err := serializer.NewCodecFactory(s).UniversalDeserializer().Decode([]byte(`
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: edge
spec:
  addresses: [192.0.2.0/24]
`), nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(obj.(*v1beta1.IPAddressPool).Spec.Addresses)
	// Output: [192.0.2.0/24]
}
