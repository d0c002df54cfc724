package source

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// mergePatch is the body of a JSON merge patch (RFC 7386).
type mergePatch struct {
	Metadata patchMetadata  `json:"metadata"`
	Status   map[string]any `json:"status,omitempty"`
}

// patchMetadata carries what the patch is based on: the API server answers
// Conflict when the object is another version, or another object, by now.
type patchMetadata struct {
	UID             types.UID          `json:"uid"`
	ResourceVersion string             `json:"resourceVersion"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
}

func newMergePatch(prev metav1.Object) mergePatch {
	return mergePatch{Metadata: patchMetadata{UID: prev.GetUID(), ResourceVersion: prev.GetResourceVersion()}}
}

// servicePatch returns the patch that leads from prev to next in
// status.loadBalancer and the metallb.io annotations, or nil when they agree.
func servicePatch(prev, next *corev1.Service) ([]byte, error) {
	patch := newMergePatch(prev)
	patch.Metadata.Annotations = annotationChanges(prev.Annotations, next.Annotations)
	wanted := mergeIngress(prev.Status.LoadBalancer, next.Status.LoadBalancer)
	if !equality.Semantic.DeepEqual(prev.Status.LoadBalancer, wanted) {
		// A list is replaced as a whole; null takes it away.
		ingress := any(wanted.Ingress)
		if len(wanted.Ingress) == 0 {
			ingress = nil
		}
		patch.Status = map[string]any{"loadBalancer": map[string]any{"ingress": ingress}}
	}
	if len(patch.Metadata.Annotations) == 0 && patch.Status == nil {
		return nil, nil
	}
	return json.Marshal(patch)
}

// poolPatch is servicePatch for the status of a pool.
func poolPatch(prev, next *v1beta1.IPAddressPool) ([]byte, error) {
	if prev.Status == next.Status {
		return nil, nil
	}
	patch := newMergePatch(prev)
	patch.Status = map[string]any{
		"assignedIPv4":  next.Status.AssignedIPv4,
		"assignedIPv6":  next.Status.AssignedIPv6,
		"availableIPv4": next.Status.AvailableIPv4,
		"availableIPv6": next.Status.AvailableIPv6,
	}
	return json.Marshal(patch)
}

// PatchService sends what differs between prev and next in
// status.loadBalancer and in the metallb.io annotations, and returns the
// Service as it is then. Without a difference it sends nothing.
//
// The patch goes to the status subresource, where core Services accept
// changes of metadata too, so the permission to update services/status is
// enough. It carries prev's UID and resourceVersion, and is never forced: an
// object that has changed is a Conflict, one that is gone NotFound.
func (k *Kube) PatchService(ctx context.Context, prev, next *corev1.Service) (*corev1.Service, error) {
	body, err := servicePatch(prev, next)
	if err != nil {
		return nil, fmt.Errorf("source: patch of Service %s/%s: %w", prev.Namespace, prev.Name, err)
	}
	if body == nil {
		return prev.DeepCopy(), nil
	}
	return k.client.CoreV1().Services(prev.Namespace).
		Patch(ctx, prev.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
}

// PatchPoolStatus is PatchService for the status of a pool.
func (k *Kube) PatchPoolStatus(ctx context.Context, prev, next *v1beta1.IPAddressPool) (*v1beta1.IPAddressPool, error) {
	body, err := poolPatch(prev, next)
	if err != nil {
		return nil, fmt.Errorf("source: patch of IPAddressPool %s/%s: %w", prev.Namespace, prev.Name, err)
	}
	if body == nil {
		return prev.DeepCopy(), nil
	}
	pool := &v1beta1.IPAddressPool{}
	err = k.metallb.Patch(types.MergePatchType).
		Namespace(prev.Namespace).Resource(string(IPAddressPools)).Name(prev.Name).SubResource("status").
		Body(body).Do(ctx).Into(pool)
	if err != nil {
		return nil, err
	}
	return pool, nil
}
