package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// TestAllocation is the main job: a Service gets an address, its status and its
// annotation say so, an Event tells the user, and the pool counts it.
func TestAllocation(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.StartController(t, "")
	cluster.CreatePool(t, "p", "192.0.2.10-192.0.2.12")
	cluster.CreateService(t, "web")

	service := cluster.AwaitAddresses(t, "web", "192.0.2.10")
	assert.Equal(t, "p", service.Annotations[harness.PoolAnnotation])

	event := cluster.AwaitEvent(t, service, "IPAllocated")
	assert.Equal(t, corev1.EventTypeNormal, event.Type)
	assert.Contains(t, event.Message, "192.0.2.10")
	assert.Equal(t, service.UID, event.InvolvedObject.UID)
	assert.False(t, event.LastTimestamp.IsZero(), "tools sort Events by lastTimestamp")

	harness.Eventually(t, "status of pool p", func() string {
		status, _, err := unstructured.NestedMap(cluster.Pool(t, "p").Object, "status")
		if err != nil {
			return err.Error()
		}
		if status["assignedIPv4"] != int64(1) || status["availableIPv4"] != int64(2) {
			return fmt.Sprint(status)
		}
		return ""
	})

	cluster.CreateService(t, "next")
	cluster.AwaitAddresses(t, "next", "192.0.2.11")
	cluster.DeleteService(t, "web")
	cluster.Settle(t)
	cluster.CreateService(t, "after")
	cluster.AwaitAddresses(t, "after", "192.0.2.10")
}

// TestPending: no address is no reason to retry in a circle; it is said once,
// and made good as soon as an address is free.
func TestPending(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.StartController(t, "")
	cluster.CreatePool(t, "p", "192.0.2.10/32")
	cluster.CreateService(t, "first")
	cluster.AwaitAddresses(t, "first", "192.0.2.10")
	second := cluster.CreateService(t, "second")
	event := cluster.AwaitEvent(t, second, "AllocationFailed")
	assert.Equal(t, corev1.EventTypeWarning, event.Type)
	assert.Empty(t, harness.Addresses(cluster.Service(t, "second")))

	cluster.DeleteService(t, "first")
	cluster.AwaitAddresses(t, "second", "192.0.2.10")
}

// TestTypeChange: a Service that is no load balancer any more has no address,
// and who waits for it gets it (metallb#190).
func TestTypeChange(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.StartController(t, "")
	cluster.CreatePool(t, "p", "192.0.2.10/32")
	cluster.CreateService(t, "web")
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
	waiting := cluster.CreateService(t, "waiting")
	cluster.AwaitEvent(t, waiting, "AllocationFailed")

	setType(t, cluster, "web", corev1.ServiceTypeClusterIP)
	cluster.AwaitAddresses(t, "web", "")
	harness.Eventually(t, "the annotation of web goes", func() string {
		return cluster.Service(t, "web").Annotations[harness.PoolAnnotation]
	})
	cluster.AwaitAddresses(t, "waiting", "192.0.2.10")

	setType(t, cluster, "web", corev1.ServiceTypeLoadBalancer)
	cluster.DeleteService(t, "waiting")
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
}

// TestTypeChangeWhileAway: the same when the controller did not see the change.
func TestTypeChangeWhileAway(t *testing.T) {
	cluster := harness.NewCluster(t)
	controller := cluster.StartController(t, "")
	cluster.CreatePool(t, "p", "192.0.2.10/32")
	cluster.CreateService(t, "web")
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
	controller.Stop(t)

	setType(t, cluster, "web", corev1.ServiceTypeNodePort)
	cluster.CreateService(t, "waiting")
	cluster.StartController(t, "")
	cluster.AwaitAddresses(t, "waiting", "192.0.2.10")
	cluster.AwaitAddresses(t, "web", "")
	harness.Eventually(t, "the annotation of web goes", func() string {
		return cluster.Service(t, "web").Annotations[harness.PoolAnnotation]
	})
}

// TestPoolRecreated: a pool that is gone gives nothing, and when it comes back
// its holders come first (metallb#1929).
func TestPoolRecreated(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("controller away=%v", away), func(t *testing.T) {
			cluster := harness.NewCluster(t)
			controller := cluster.StartController(t, "")
			cluster.CreatePool(t, "p", "192.0.2.0/30")
			cluster.CreateService(t, "s1")
			cluster.AwaitAddresses(t, "s1", "192.0.2.0")
			if away {
				controller.Stop(t)
			}
			cluster.DeletePool(t, "p")
			s2 := cluster.CreateService(t, "s2")
			if !away {
				cluster.Settle(t)
				assert.Empty(t, harness.Addresses(cluster.Service(t, "s2")), "the pool is gone")
			}
			cluster.CreatePool(t, "p", "192.0.2.0/30")
			if away {
				cluster.StartController(t, "")
			}
			harness.Eventually(t, "both services have addresses of their own", func() string {
				a, b := harness.Addresses(cluster.Service(t, "s1")), harness.Addresses(cluster.Service(t, "s2"))
				if a == "" || b == "" || a == b {
					return fmt.Sprintf("s1 has %q, s2 has %q", a, b)
				}
				return ""
			})
			if away {
				assert.Equal(t, "192.0.2.0", harness.Addresses(cluster.Service(t, "s1")), "who held keeps")
			}
			cluster.AwaitEvent(t, s2, "IPAllocated")
		})
	}
}

// setType changes the type of a Service of the namespace default.
func setType(t *testing.T, cluster *harness.Server, name string, kind corev1.ServiceType) {
	t.Helper()
	patch(t, cluster, name, map[string]any{"spec": map[string]any{"type": kind}})
}

// patch merges a change into a Service of the namespace default.
func patch(t *testing.T, cluster *harness.Server, name string, change map[string]any, subresources ...string) *corev1.Service {
	t.Helper()
	data, err := json.Marshal(change)
	require.NoError(t, err)
	service, err := cluster.Kube.CoreV1().Services(metav1.NamespaceDefault).
		Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	require.NoError(t, err)
	return service
}
