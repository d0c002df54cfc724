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
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/daemons/e2e/harness"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// TestSource: what the provider for API servers takes for granted about them
// is so. A patch of the status subresource carries annotations, replaces only
// our part, and is refused with a Conflict when the object has changed or is
// another one of the same name.
func TestSource(t *testing.T) {
	server := harness.NewCluster(t)
	kube, err := source.NewKube(source.KubeConfig{RESTConfig: server.Config(), Component: "metallb-controller"})
	require.NoError(t, err)

	t.Run("patch", func(t *testing.T) {
		first := server.CreateService(t, "web", harness.WithAnnotation("note", "theirs"))
		next := first.DeepCopy()
		next.Annotations[harness.PoolAnnotation] = "public"
		next.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		held, err := kube.PatchService(t.Context(), first, next)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"note": "theirs", harness.PoolAnnotation: "public"}, server.Service(t, "web").Annotations)
		assert.Equal(t, "192.0.2.1", harness.Addresses(server.Service(t, "web")))

		_, err = kube.PatchService(t.Context(), first, next)
		require.True(t, apierrors.IsConflict(err), "a patch of an old version: %v", err)

		// Another writer adds what is its own.
		foreign := held.DeepCopy()
		proxy := corev1.LoadBalancerIPModeProxy
		foreign.Status.LoadBalancer.Ingress[0].IPMode = &proxy
		foreign.Status.Conditions = []metav1.Condition{{Type: "Theirs", Status: "True", Reason: "R", LastTransitionTime: metav1.Now()}}
		foreign, err = server.Kube.CoreV1().Services(foreign.Namespace).UpdateStatus(t.Context(), foreign, metav1.UpdateOptions{})
		require.NoError(t, err)
		second := foreign.DeepCopy()
		second.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}}
		second.Status.Conditions = nil
		got, err := kube.PatchService(t.Context(), foreign, second)
		require.NoError(t, err)
		require.Len(t, got.Status.LoadBalancer.Ingress, 2)
		assert.Equal(t, &proxy, got.Status.LoadBalancer.Ingress[0].IPMode)
		assert.Len(t, got.Status.Conditions, 1)

		cleared := got.DeepCopy()
		delete(cleared.Annotations, harness.PoolAnnotation)
		cleared.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		got, err = kube.PatchService(t.Context(), got, cleared)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"note": "theirs"}, got.Annotations)
		assert.Empty(t, got.Status.LoadBalancer.Ingress)
		assert.Len(t, got.Status.Conditions, 1)

		server.DeleteService(t, "web")
		_, err = kube.PatchService(t.Context(), got, next)
		require.True(t, apierrors.IsNotFound(err), "a patch of what is gone: %v", err)
		again := server.CreateService(t, "web")
		_, err = kube.PatchService(t.Context(), got, next)
		require.True(t, apierrors.IsConflict(err), "a patch of another object of the same name: %v", err)
		assert.Equal(t, again.ResourceVersion, server.Service(t, "web").ResourceVersion)
	})

	t.Run("lists", func(t *testing.T) {
		server.CreatePool(t, "public", "192.0.2.0/24")
		server.CreateL2Advertisement(t, "all")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		stores := make(map[source.Kind]cache.Store)
		for _, kind := range source.Kinds() {
			informer := cache.NewSharedIndexInformer(kube.ListerWatcher(kind), nil, 0, cache.Indexers{})
			require.NoError(t, informer.SetTransform(source.Strip))
			running.Go(func() { informer.RunWithContext(ctx) })
			require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced), kind)
			stores[kind] = informer.GetStore()
		}
		obj, ok, err := stores[source.IPAddressPools].GetByKey(harness.Namespace + "/public")
		require.NoError(t, err)
		require.True(t, ok)
		pool := obj.(*v1beta1.IPAddressPool)
		assert.Empty(t, pool.ManagedFields)
		_, ok, err = stores[source.L2Advertisements].GetByKey(harness.Namespace + "/all")
		require.NoError(t, err)
		assert.True(t, ok)

		next := pool.DeepCopy()
		next.Status = v1beta1.IPAddressPoolStatus{AssignedIPv4: 1, AvailableIPv4: 255}
		patched, err := kube.PatchPoolStatus(t.Context(), pool, next)
		require.NoError(t, err)
		assert.Equal(t, next.Status, patched.Status)
		_, err = kube.PatchPoolStatus(t.Context(), pool, next)
		require.True(t, apierrors.IsConflict(err), "a patch of an old version: %v", err)
		harness.Eventually(t, "the informer sees the status", func() string {
			obj, _, _ := stores[source.IPAddressPools].GetByKey(harness.Namespace + "/public")
			if obj.(*v1beta1.IPAddressPool).Status != next.Status {
				return "an old one"
			}
			return ""
		})
	})

	t.Run("events", func(t *testing.T) {
		web := server.CreateService(t, "noisy")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- kube.Run(ctx) }()
		for range 3 {
			kube.Event(web, corev1.EventTypeWarning, "AllocationFailed", "nothing is free")
		}
		cancel() // what waits is still delivered
		require.NoError(t, <-done)
		event := server.AwaitEvent(t, web, "AllocationFailed")
		assert.EqualValues(t, 3, event.Count)
		assert.Equal(t, "metallb-controller", event.Source.Component)
		assert.False(t, event.LastTimestamp.IsZero())
	})
}
