package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BFDProfile says how the path to a BGPPeer is watched with BFD (RFC 5880).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bfdprofiles,singular=bfdprofile,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Passive Mode",type=boolean,JSONPath=`.spec.passiveMode`
// +kubebuilder:printcolumn:name="Transmit Interval",type=integer,JSONPath=`.spec.transmitInterval`
// +kubebuilder:printcolumn:name="Receive Interval",type=integer,JSONPath=`.spec.receiveInterval`
// +kubebuilder:printcolumn:name="Multiplier",type=integer,JSONPath=`.spec.detectMultiplier`
type BFDProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The parameters. Empty means the defaults.
	// +optional
	Spec BFDProfileSpec `json:"spec,omitempty"`
	// Always empty.
	// +optional
	Status BFDProfileStatus `json:"status,omitempty"`
}

// BFDProfileSpec holds the parameters of BFD sessions.
type BFDProfileSpec struct {
	// The least time between control packets that this side can receive, in milliseconds. Absent means 300.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	ReceiveInterval *uint32 `json:"receiveInterval,omitempty"`

	// The least time between control packets that this side wants to send, in milliseconds. Absent means 300.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	TransmitInterval *uint32 `json:"transmitInterval,omitempty"`

	// How many packets in a row may be missed before the path is down. Absent means 3.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=255
	DetectMultiplier *uint32 `json:"detectMultiplier,omitempty"`

	// The least time between echo packets, in milliseconds. Absent means 50.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	EchoInterval *uint32 `json:"echoInterval,omitempty"`

	// Whether to send echo packets, which the other side returns. Not for multihop sessions.
	// +optional
	EchoMode *bool `json:"echoMode,omitempty"`

	// Whether to wait for the other side to begin.
	// +optional
	PassiveMode *bool `json:"passiveMode,omitempty"`

	// For multihop sessions: the least TTL of received packets. Absent means 254.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=254
	MinimumTTL *uint32 `json:"minimumTtl,omitempty"`
}

// BFDProfileStatus is always empty.
type BFDProfileStatus struct{}

// BFDProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type BFDProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BFDProfile `json:"items"`
}
