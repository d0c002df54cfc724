package status

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// object is a kind of status object.
type object interface {
	runtime.Object
	metav1.Object
}

// Store is where status objects of one kind live. NewStore makes one of a REST client. All methods are safe for
// concurrent use.
type Store[T object] interface {
	// ListerWatcher lists and watches the objects that a label selector matches.
	ListerWatcher(selector string) cache.ListerWatcher
	// Create creates an object without its status.
	Create(ctx context.Context, obj T) (T, error)
	// UpdateStatus writes the status of an object; it carries the resourceVersion.
	UpdateStatus(ctx context.Context, obj T) (T, error)
	// Delete deletes an object by name, if it still has that resourceVersion.
	Delete(ctx context.Context, obj T) error
}

type restStore[T object] struct {
	client              rest.Interface
	namespace, resource string
	empty               func() T
}

// ConfigurationStates returns the store of ConfigurationStates behind a REST client of metallb.io/v1beta1.
func ConfigurationStates(client rest.Interface, namespace string) Store[*v1beta1.ConfigurationState] {
	return restStore[*v1beta1.ConfigurationState]{
		client, namespace, "configurationstates",
		func() *v1beta1.ConfigurationState { return &v1beta1.ConfigurationState{} },
	}
}

// ServiceL2Statuses returns the store of ServiceL2Statuses behind a REST client of metallb.io/v1beta1.
func ServiceL2Statuses(client rest.Interface, namespace string) Store[*v1beta1.ServiceL2Status] {
	return restStore[*v1beta1.ServiceL2Status]{
		client, namespace, "servicel2statuses",
		func() *v1beta1.ServiceL2Status { return &v1beta1.ServiceL2Status{} },
	}
}

// ServiceBGPStatuses returns the store of ServiceBGPStatuses behind a REST client of metallb.io/v1beta1.
func ServiceBGPStatuses(client rest.Interface, namespace string) Store[*v1beta1.ServiceBGPStatus] {
	return restStore[*v1beta1.ServiceBGPStatus]{
		client, namespace, "servicebgpstatuses",
		func() *v1beta1.ServiceBGPStatus { return &v1beta1.ServiceBGPStatus{} },
	}
}

func (s restStore[T]) ListerWatcher(selector string) cache.ListerWatcher {
	return cache.NewFilteredListWatchFromClient(s.client, s.resource, s.namespace, func(o *metav1.ListOptions) { o.LabelSelector = selector })
}

func (s restStore[T]) Create(ctx context.Context, obj T) (T, error) {
	out := s.empty()
	err := s.client.Post().Namespace(s.namespace).Resource(s.resource).Body(obj).Do(ctx).Into(out)
	return out, s.wrap("create", obj, err)
}

func (s restStore[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	out := s.empty()
	err := s.client.Put().Namespace(s.namespace).Resource(s.resource).Name(obj.GetName()).SubResource("status").Body(obj).Do(ctx).Into(out)
	return out, s.wrap("update the status of", obj, err)
}

func (s restStore[T]) Delete(ctx context.Context, obj T) error {
	version, uid := obj.GetResourceVersion(), obj.GetUID()
	err := s.client.Delete().Namespace(s.namespace).Resource(s.resource).Name(obj.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version, UID: &uid}}).Do(ctx).Error()
	return s.wrap("delete", obj, err)
}

func (s restStore[T]) wrap(verb string, obj T, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s/%s: %w", verb, s.resource, s.namespace, obj.GetName(), err)
}
