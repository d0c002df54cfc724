package source

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestEnsureGossipSecret(t *testing.T) {
	const ns = "metallb-system"
	client := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: ns, UID: "u"}})
	k := &Kube{namespace: ns, client: client, logger: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, k.EnsureGossipSecret(t.Context(), "memberlist", "nope"), "nope")
	require.NoError(t, k.EnsureGossipSecret(t.Context(), "memberlist", "controller"))
	secret, err := client.CoreV1().Secrets(ns).Get(t.Context(), "memberlist", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Len(t, secret.Data[GossipSecretKey], 43)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "controller", UID: "u"}}, secret.OwnerReferences)
	require.NoError(t, k.EnsureGossipSecret(t.Context(), "memberlist", "controller"))
	again, err := client.CoreV1().Secrets(ns).Get(t.Context(), "memberlist", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, secret.Data, again.Data, "left alone")
}
