package source

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// Kind names one of the object kinds that a source serves. The value is the
// plural resource name, as it stands in an API path.
type Kind string

// The kinds that both providers serve, with the Go type that their list-watch
// carries.
const (
	Services          Kind = "services"          // *corev1.Service
	EndpointSlices    Kind = "endpointslices"    // *discoveryv1.EndpointSlice
	Nodes             Kind = "nodes"             // *corev1.Node
	Namespaces        Kind = "namespaces"        // *corev1.Namespace
	IPAddressPools    Kind = "ipaddresspools"    // *v1beta1.IPAddressPool
	L2Advertisements  Kind = "l2advertisements"  // *v1beta1.L2Advertisement
	BGPPeers          Kind = "bgppeers"          // *v1beta2.BGPPeer
	BGPAdvertisements Kind = "bgpadvertisements" // *v1beta1.BGPAdvertisement
	BFDProfiles       Kind = "bfdprofiles"       // *v1beta1.BFDProfile
	Communities       Kind = "communities"       // *v1beta1.Community
	// Secrets are those of type kubernetes.io/basic-auth in MetalLB's namespace; no others are read.
	Secrets Kind = "secrets" // *corev1.Secret
)

// Kinds returns every kind that a source serves, in a fixed order.
func Kinds() []Kind {
	return []Kind{
		Services, EndpointSlices, Nodes, Namespaces, IPAddressPools, L2Advertisements,
		BGPPeers, BGPAdvertisements, BFDProfiles, Communities, Secrets,
	}
}

// object is what every served kind satisfies.
type object interface {
	metav1.Object
	runtime.Object
}

// scope says where objects of a kind live.
type scope uint8

const (
	clusterScoped scope = iota // no namespace at all
	namespaced                 // any namespace
	metallbScoped              // read from MetalLB's own namespace only
)

// kindInfo is what the package knows about a kind.
type kindInfo struct {
	kind  Kind
	gvk   schema.GroupVersionKind
	scope scope
	// newObject and newList return empty typed values.
	newObject func() object
	newList   func() runtime.Object
	// optional kinds may be missing at an API server; see type optional.
	optional bool
}

func (i kindInfo) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: i.gvk.Group, Resource: string(i.kind)}
}

// list wraps items, which must be of this kind, in the typed list of the kind.
func (i kindInfo) list(items []runtime.Object, resourceVersion string) (runtime.Object, error) {
	list := i.newList()
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("source: list %s: %w", i.kind, err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("source: list %s: %w", i.kind, err)
	}
	accessor.SetResourceVersion(resourceVersion)
	return list, nil
}

// infoOf describes a kind; ok is false for a kind that no source serves.
func infoOf(kind Kind) (info kindInfo, ok bool) {
	for _, info := range kindTable() {
		if info.kind == kind {
			return info, true
		}
	}
	return kindInfo{}, false
}

// infoFor finds the kind that a document's apiVersion and kind name, in any
// version that is read.
func infoFor(gvk schema.GroupVersionKind) (info kindInfo, ok bool) {
	if gvk == olderPeer() {
		return infoOf(BGPPeers)
	}
	for _, info := range kindTable() {
		if info.gvk == gvk {
			return info, true
		}
	}
	return kindInfo{}, false
}

// olderPeer is the version of BGPPeer that is read from manifests and converted.
// An API server converts by itself.
func olderPeer() schema.GroupVersionKind {
	return v1beta1.GroupVersion().WithKind(v1beta1.KindBGPPeer)
}

// decode decodes a document of the kind, whatever its version. Strict are the
// faults that a strict reader would refuse; err says that it is not of the kind.
func (i kindInfo) decode(gvk schema.GroupVersionKind, data []byte) (obj object, strict []error, err error) {
	if gvk == olderPeer() {
		older := &v1beta1.BGPPeer{}
		if strict, err = kjson.UnmarshalStrict(data, older); err != nil {
			return nil, nil, err
		}
		return v1beta1.ToV1beta2(older), strict, nil
	}
	obj = i.newObject()
	strict, err = kjson.UnmarshalStrict(data, obj)
	return obj, strict, err
}

func kindTable() []kindInfo {
	core, discovery, metallb := corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, v1beta1.GroupVersion()
	return []kindInfo{
		{
			Services, core.WithKind("Service"), namespaced,
			func() object { return &corev1.Service{} },
			func() runtime.Object { return &corev1.ServiceList{} }, false,
		},
		{
			EndpointSlices, discovery.WithKind("EndpointSlice"), namespaced,
			func() object { return &discoveryv1.EndpointSlice{} },
			func() runtime.Object { return &discoveryv1.EndpointSliceList{} }, false,
		},
		{
			Nodes, core.WithKind("Node"), clusterScoped,
			func() object { return &corev1.Node{} },
			func() runtime.Object { return &corev1.NodeList{} }, false,
		},
		{
			Namespaces, core.WithKind("Namespace"), clusterScoped,
			func() object { return &corev1.Namespace{} },
			func() runtime.Object { return &corev1.NamespaceList{} }, false,
		},
		{
			IPAddressPools, metallb.WithKind("IPAddressPool"), metallbScoped,
			func() object { return &v1beta1.IPAddressPool{} },
			func() runtime.Object { return &v1beta1.IPAddressPoolList{} }, false,
		},
		{
			L2Advertisements, metallb.WithKind("L2Advertisement"), metallbScoped,
			func() object { return &v1beta1.L2Advertisement{} },
			func() runtime.Object { return &v1beta1.L2AdvertisementList{} }, false,
		},
		{
			BGPPeers, v1beta2.GroupVersion().WithKind("BGPPeer"), metallbScoped,
			func() object { return &v1beta2.BGPPeer{} },
			func() runtime.Object { return &v1beta2.BGPPeerList{} }, true,
		},
		{
			BGPAdvertisements, metallb.WithKind("BGPAdvertisement"), metallbScoped,
			func() object { return &v1beta1.BGPAdvertisement{} },
			func() runtime.Object { return &v1beta1.BGPAdvertisementList{} }, true,
		},
		{
			BFDProfiles, metallb.WithKind("BFDProfile"), metallbScoped,
			func() object { return &v1beta1.BFDProfile{} },
			func() runtime.Object { return &v1beta1.BFDProfileList{} }, true,
		},
		{
			Communities, metallb.WithKind("Community"), metallbScoped,
			func() object { return &v1beta1.Community{} },
			func() runtime.Object { return &v1beta1.CommunityList{} }, true,
		},
		{
			Secrets, core.WithKind("Secret"), metallbScoped,
			func() object { return &corev1.Secret{} },
			func() runtime.Object { return &corev1.SecretList{} }, true,
		},
	}
}
