package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// TestConflict lets another client change the Service after the controller read
// it and before its write arrives. The write must not take the change back, and
// the Service must get its address all the same.
func TestConflict(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, cluster *harness.Server)
		check  func(t *testing.T, service *corev1.Service)
	}{
		{
			name: "labels",
			change: func(t *testing.T, cluster *harness.Server) {
				patch(t, cluster, "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{"by": "another"}}})
			},
			check: func(t *testing.T, service *corev1.Service) { assert.Equal(t, "another", service.Labels["by"]) },
		},
		{
			name: "annotations",
			change: func(t *testing.T, cluster *harness.Server) {
				patch(t, cluster, "web", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.org/by": "another"}}})
			},
			check: func(t *testing.T, service *corev1.Service) {
				assert.Equal(t, "another", service.Annotations["example.org/by"])
			},
		},
		{
			name: "conditions in the status",
			change: func(t *testing.T, cluster *harness.Server) {
				patch(t, cluster, "web", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
					"type": "example.org/Seen", "status": "True", "reason": "Another", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
				}}}}, "status")
			},
			check: func(t *testing.T, service *corev1.Service) {
				if assert.Len(t, service.Status.Conditions, 1) {
					assert.Equal(t, "example.org/Seen", service.Status.Conditions[0].Type)
				}
			},
		},
		{
			name: "ports in the spec",
			change: func(t *testing.T, cluster *harness.Server) {
				patch(t, cluster, "web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": 81, "protocol": "TCP"}}}})
			},
			check: func(t *testing.T, service *corev1.Service) { assert.Equal(t, int32(81), service.Spec.Ports[0].Port) },
		},
		{
			name: "deleted and made again",
			change: func(t *testing.T, cluster *harness.Server) {
				cluster.DeleteService(t, "web")
				cluster.CreateService(t, "web", harness.WithAnnotation("example.org/by", "another"))
			},
			check: func(t *testing.T, service *corev1.Service) {
				assert.Equal(t, "another", service.Annotations["example.org/by"])
			},
		},
	}
	cluster := harness.NewCluster(t)
	cluster.CreatePool(t, "p", "192.0.2.10/32")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hold := harness.NewHold(func(r *http.Request) bool { return isStatusWrite(r, "web") })
			start := len(cluster.WritesOf(t, harness.ControllerAccount))
			controller := cluster.StartController(t, cluster.Intercept(t, hold))
			cluster.CreateService(t, "web")
			hold.Do(t, func() { tt.change(t, cluster) })
			service := cluster.AwaitAddresses(t, "web", "192.0.2.10")
			assert.Equal(t, "p", service.Annotations[harness.PoolAnnotation])
			tt.check(t, service)
			cluster.Settle(t)
			assert.Equal(t, service.ResourceVersion, cluster.Service(t, "web").ResourceVersion, "one write that succeeds is enough")

			refused := 0
			for _, w := range cluster.WritesOf(t, harness.ControllerAccount)[start:] {
				if w.Resource == "services/status" && w.Name == "web" && w.Code >= 400 {
					refused++
				}
			}
			assert.Equal(t, 1, refused, "the write that lost the race was refused, and one was enough to learn from it")
			controller.Stop(t)
			cluster.DeleteService(t, "web")
		})
	}
}

// TestForeignStatus: what another implementation wrote into the status of a
// Service that is not ours stays (its class is not ours, its address in no pool).
func TestForeignStatus(t *testing.T) {
	cluster := harness.NewCluster(t)
	class := "example.org/other"
	foreign := cluster.CreateService(t, "foreign", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })
	foreign.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.5"}}
	foreign, err := cluster.Kube.CoreV1().Services(foreign.Namespace).UpdateStatus(t.Context(), foreign, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.CreatePool(t, "p", "192.0.2.10/32")
	cluster.StartController(t, "")
	cluster.Settle(t)
	assert.Equal(t, foreign.ResourceVersion, cluster.Service(t, "foreign").ResourceVersion)
}

// isStatusWrite reports whether a request writes the status of a Service.
func isStatusWrite(r *http.Request, name string) bool {
	return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/services/"+name+"/status")
}
