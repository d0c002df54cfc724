package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IPAddressPool is a set of addresses that may be given to Services of type LoadBalancer.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ipaddresspools,singular=ipaddresspool,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Auto Assign",type=boolean,JSONPath=`.spec.autoAssign`
// +kubebuilder:printcolumn:name="Avoid Buggy IPs",type=boolean,JSONPath=`.spec.avoidBuggyIPs`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
type IPAddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the pool holds, and whom it serves.
	Spec IPAddressPoolSpec `json:"spec"`
	// How much of the pool is in use.
	Status IPAddressPoolStatus `json:"status,omitempty"`
}

// IPAddressPoolSpec says what a pool holds, and whom it serves.
type IPAddressPoolSpec struct {
	// The addresses of the pool. Each entry is a prefix, such as 192.0.2.0/24 or 2001:db8::/64, or an inclusive
	// range, such as 192.0.2.10-192.0.2.19. A single address is written with /32 or /128. The entries of all pools
	// must not overlap. A pool may hold both families; a dual-stack Service gets both addresses from one pool.
	Addresses []string `json:"addresses"`

	// Whether Services that ask neither for an address nor for a pool may get an address of this pool. When false,
	// the pool serves explicit requests only.
	// +optional
	// +kubebuilder:default:=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// Leave out the IPv4 addresses whose last octet is 0 or 255, which some old network equipment drops.
	// +optional
	// +kubebuilder:default:=false
	AvoidBuggyIPs bool `json:"avoidBuggyIPs,omitempty"`

	// Whom the pool serves, and how early it is tried. A pool without this field serves every Service, after all the
	// pools that have it.
	// +optional
	AllocateTo *ServiceAllocation `json:"serviceAllocation,omitempty"`
}

// ServiceAllocation restricts a pool to some Services and ranks it among the pools. A Service is served when its
// namespace is one of those selected and its labels match one of the service selectors; what is left empty does not
// restrict.
type ServiceAllocation struct {
	// Pools with a lower priority are tried earlier. Zero, which is the default, comes after every other value.
	// +optional
	Priority int `json:"priority,omitempty"`

	// Names of the namespaces that the pool serves, in addition to those selected by namespaceSelectors.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// Labels of the namespaces that the pool serves. A namespace is selected when one of the selectors matches it.
	// When the selectors match no namespace and none is listed by name, the pool serves nobody.
	// +optional
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// Labels of the Services that the pool serves. One matching selector is enough.
	// +optional
	ServiceSelectors []metav1.LabelSelector `json:"serviceSelectors,omitempty"`
}

// IPAddressPoolStatus counts the addresses of a pool. An address that several Services share counts once. Counts that
// do not fit stay at the largest number.
type IPAddressPoolStatus struct {
	// Number of IPv4 addresses in use.
	AssignedIPv4 int64 `json:"assignedIPv4"`
	// Number of IPv6 addresses in use.
	AssignedIPv6 int64 `json:"assignedIPv6"`
	// Number of IPv4 addresses that are free.
	AvailableIPv4 int64 `json:"availableIPv4"`
	// Number of IPv6 addresses that are free.
	AvailableIPv6 int64 `json:"availableIPv6"`
}

// IPAddressPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type IPAddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []IPAddressPool `json:"items"`
}
