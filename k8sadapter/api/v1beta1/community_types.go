package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Community gives names to BGP communities, for use in BGPAdvertisements.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=communities,singular=community,scope=Namespaced
// +kubebuilder:storageversion
type Community struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The names.
	// +optional
	Spec CommunitySpec `json:"spec,omitempty"`
	// Always empty.
	// +optional
	Status CommunityStatus `json:"status,omitempty"`
}

// CommunitySpec holds names of communities.
type CommunitySpec struct {
	// The names. One name must not be defined twice, in this object or in another.
	// +optional
	Communities []CommunityAlias `json:"communities,omitempty"`
}

// CommunityAlias is a name for a community.
type CommunityAlias struct {
	// The name.
	// +optional
	Name string `json:"name,omitempty"`
	// The community that it stands for: a standard one (64512:7) or a large one (large:64512:1:2).
	// +optional
	Value string `json:"value,omitempty"`
}

// CommunityStatus is always empty.
type CommunityStatus struct{}

// CommunityList is a list of objects with names.
//
// +kubebuilder:object:root=true
type CommunityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Community `json:"items"`
}
