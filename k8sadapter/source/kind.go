package source

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Kind names one of the object kinds that a source serves. The value is the
// plural resource name, as it stands in an API path.
type Kind string

// The kinds that both providers serve, with the Go type that their list-watch
// carries.
const (
	Services         Kind = "services"         // *corev1.Service
	EndpointSlices   Kind = "endpointslices"   // *discoveryv1.EndpointSlice
	Nodes            Kind = "nodes"            // *corev1.Node
	Namespaces       Kind = "namespaces"       // *corev1.Namespace
	IPAddressPools   Kind = "ipaddresspools"   // *v1beta1.IPAddressPool
	L2Advertisements Kind = "l2advertisements" // *v1beta1.L2Advertisement
)

// Kinds returns every kind that a source serves, in a fixed order.
func Kinds() []Kind {
	return []Kind{Services, EndpointSlices, Nodes, Namespaces, IPAddressPools, L2Advertisements}
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

// infoFor finds the kind that a document's apiVersion and kind name.
func infoFor(gvk schema.GroupVersionKind) (info kindInfo, ok bool) {
	for _, info := range kindTable() {
		if info.gvk == gvk {
			return info, true
		}
	}
	return kindInfo{}, false
}

func kindTable() []kindInfo {
	core, discovery, metallb := corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, v1beta1.GroupVersion()
	return []kindInfo{
		{
			Services, core.WithKind("Service"), namespaced,
			func() object { return &corev1.Service{} },
			func() runtime.Object { return &corev1.ServiceList{} },
		},
		{
			EndpointSlices, discovery.WithKind("EndpointSlice"), namespaced,
			func() object { return &discoveryv1.EndpointSlice{} },
			func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		},
		{
			Nodes, core.WithKind("Node"), clusterScoped,
			func() object { return &corev1.Node{} },
			func() runtime.Object { return &corev1.NodeList{} },
		},
		{
			Namespaces, core.WithKind("Namespace"), clusterScoped,
			func() object { return &corev1.Namespace{} },
			func() runtime.Object { return &corev1.NamespaceList{} },
		},
		{
			IPAddressPools, metallb.WithKind("IPAddressPool"), metallbScoped,
			func() object { return &v1beta1.IPAddressPool{} },
			func() runtime.Object { return &v1beta1.IPAddressPoolList{} },
		},
		{
			L2Advertisements, metallb.WithKind("L2Advertisement"), metallbScoped,
			func() object { return &v1beta1.L2Advertisement{} },
			func() runtime.Object { return &v1beta1.L2AdvertisementList{} },
		},
	}
}
