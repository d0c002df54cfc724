package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// L2Advertisement makes the addresses of pools answer on the local network, by ARP and by neighbour discovery.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=l2advertisements,singular=l2advertisement,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="IPAddressPools",type=string,JSONPath=`.spec.ipAddressPools`
// +kubebuilder:printcolumn:name="IPAddressPool Selectors",type=string,JSONPath=`.spec.ipAddressPoolSelectors`
// +kubebuilder:printcolumn:name="Interfaces",type=string,JSONPath=`.spec.interfaces`
// +kubebuilder:printcolumn:name="Node Selectors",type=string,JSONPath=`.spec.nodeSelectors`,priority=10
type L2Advertisement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which addresses are announced, and from where. Empty announces every pool from every node on every interface.
	// +optional
	Spec L2AdvertisementSpec `json:"spec,omitempty"`
	// Always empty.
	// +optional
	Status L2AdvertisementStatus `json:"status,omitempty"`
}

// L2AdvertisementSpec says which addresses are announced, and from where.
type L2AdvertisementSpec struct {
	// Names of the pools to announce. When this and ipAddressPoolSelectors are both empty, every pool is announced;
	// otherwise those that either of them selects. Names that no pool has are ignored.
	// +optional
	IPAddressPools []string `json:"ipAddressPools,omitempty"`

	// Labels of the pools to announce. One matching selector is enough.
	// +optional
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors,omitempty"`

	// Labels of the nodes that may announce. One matching selector is enough. Empty means all nodes.
	// +optional
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// Names of the network interfaces to announce on. Empty means all interfaces.
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`

	// Labels of the Services to announce. One matching selector is enough. Empty means all Services.
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`

	// Nodes that should rather announce than others. Of the nodes that may announce, the one with the largest sum of
	// weights does. Nodes outside nodeSelectors gain nothing.
	// +optional
	PreferredNodeSelectors []PreferredNodeSelector `json:"preferredNodeSelectors,omitempty"`
}

// PreferredNodeSelector gives a weight to the nodes that it matches.
type PreferredNodeSelector struct {
	// What matching nodes gain.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// Labels of the nodes. An empty selector matches all nodes.
	Preference metav1.LabelSelector `json:"preference"`
}

// L2AdvertisementStatus is always empty.
type L2AdvertisementStatus struct{}

// L2AdvertisementList is a list of advertisements.
//
// +kubebuilder:object:root=true
type L2AdvertisementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []L2Advertisement `json:"items"`
}
