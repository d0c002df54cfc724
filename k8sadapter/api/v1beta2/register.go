package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The group and the version of the kinds in this package.
const (
	Group   = "metallb.io"
	Version = "v1beta2"
)

// Names of the kind and of its resource, as they appear in manifests and in URLs.
const (
	KindBGPPeer      = "BGPPeer"
	ResourceBGPPeers = "bgppeers"
)

// GroupVersion returns metallb.io/v1beta2.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme registers the kinds of this package, and the options and watch events of their group, in scheme.
// It may be called several times with one scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &BGPPeer{}, &BGPPeerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
