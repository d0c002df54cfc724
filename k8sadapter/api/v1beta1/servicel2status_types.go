package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ServiceL2Status says which node announces a Service on the local network. The node itself writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=servicel2statuses,singular=servicel2status,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Allocated Node",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="Service Name",type=string,JSONPath=`.status.serviceName`
// +kubebuilder:printcolumn:name="Service Namespace",type=string,JSONPath=`.status.serviceNamespace`
type ServiceL2Status struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Always empty.
	// +optional
	Spec ServiceL2StatusSpec `json:"spec,omitempty"`
	// Who announces what.
	// +optional
	Status ServiceL2StatusStatus `json:"status,omitempty"`
}

// ServiceL2StatusSpec is always empty.
type ServiceL2StatusSpec struct{}

// ServiceL2StatusStatus says who announces what.
type ServiceL2StatusStatus struct {
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

	// The interfaces on which it is announced, sorted. Empty means all of them.
	// +optional
	Interfaces []InterfaceInfo `json:"interfaces,omitempty"`
}

// InterfaceInfo names a network interface.
type InterfaceInfo struct {
	// The name of the interface.
	// +optional
	Name string `json:"name,omitempty"`
}

// ServiceL2StatusList is a list of statuses.
//
// +kubebuilder:object:root=true
type ServiceL2StatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServiceL2Status `json:"items"`
}
