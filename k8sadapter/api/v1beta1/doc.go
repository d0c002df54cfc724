// Package v1beta1 holds the metallb.io/v1beta1 kinds that Herald reads, [IPAddressPool], [L2Advertisement],
// [BGPAdvertisement], [BFDProfile], [Community] and [BGPPeer] (whose current version is in package v1beta2), and those
// that it writes, [ServiceL2Status], [ServiceBGPStatus] and [ConfigurationState].
//
// The JSON names, the defaults, the required fields, the status subresource and the printed columns are those of
// MetalLB, so that manifests, tools and stored objects of a MetalLB cluster work unchanged. Herald adds no field.
// What a value means, and which values are refused beyond what the schema can say, is decided in package
// k8sadapter/config.
//
// A client or an informer learns the kinds from [AddToScheme]:
//
//	scheme := runtime.NewScheme()
//	if err := v1beta1.AddToScheme(scheme); err != nil {
//		return err
//	}
//	codecs := serializer.NewCodecFactory(scheme)
//
// The kinds are namespaced, and only those in the namespace of the daemons are in force.
//
// # Generated files
//
// The deep copies in zz_generated.deepcopy.go and the CustomResourceDefinitions in daemons/deploy/crds are written
// by controller-gen, from the markers in this package. From the root of the repository:
//
//	go tool -modfile=.ci/tools/go.mod controller-gen \
//		object crd paths=./k8sadapter/api/... output:crd:dir=daemons/deploy/crds
//
// +kubebuilder:object:generate=true
// +groupName=metallb.io
package v1beta1
