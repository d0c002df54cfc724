package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BGPPeer is the older version of the kind in package v1beta2. Herald reads it from manifests only; [ToV1beta2]
// converts it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bgppeers,singular=bgppeer,scope=Namespaced
// +kubebuilder:deprecatedversion:warning="v1beta1 is deprecated, please use v1beta2"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.peerAddress`
// +kubebuilder:printcolumn:name="ASN",type=string,JSONPath=`.spec.peerASN`
// +kubebuilder:printcolumn:name="BFD Profile",type=string,JSONPath=`.spec.bfdProfile`
// +kubebuilder:printcolumn:name="Multi Hops",type=string,JSONPath=`.spec.ebgpMultiHop`
type BGPPeer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How to reach the router, and from which nodes.
	// +optional
	Spec BGPPeerSpec `json:"spec,omitempty"`
	// Always empty.
	// +optional
	Status BGPPeerStatus `json:"status,omitempty"`
}

// BGPPeerSpec says how to reach a router, and from which nodes.
type BGPPeerSpec struct {
	// The AS number of this side. 0 is refused.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +kubebuilder:validation:Format=int64
	MyASN uint32 `json:"myASN"`

	// The AS number of the router.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +kubebuilder:validation:Format=int64
	ASN uint32 `json:"peerASN"`

	// The address of the router.
	Address string `json:"peerAddress"`

	// An address of the node to make the session from.
	// +optional
	SrcAddress string `json:"sourceAddress,omitempty"`

	// The TCP port of the router. 0 means 179.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16384
	Port uint16 `json:"peerPort,omitempty"`

	// The hold time that is proposed (RFC 4271). Absent or 0 means the default.
	// +optional
	HoldTime metav1.Duration `json:"holdTime,omitempty"`

	// The time between keepalive messages. Absent or 0 means the default.
	// +optional
	KeepaliveTime metav1.Duration `json:"keepaliveTime,omitempty"`

	// The BGP identifier of this side, in the form of an IPv4 address.
	// +optional
	RouterID string `json:"routerID,omitempty"`

	// Labels of the nodes that have a session with the router. One matching selector is enough. Empty means all nodes.
	// +optional
	NodeSelectors []NodeSelector `json:"nodeSelectors,omitempty"`

	// The key of TCP MD5 (RFC 2385), in clear text.
	// +optional
	Password string `json:"password,omitempty"`

	// The name of the BFDProfile that watches over the path to the router.
	// +optional
	BFDProfile string `json:"bfdProfile,omitempty"`

	// Whether the router, of another AS, may be more than one hop away.
	// +optional
	EBGPMultiHop bool `json:"ebgpMultiHop,omitempty"`
}

// NodeSelector selects nodes by their labels.
type NodeSelector struct {
	// The labels that a node must have.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// What must hold for the labels of a node, all of it.
	// +optional
	MatchExpressions []MatchExpression `json:"matchExpressions,omitempty"`
}

// MatchExpression is one requirement on the labels of a node.
type MatchExpression struct {
	// The key of the label.
	Key string `json:"key"`
	// In or NotIn.
	Operator string `json:"operator"`
	// The values.
	// +kubebuilder:validation:MinItems:=1
	Values []string `json:"values"`
}

// BGPPeerStatus is always empty.
type BGPPeerStatus struct{}

// BGPPeerList is a list of peers.
//
// +kubebuilder:object:root=true
type BGPPeerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BGPPeer `json:"items"`
}
