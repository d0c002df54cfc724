package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// TestManifests: the server takes every document of daemons/deploy, as a dry run
// and for real (NewCluster does both), and what it then holds names what the
// other tests rely on.
func TestManifests(t *testing.T) {
	cluster := harness.NewCluster(t)
	seen := map[string]bool{}
	for _, object := range harness.Manifests(t) {
		seen[object.GetKind()+"/"+object.GetName()] = true
	}
	for _, want := range []string{
		"Namespace/metallb-system",
		"CustomResourceDefinition/ipaddresspools.metallb.io", "CustomResourceDefinition/l2advertisements.metallb.io",
		"ServiceAccount/controller", "ServiceAccount/speaker", "Deployment/controller", "DaemonSet/speaker",
	} {
		assert.Contains(t, seen, want)
	}
	deployment, err := cluster.Kube.AppsV1().Deployments(harness.Namespace).Get(t.Context(), "controller", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, harness.ControllerAccount, deployment.Spec.Template.Spec.ServiceAccountName)
	daemonSet, err := cluster.Kube.AppsV1().DaemonSets(harness.Namespace).Get(t.Context(), "speaker", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, harness.SpeakerAccount, daemonSet.Spec.Template.Spec.ServiceAccountName)
}

// TestLeastPrivilege: the daemons may do their work, which the other tests show,
// and not these.
func TestLeastPrivilege(t *testing.T) {
	cluster := harness.NewCluster(t)
	tests := []struct {
		account, verb, group, resource, subresource, namespace string
		allowed                                                bool
	}{
		{harness.ControllerAccount, "patch", "", "services", "status", "default", true},
		{harness.ControllerAccount, "patch", "", "services", "", "default", false},
		{harness.ControllerAccount, "update", "", "services", "", "default", false},
		{harness.ControllerAccount, "delete", "", "services", "", "default", false},
		{harness.ControllerAccount, "get", "", "secrets", "", "default", false},
		{harness.ControllerAccount, "get", "", "pods", "", "default", false},
		{harness.ControllerAccount, "patch", "", "nodes", "status", "", false},
		{harness.ControllerAccount, "delete", "metallb.io", "ipaddresspools", "", harness.Namespace, false},
		{harness.ControllerAccount, "patch", "metallb.io", "ipaddresspools", "", harness.Namespace, false},
		{harness.ControllerAccount, "patch", "metallb.io", "ipaddresspools", "status", harness.Namespace, true},
		{harness.SpeakerAccount, "list", "", "services", "", "default", true},
		{harness.SpeakerAccount, "patch", "", "services", "status", "default", false},
		{harness.SpeakerAccount, "patch", "", "services", "", "default", false},
		{harness.SpeakerAccount, "get", "", "secrets", "", "default", false},
		{harness.SpeakerAccount, "patch", "", "nodes", "", "", false},
		{harness.SpeakerAccount, "patch", "metallb.io", "ipaddresspools", "status", harness.Namespace, false},
		{"default", "list", "", "services", "", "default", false},
	}
	for _, tt := range tests {
		t.Run(tt.account+" "+tt.verb+" "+tt.resource+tt.subresource, func(t *testing.T) {
			review, err := cluster.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:   "system:serviceaccount:" + harness.Namespace + ":" + tt.account,
					Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + harness.Namespace, "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: tt.verb, Group: tt.group, Resource: tt.resource, Subresource: tt.subresource, Namespace: tt.namespace,
					},
				},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Equal(t, tt.allowed, review.Status.Allowed, review.Status.Reason)
		})
	}
}

// TestNothingForbidden: no request of a daemon was refused for want of rights.
func TestNothingForbidden(t *testing.T) {
	cluster := harness.NewCluster(t)
	controller := cluster.StartController(t, "", "--log-level", "debug")
	cluster.CreatePool(t, "p", "192.0.2.10/32")
	cluster.CreateService(t, "web")
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
	cluster.Settle(t)
	controller.Stop(t)
	assert.NotContains(t, controller.Log(), "forbidden")
	for _, w := range cluster.AuditLog(t) {
		assert.NotEqual(t, 403, w.Code, "refused: %s", w)
	}
}
