package e2e_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/daemons/e2e/harness"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// TestBGPKinds: the server takes the CRDs of BGP, holds objects to their limits, and serves a peer of v1beta1 as v1beta2
// without a webhook, with the timers that it leaves out still left out.
func TestBGPKinds(t *testing.T) {
	server := harness.NewCluster(t)
	client, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)
	create := func(version, resource, text string) error {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
		_, err := client.Resource(schema.GroupVersionResource{Group: "metallb.io", Version: version, Resource: resource}).
			Namespace(harness.Namespace).Create(t.Context(), object, metav1.CreateOptions{})
		return err
	}
	const peer2 = "{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: p2}, spec: {myASN: 4200000001, peerAddress: 192.0.2.1, "
	require.NoError(t, create("v1beta2", "bgppeers", peer2+"peerASN: 4200000002, connectTime: 7s}}"))
	require.NoError(t, create("v1beta1", "bgppeers",
		"{apiVersion: metallb.io/v1beta1, kind: BGPPeer, metadata: {name: p1}, spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.2}}"))
	const ad = "{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: a}, spec: {serviceSelectors: [{matchLabels: {a: b}}]"
	require.NoError(t, create("v1beta1", "bgpadvertisements", ad+"}}"))
	for name, refused := range map[string]func() error{
		"ASN":          func() error { return create("v1beta2", "bgppeers", peer2+"peerASN: 4294967296}}") },
		"port":         func() error { return create("v1beta2", "bgppeers", peer2+"peerPort: 16385}}") },
		"connect time": func() error { return create("v1beta2", "bgppeers", peer2+"connectTime: 1500ms}}") },
		"dynamic ASN":  func() error { return create("v1beta2", "bgppeers", peer2+"dynamicASN: both}}") },
		"aggregate of selected Services": func() error {
			return create("v1beta1", "bgpadvertisements", ad+", aggregationLength: 24}}")
		},
		"BFD interval": func() error {
			return create("v1beta1", "bfdprofiles", "{apiVersion: metallb.io/v1beta1, kind: BFDProfile, metadata: {name: b}, spec: {receiveInterval: 9}}")
		},
	} {
		assert.True(t, apierrors.IsInvalid(refused()), name)
	}

	for name, kind := range map[string]corev1.SecretType{"tor-key": corev1.SecretTypeBasicAuth, "other": corev1.SecretTypeOpaque} {
		_, err := server.Kube.CoreV1().Secrets(harness.Namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: map[string]string{"password": "sesame"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	kube, err := source.NewKube(source.KubeConfig{RESTConfig: server.Config(), Component: "metallb-speaker"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	stores := make(map[source.Kind]cache.Store)
	for _, kind := range []source.Kind{source.BGPPeers, source.BGPAdvertisements, source.Secrets} {
		informer := cache.NewSharedIndexInformer(kube.ListerWatcher(kind), nil, 0, cache.Indexers{})
		running.Go(func() { informer.RunWithContext(ctx) })
		require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced), kind)
		stores[kind] = informer.GetStore()
	}
	assert.Equal(t, []string{harness.Namespace + "/tor-key"}, stores[source.Secrets].ListKeys(), "of the type alone")
	assert.Len(t, stores[source.BGPAdvertisements].List(), 1)
	obj, ok, err := stores[source.BGPPeers].GetByKey(harness.Namespace + "/p1")
	require.NoError(t, err)
	require.True(t, ok)
	older, ok := obj.(*v1beta2.BGPPeer)
	require.True(t, ok)
	assert.Equal(t, v1beta2.BGPPeerSpec{MyASN: 64512, ASN: 64513, Address: "192.0.2.2", Port: 179}, older.Spec, "absent is absent, and the port has its default")
}
