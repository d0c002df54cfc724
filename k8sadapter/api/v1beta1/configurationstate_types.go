package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConfigurationState says whether a daemon could use the configuration that it found. Each daemon writes one: the
// controller's is named controller, the speaker's speaker-NODE.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=configurationstates,singular=configurationstate,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.result`
// +kubebuilder:printcolumn:name="ErrorSummary",type=string,JSONPath=`.status.errorSummary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ConfigurationState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the daemon found.
	// +optional
	Status ConfigurationStateStatus `json:"status,omitempty"`
}

// ConfigurationResult is the verdict on a configuration.
//
// +kubebuilder:validation:Enum=Valid;Invalid;Unknown
type ConfigurationResult string

// The verdicts.
const (
	ConfigurationValid   ConfigurationResult = "Valid"
	ConfigurationInvalid ConfigurationResult = "Invalid"
	ConfigurationUnknown ConfigurationResult = "Unknown"
)

// ConfigurationStateStatus is what a daemon found.
type ConfigurationStateStatus struct {
	// Valid, Invalid (an object is rejected and its last good version is in force), or Unknown.
	// +optional
	Result ConfigurationResult `json:"result,omitempty"`

	// What is wrong, a line for each rejected object.
	// +optional
	ErrorSummary string `json:"errorSummary,omitempty"`

	// The condition poolReconcilerValid of the controller, or configReconcilerValid of a speaker.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConfigurationStateList is a list of verdicts.
//
// +kubebuilder:object:root=true
type ConfigurationStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ConfigurationState `json:"items"`
}
