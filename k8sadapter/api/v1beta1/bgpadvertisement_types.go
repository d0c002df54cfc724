package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BGPAdvertisement announces the addresses of pools to routers, by BGP.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bgpadvertisements,singular=bgpadvertisement,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="IPAddressPools",type=string,JSONPath=`.spec.ipAddressPools`
// +kubebuilder:printcolumn:name="IPAddressPool Selectors",type=string,JSONPath=`.spec.ipAddressPoolSelectors`
// +kubebuilder:printcolumn:name="Peers",type=string,JSONPath=`.spec.peers`
// +kubebuilder:printcolumn:name="Node Selectors",type=string,JSONPath=`.spec.nodeSelectors`,priority=10
type BGPAdvertisement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which addresses are announced, from where, to whom, and how. Empty announces every pool from every node to every
	// peer.
	// +optional
	Spec BGPAdvertisementSpec `json:"spec,omitempty"`
	// Always empty.
	// +optional
	Status BGPAdvertisementStatus `json:"status,omitempty"`
}

// BGPAdvertisementSpec says which addresses are announced, from where, to whom, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.serviceSelectors) || size(self.serviceSelectors) == 0 || ((!has(self.aggregationLength) || self.aggregationLength == 32) && (!has(self.aggregationLengthV6) || self.aggregationLengthV6 == 128))",message="aggregationLength must be 32 and aggregationLengthV6 must be 128 when serviceSelectors is set"
type BGPAdvertisementSpec struct {
	// The length of the IPv4 prefixes that are announced. Shorter than 32 announces the prefix that holds the address;
	// it must lie within the pool.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default:=32
	AggregationLength *int32 `json:"aggregationLength,omitempty"`

	// The length of the IPv6 prefixes that are announced.
	// +optional
	// +kubebuilder:default:=128
	AggregationLengthV6 *int32 `json:"aggregationLengthV6,omitempty"`

	// The preference inside the AS (LOCAL_PREF), for peers of the same AS. Absent or 0 sends none.
	// +optional
	// +kubebuilder:validation:Format=int32
	LocalPref uint32 `json:"localPref,omitempty"`

	// Communities of the routes: standard ones (64512:7), large ones (large:64512:1:2), or names that a Community
	// defines.
	// +optional
	Communities []string `json:"communities,omitempty"`

	// Names of the pools to announce. When this and ipAddressPoolSelectors are both empty, every pool is announced;
	// otherwise those that either of them selects. Names that no pool has are ignored.
	// +optional
	IPAddressPools []string `json:"ipAddressPools,omitempty"`

	// Labels of the pools to announce. One matching selector is enough.
	// +optional
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors,omitempty"`

	// Labels of the nodes that announce. One matching selector is enough. Empty means all nodes.
	// +optional
	NodeSelectors []metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// Names of the BGPPeers to announce to. Empty means all of them. Names that no peer has are ignored.
	// +optional
	Peers []string `json:"peers,omitempty"`

	// Labels of the Services to announce. One matching selector is enough. Empty means all Services. Routes are for
	// single addresses then: both aggregation lengths must be the longest.
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
}

// BGPAdvertisementStatus is always empty.
type BGPAdvertisementStatus struct{}

// BGPAdvertisementList is a list of advertisements.
//
// +kubebuilder:object:root=true
type BGPAdvertisementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BGPAdvertisement `json:"items"`
}
