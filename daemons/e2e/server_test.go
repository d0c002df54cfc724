package e2e_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// TestServer shows that the control plane itself is what the other tests take it
// for: it enforces resource versions, gives cluster IPs of both families, keeps
// its data, port and credentials over an outage, also after a hard end.
func TestServer(t *testing.T) {
	server := harness.NewServer(t)
	services := server.Kube.CoreV1().Services(metav1.NamespaceDefault)

	first, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, first.Spec.ClusterIPs)

	policy := corev1.IPFamilyPolicyRequireDualStack
	dual, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "dual"},
		Spec:       corev1.ServiceSpec{IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Len(t, dual.Spec.ClusterIPs, 2)

	second := first.DeepCopy()
	second.Labels = map[string]string{"who": "second"}
	_, err = services.Update(t.Context(), second, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = services.Update(t.Context(), first, metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "an update of an old version: %v", err)

	for _, end := range []func(testing.TB){server.Stop, server.Kill} {
		end(t)
		_, err = services.Get(t.Context(), "web", metav1.GetOptions{})
		require.Error(t, err, "the server is down")
		server.Start(t)
		again, err := services.Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "second", again.Labels["who"])
	}

	require.NoError(t, services.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	var verbs []string
	for _, w := range server.AuditLog(t) {
		if w.User == "admin" && w.Name == "web" {
			verbs = append(verbs, w.Verb)
		}
	}
	assert.Equal(t, []string{"create", "update", "update", "delete"}, verbs, "the audit log has every write, the refused one too")
}

// TestNothingOutside: all that tests write goes into the memory of the sandbox.
func TestNothingOutside(t *testing.T) {
	assert.Equal(t, 1, os.Getpid(), "the tests are process 1 of a sandbox")
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	var stat unix.Statfs_t
	require.NoError(t, unix.Statfs(file.Name(), &stat))
	assert.Equal(t, int64(unix.TMPFS_MAGIC), stat.Type)
}
