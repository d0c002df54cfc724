package source

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GossipSecretKey is the key in the Secret that encrypts the speakers' gossip.
const GossipSecretKey = "secretkey"

// EnsureGossipSecret creates the Secret that encrypts the speakers' gossip, with 32 random bytes in base64, if there is
// none of that name in MetalLB's namespace. With a deployment the Secret goes when that Deployment goes. An existing Secret
// is left alone.
func (k *Kube) EnsureGossipSecret(ctx context.Context, name, deployment string) error {
	secrets := k.client.CoreV1().Secrets(k.namespace)
	if _, err := secrets.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("source: gossip secret %s/%s: %w", k.namespace, name, err)
		}
		return nil
	}
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return fmt.Errorf("source: gossip secret: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: k.namespace},
		Data:       map[string][]byte{GossipSecretKey: []byte(base64.RawStdEncoding.EncodeToString(random))},
	}
	if deployment != "" {
		d, err := k.client.AppsV1().Deployments(k.namespace).Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("source: owner of the gossip secret, deployment %s/%s: %w", k.namespace, deployment, err)
		}
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID}}
	}
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // another replica was quicker
	case err != nil:
		return fmt.Errorf("source: create gossip secret %s/%s: %w", k.namespace, name, err)
	}
	k.logger.Info("gossip secret created", "namespace", k.namespace, "name", name)
	return nil
}
