// Package v1beta2 holds the metallb.io/v1beta2 kind that Herald reads: [BGPPeer].
//
// The JSON names, the defaults, the limits, the CEL rules and the printed columns are those of MetalLB; see package
// v1beta1, which also has the older version of the kind and the conversion between the two.
//
// v1beta2 is the version that is stored. As long as Herald runs no conversion webhook, the API server converts by
// changing apiVersion alone and drops what the other version does not know. That loses nothing when a v1beta1 object is
// read as v1beta2, the only way that Herald reads: what is absent stays absent and means its default. Who writes an
// object back that was read as v1beta1 loses the fields that only v1beta2 has.
//
// +kubebuilder:object:generate=true
// +groupName=metallb.io
package v1beta2
