package v1beta1

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// ToV1beta2 converts a peer to the version that is stored. A timer that is absent or zero stays absent and means its
// default, where MetalLB makes it an explicit zero: v1beta1 cannot tell the two apart, and nobody who leaves timers out
// wants a session that never notices a dead router. A port of 0 becomes 179.
func ToV1beta2(in *BGPPeer) *v1beta2.BGPPeer {
	s := &in.Spec
	out := &v1beta2.BGPPeer{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta2.GroupVersion().String(), Kind: v1beta2.KindBGPPeer},
		ObjectMeta: *in.ObjectMeta.DeepCopy(),
		Spec: v1beta2.BGPPeerSpec{
			MyASN: s.MyASN, ASN: s.ASN, Address: s.Address, SrcAddress: s.SrcAddress, Port: s.Port,
			HoldTime: toPointer(s.HoldTime), KeepaliveTime: toPointer(s.KeepaliveTime),
			RouterID: s.RouterID, Password: s.Password, BFDProfile: s.BFDProfile, EBGPMultiHop: s.EBGPMultiHop,
		},
	}
	if out.Spec.Port == 0 {
		out.Spec.Port = 179
	}
	for _, sel := range s.NodeSelectors {
		converted := metav1.LabelSelector{MatchLabels: maps.Clone(sel.MatchLabels)}
		for _, e := range sel.MatchExpressions {
			converted.MatchExpressions = append(converted.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: slices.Clone(e.Values),
			})
		}
		out.Spec.NodeSelectors = append(out.Spec.NodeSelectors, converted)
	}
	return out
}

// FromV1beta2 converts a peer to the older version. What only v1beta2 has is lost: dynamicASN, localASN, interface,
// connectTime, passwordSecret, enableGracefulRestart, vrf, disableMP, dualStackAddressFamily, and an explicit zero of a
// timer.
func FromV1beta2(in *v1beta2.BGPPeer) *BGPPeer {
	s := &in.Spec
	out := &BGPPeer{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion().String(), Kind: v1beta2.KindBGPPeer},
		ObjectMeta: *in.ObjectMeta.DeepCopy(),
		Spec: BGPPeerSpec{
			MyASN: s.MyASN, ASN: s.ASN, Address: s.Address, SrcAddress: s.SrcAddress, Port: s.Port,
			HoldTime: fromPointer(s.HoldTime), KeepaliveTime: fromPointer(s.KeepaliveTime),
			RouterID: s.RouterID, Password: s.Password, BFDProfile: s.BFDProfile, EBGPMultiHop: s.EBGPMultiHop,
		},
	}
	for _, sel := range s.NodeSelectors {
		converted := NodeSelector{MatchLabels: maps.Clone(sel.MatchLabels)}
		for _, e := range sel.MatchExpressions {
			converted.MatchExpressions = append(converted.MatchExpressions, MatchExpression{
				Key: e.Key, Operator: string(e.Operator), Values: slices.Clone(e.Values),
			})
		}
		out.Spec.NodeSelectors = append(out.Spec.NodeSelectors, converted)
	}
	return out
}

func toPointer(d metav1.Duration) *metav1.Duration {
	if d.Duration == time.Duration(0) {
		return nil
	}
	return &d
}

func fromPointer(d *metav1.Duration) metav1.Duration {
	if d == nil {
		return metav1.Duration{}
	}
	return *d
}
