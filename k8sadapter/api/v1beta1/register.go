package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The group and the version of every kind in this package.
const (
	Group   = "metallb.io"
	Version = "v1beta1"
)

// Names of the kinds and of their resources, as they appear in manifests and in URLs.
const (
	KindIPAddressPool         = "IPAddressPool"
	KindL2Advertisement       = "L2Advertisement"
	KindBGPAdvertisement      = "BGPAdvertisement"
	KindBGPPeer               = "BGPPeer"
	KindBFDProfile            = "BFDProfile"
	KindCommunity             = "Community"
	ResourceIPAddressPools    = "ipaddresspools"
	ResourceL2Advertisements  = "l2advertisements"
	ResourceBGPAdvertisements = "bgpadvertisements"
	ResourceBFDProfiles       = "bfdprofiles"
	ResourceCommunities       = "communities"
)

// GroupVersion returns metallb.io/v1beta1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// Kind returns the group-qualified name of a kind.
func Kind(kind string) schema.GroupKind {
	return GroupVersion().WithKind(kind).GroupKind()
}

// Resource returns the group-qualified name of a resource, as the errors of package apierrors want it.
func Resource(resource string) schema.GroupResource {
	return GroupVersion().WithResource(resource).GroupResource()
}

// AddToScheme registers the kinds of this package, and the options and watch events of their group, in scheme.
// It may be called several times with one scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&IPAddressPool{}, &IPAddressPoolList{},
		&L2Advertisement{}, &L2AdvertisementList{},
		&ConfigurationState{}, &ConfigurationStateList{},
		&ServiceL2Status{}, &ServiceL2StatusList{},
		&BGPPeer{}, &BGPPeerList{},
		&BGPAdvertisement{}, &BGPAdvertisementList{},
		&BFDProfile{}, &BFDProfileList{},
		&Community{}, &CommunityList{},
		&ServiceBGPStatus{}, &ServiceBGPStatusList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
