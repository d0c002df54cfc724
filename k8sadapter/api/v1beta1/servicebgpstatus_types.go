package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ServiceBGPStatus says to which peers a node announces a Service. The node itself writes it. It is about what is
// configured: whether the sessions are up does not matter.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=servicebgpstatuses,singular=servicebgpstatus,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="Service Name",type=string,JSONPath=`.status.serviceName`
// +kubebuilder:printcolumn:name="Service Namespace",type=string,JSONPath=`.status.serviceNamespace`
type ServiceBGPStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Always empty.
	// +optional
	Spec ServiceBGPStatusSpec `json:"spec,omitempty"`
	// Who announces what to whom.
	// +optional
	Status ServiceBGPStatusStatus `json:"status,omitempty"`
}

// ServiceBGPStatusSpec is always empty.
type ServiceBGPStatusSpec struct{}

// ServiceBGPStatusStatus says who announces what to whom.
type ServiceBGPStatusStatus struct {
	// The node that announces the Service.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Node string `json:"node,omitempty"`

	// The name of the Service.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	ServiceName string `json:"serviceName,omitempty"`

	// The namespace of the Service.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	ServiceNamespace string `json:"serviceNamespace,omitempty"`

	// The BGPPeers that it is announced to, sorted.
	// +optional
	Peers []string `json:"peers,omitempty"`
}

// ServiceBGPStatusList is a list of statuses.
//
// +kubebuilder:object:root=true
type ServiceBGPStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServiceBGPStatus `json:"items"`
}
