package v1beta1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

const oldPeer = `
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: tor, namespace: metallb-system, labels: {a: b}}
spec:
  myASN: 64512
  peerASN: 4200000001
  peerAddress: 192.0.2.254
  sourceAddress: 192.0.2.9
  peerPort: 1179
  holdTime: 30s
  keepaliveTime: 10s
  routerID: 10.9.9.9
  nodeSelectors:
  - matchLabels: {rack: r1}
  - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
  password: secret
  bfdProfile: quick
  ebgpMultiHop: true
`

func decodeOldPeer(t *testing.T, text string) *v1beta1.BGPPeer {
	t.Helper()
	obj, _, err := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer().Decode([]byte(text), nil, nil)
	require.NoError(t, err)
	peer, ok := obj.(*v1beta1.BGPPeer)
	require.True(t, ok)
	return peer
}

func TestToV1beta2(t *testing.T) {
	in := decodeOldPeer(t, oldPeer)
	before := in.DeepCopy()
	out := v1beta1.ToV1beta2(in)
	assert.Equal(t, &v1beta2.BGPPeer{
		TypeMeta:   metav1.TypeMeta{APIVersion: "metallb.io/v1beta2", Kind: "BGPPeer"},
		ObjectMeta: metav1.ObjectMeta{Name: "tor", Namespace: "metallb-system", Labels: map[string]string{"a": "b"}},
		Spec: v1beta2.BGPPeerSpec{
			MyASN: 64512, ASN: 4200000001, Address: "192.0.2.254", SrcAddress: "192.0.2.9", Port: 1179,
			HoldTime: &metav1.Duration{Duration: 30 * time.Second}, KeepaliveTime: &metav1.Duration{Duration: 10 * time.Second},
			RouterID: "10.9.9.9", Password: "secret", BFDProfile: "quick", EBGPMultiHop: true,
			NodeSelectors: []metav1.LabelSelector{
				{MatchLabels: map[string]string{"rack": "r1"}},
				{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}}},
			},
		},
	}, out)
	assert.Equal(t, in, v1beta1.FromV1beta2(out), "and back")

	out.Labels["a"] = "x"
	out.Spec.NodeSelectors[0].MatchLabels["rack"] = "x"
	out.Spec.NodeSelectors[1].MatchExpressions[0].Values[0] = "x"
	assert.Equal(t, before, in, "nothing is shared")
}

// MetalLB makes an explicit zero of a timer that a v1beta1 object leaves out.
func TestTimersThatAreLeftOutMeanTheDefaults(t *testing.T) {
	out := v1beta1.ToV1beta2(decodeOldPeer(t, `--- {apiVersion: metallb.io/v1beta1, kind: BGPPeer, metadata: {name: tor},
		spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.254}}`))
	assert.Nil(t, out.Spec.HoldTime)
	assert.Nil(t, out.Spec.KeepaliveTime)
	assert.Equal(t, uint16(179), out.Spec.Port)
}

func TestFromV1beta2DropsWhatTheOlderVersionLacks(t *testing.T) {
	out := v1beta1.FromV1beta2(&v1beta2.BGPPeer{Spec: v1beta2.BGPPeerSpec{
		MyASN: 64512, DynamicASN: v1beta2.ExternalASNMode, LocalASN: 7, Interface: "eth1", VRFName: "red",
		ConnectTime: &metav1.Duration{Duration: time.Second}, PasswordSecret: corev1.SecretReference{Name: "s"},
		EnableGracefulRestart: true, DisableMP: true, DualStackAddressFamily: true, HoldTime: &metav1.Duration{},
	}})
	assert.Equal(t, v1beta1.BGPPeerSpec{MyASN: 64512}, out.Spec)
}

// What v1beta1 can say survives the way there and back, but for the port, which becomes explicit.
func TestConversionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{1,5}`)
		in := &v1beta1.BGPPeer{
			TypeMeta:   metav1.TypeMeta{APIVersion: "metallb.io/v1beta1", Kind: "BGPPeer"},
			ObjectMeta: metav1.ObjectMeta{Name: text.Draw(t, "name")},
			Spec: v1beta1.BGPPeerSpec{
				MyASN: rapid.Uint32().Draw(t, "my"), ASN: rapid.Uint32().Draw(t, "peer"), Address: text.Draw(t, "address"),
				Port: rapid.Uint16Range(0, 16384).Draw(t, "port"), Password: text.Draw(t, "password"),
				HoldTime:     metav1.Duration{Duration: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "hold"))},
				EBGPMultiHop: rapid.Bool().Draw(t, "multihop"),
			},
		}
		for range rapid.IntRange(0, 2).Draw(t, "selectors") {
			in.Spec.NodeSelectors = append(in.Spec.NodeSelectors, v1beta1.NodeSelector{
				MatchExpressions: []v1beta1.MatchExpression{{Key: text.Draw(t, "key"), Operator: "In", Values: []string{text.Draw(t, "value")}}},
			})
		}
		got := v1beta1.FromV1beta2(v1beta1.ToV1beta2(in))
		if in.Spec.Port == 0 {
			in.Spec.Port = 179
		}
		assert.Equal(t, in, got)
	})
}
