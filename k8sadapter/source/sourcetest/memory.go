// Package sourcetest has a source of objects in memory, for tests of what reads a source. It behaves as an API server
// does where that matters: writes carry a resourceVersion and conflict, a write that changes nothing is none, and every
// change is seen by all watchers in order. For all else there is the real API server in daemons/e2e.
package sourcetest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// Event is what was said of an object.
type Event struct {
	Object                string // namespace/name
	Type, Reason, Message string
}

// Memory is a source in memory. The zero value is empty and ready. All methods are safe for concurrent use.
type Memory struct {
	// Before, if set, is called before each write, without a lock held: a place to write in between.
	Before func()

	mu       sync.Mutex
	version  int
	objects  map[source.Kind]map[string]runtime.Object
	watchers map[source.Kind][]*watch.RaceFreeFakeWatcher
	events   []Event
	writes   int
}

func accessor(obj runtime.Object) metav1.Object {
	a, err := meta.Accessor(obj)
	if err != nil {
		panic(fmt.Sprintf("sourcetest: %T is no object: %v", obj, err))
	}
	return a
}

func keyOf(obj runtime.Object) string {
	return accessor(obj).GetNamespace() + "/" + accessor(obj).GetName()
}

// Set adds or replaces an object, as a user does, and returns it as stored.
func (m *Memory) Set(kind source.Kind, obj runtime.Object) runtime.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set(kind, obj)
}

func (m *Memory) set(kind source.Kind, obj runtime.Object) runtime.Object {
	if m.objects == nil {
		m.objects = map[source.Kind]map[string]runtime.Object{}
		m.watchers = map[source.Kind][]*watch.RaceFreeFakeWatcher{}
	}
	if m.objects[kind] == nil {
		m.objects[kind] = map[string]runtime.Object{}
	}
	obj = obj.DeepCopyObject()
	m.version++
	accessor(obj).SetResourceVersion(strconv.Itoa(m.version))
	_, existed := m.objects[kind][keyOf(obj)]
	m.objects[kind][keyOf(obj)] = obj
	for _, w := range m.watchers[kind] {
		if existed {
			w.Modify(obj.DeepCopyObject())
		} else {
			w.Add(obj.DeepCopyObject())
		}
	}
	return obj.DeepCopyObject()
}

// Delete removes an object.
func (m *Memory) Delete(kind source.Kind, namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := namespace + "/" + name
	obj, ok := m.objects[kind][key]
	if !ok {
		return
	}
	delete(m.objects[kind], key)
	m.version++
	for _, w := range m.watchers[kind] {
		w.Delete(obj.DeepCopyObject())
	}
}

// Service returns a Service as stored, or nil.
func (m *Memory) Service(namespace, name string) *corev1.Service {
	m.mu.Lock()
	defer m.mu.Unlock()
	svc, _ := m.objects[source.Services][namespace+"/"+name].(*corev1.Service)
	return svc.DeepCopy()
}

// Pool returns an IPAddressPool as stored, or nil.
func (m *Memory) Pool(namespace, name string) *v1beta1.IPAddressPool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, _ := m.objects[source.IPAddressPools][namespace+"/"+name].(*v1beta1.IPAddressPool)
	return p.DeepCopy()
}

// Events returns what was said so far.
func (m *Memory) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Event(nil), m.events...)
}

// Writes returns how many writes came from the daemon under test.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Event implements the daemons' Source.
func (m *Memory) Event(obj runtime.Object, eventType, reason, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, Event{keyOf(obj), eventType, reason, message})
}

// PatchService implements the daemons' Source.
func (m *Memory) PatchService(_ context.Context, prev, next *corev1.Service) (*corev1.Service, error) {
	cur, err := write(m, source.Services, prev, func(cur *corev1.Service) bool {
		if reflect.DeepEqual(cur.Status, next.Status) && maps.Equal(cur.Annotations, next.Annotations) {
			return false
		}
		cur.Status, cur.Annotations = next.Status, next.Annotations
		return true
	})
	return cur, err
}

// PatchPoolStatus implements the controller's Source.
func (m *Memory) PatchPoolStatus(_ context.Context, prev, next *v1beta1.IPAddressPool) (*v1beta1.IPAddressPool, error) {
	return write(m, source.IPAddressPools, prev, func(cur *v1beta1.IPAddressPool) bool {
		if cur.Status == next.Status {
			return false
		}
		cur.Status = next.Status
		return true
	})
}

func write[T interface {
	runtime.Object
	metav1.Object
}](m *Memory, kind source.Kind, prev T, change func(T) bool) (T, error) {
	if m.Before != nil {
		m.Before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	resource := schema.GroupResource{Resource: string(kind)}
	cur, ok := m.objects[kind][keyOf(prev)].(T)
	switch {
	case !ok:
		return prev, apierrors.NewNotFound(resource, prev.GetName())
	case cur.GetResourceVersion() != prev.GetResourceVersion() || cur.GetUID() != prev.GetUID():
		return prev, apierrors.NewConflict(resource, prev.GetName(), fmt.Errorf("resourceVersion %s, want %s", prev.GetResourceVersion(), cur.GetResourceVersion()))
	}
	next, _ := cur.DeepCopyObject().(T)
	if change(next) {
		next, _ = m.set(kind, next).(T)
	}
	return next, nil
}

// ListerWatcher implements the daemons' Source.
func (m *Memory) ListerWatcher(kind source.Kind) cache.ListerWatcher { return &listWatch{m, kind} }

type listWatch struct {
	m    *Memory
	kind source.Kind
}

// IsWatchListSemanticsUnSupported tells client-go to list and then watch.
func (l *listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (l *listWatch) List(metav1.ListOptions) (runtime.Object, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(l.m.version)}}
	for _, o := range l.m.objects[l.kind] {
		list.Items = append(list.Items, runtime.RawExtension{Object: o.DeepCopyObject()})
	}
	return list, nil
}

func (l *listWatch) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if opts.ResourceVersion != strconv.Itoa(l.m.version) {
		return nil, apierrors.NewResourceExpired("something changed since the list: list again")
	}
	if l.m.watchers == nil {
		l.m.watchers = map[source.Kind][]*watch.RaceFreeFakeWatcher{}
	}
	w := watch.NewRaceFreeFake()
	l.m.watchers[l.kind] = append(l.m.watchers[l.kind], w)
	return w, nil
}
