package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BGPPeer is a router that the nodes announce addresses to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bgppeers,singular=bgppeer,scope=Namespaced
// +kubebuilder:storageversion
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

// DynamicASNMode says which AS numbers of the router are accepted.
type DynamicASNMode string

// The modes.
const (
	// InternalASNMode: the number of this side.
	InternalASNMode DynamicASNMode = "internal"
	// ExternalASNMode: every other number.
	ExternalASNMode DynamicASNMode = "external"
)

// BGPPeerSpec says how to reach a router, and from which nodes.
type BGPPeerSpec struct {
	// The AS number of this side. 0 is refused.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +kubebuilder:validation:Format=int64
	MyASN uint32 `json:"myASN"`

	// The AS number of the router. Either it or dynamicASN is required.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +kubebuilder:validation:Format=int64
	ASN uint32 `json:"peerASN,omitempty"`

	// Accept the router's AS number without naming it: internal for that of this side, external for any other. Either
	// it or peerASN is required.
	// +optional
	// +kubebuilder:validation:Enum=internal;external
	DynamicASN DynamicASNMode `json:"dynamicASN,omitempty"`

	// The AS number to show to this router instead of myASN.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +kubebuilder:validation:Format=int64
	LocalASN uint32 `json:"localASN,omitempty"`

	// The address of the router. Either it or interface is required.
	// +optional
	Address string `json:"peerAddress,omitempty"`

	// The network interface of the node at whose other end the router is (unnumbered peering). Either it or peerAddress
	// is required.
	// +optional
	Interface string `json:"interface,omitempty"`

	// An address of the node to make the session from.
	// +optional
	SrcAddress string `json:"sourceAddress,omitempty"`

	// The TCP port of the router.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16384
	// +kubebuilder:default:=179
	Port uint16 `json:"peerPort,omitempty"`

	// The hold time that is proposed (RFC 4271), 0 or 3 s to 65535 s in whole seconds. Without it, three times
	// keepaliveTime, or else 90 s.
	// +optional
	HoldTime *metav1.Duration `json:"holdTime,omitempty"`

	// The time between keepalive messages, at most holdTime. Without it, a third of holdTime.
	// +optional
	KeepaliveTime *metav1.Duration `json:"keepaliveTime,omitempty"`

	// The pause between two attempts to connect.
	// +optional
	// +kubebuilder:validation:XValidation:message="connect time should be between 1 seconds to 65535",rule="duration(self).getSeconds() >= 1 && duration(self).getSeconds() <= 65535"
	// +kubebuilder:validation:XValidation:message="connect time should contain a whole number of seconds",rule="duration(self).getMilliseconds() % 1000 == 0"
	ConnectTime *metav1.Duration `json:"connectTime,omitempty"`

	// The BGP identifier of this side, in the form of an IPv4 address. Without it, the IPv4 address of the node, or else
	// a number made of the name of the node.
	// +optional
	RouterID string `json:"routerID,omitempty"`

	// Labels of the nodes that have a session with the router. One matching selector is enough. Empty means all nodes.
	// +optional
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// The key of TCP MD5 (RFC 2385), in clear text. It excludes passwordSecret.
	// +optional
	Password string `json:"password,omitempty"`

	// The name of a Secret of type kubernetes.io/basic-auth in the namespace of the daemons, whose key password holds
	// the key of TCP MD5. The namespace in the reference is ignored. Without the Secret there is no session.
	// +optional
	PasswordSecret corev1.SecretReference `json:"passwordSecret,omitempty"`

	// The name of the BFDProfile that watches over the path to the router. Without it there is no BFD.
	// +optional
	BFDProfile string `json:"bfdProfile,omitempty"`

	// Ask the router to keep the routes while the speaker restarts (RFC 4724).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="EnableGracefulRestart cannot be changed after creation"
	EnableGracefulRestart bool `json:"enableGracefulRestart,omitempty"`

	// Whether the router, of another AS, may be more than one hop away.
	// +optional
	EBGPMultiHop bool `json:"ebgpMultiHop,omitempty"`

	// The VRF of the node to make the session in.
	// +optional
	VRFName string `json:"vrf,omitempty"`

	// Deprecated and without effect: a session carries the family of its address, see dualStackAddressFamily.
	// +optional
	// +kubebuilder:default:=false
	DisableMP bool `json:"disableMP,omitempty"`

	// Whether the session carries routes of both address families.
	// +optional
	// +kubebuilder:default:=false
	DualStackAddressFamily bool `json:"dualStackAddressFamily,omitempty"`
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
