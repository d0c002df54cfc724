package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Store in memory.
type memory[T object] struct {
	mu       sync.Mutex
	version  int
	objs     map[string]T
	watchers []*filtered[T]
	writes   int // that succeeded
	fail     bool
}

type filtered[T object] struct {
	*watch.RaceFreeFakeWatcher
	sel labels.Selector
}

var errAway = errors.New("the API server is away")

func (m *memory[T]) tell(event watch.EventType, obj T) {
	for _, w := range m.watchers {
		if w.sel.Matches(labels.Set(obj.GetLabels())) {
			w.Action(event, obj.DeepCopyObject())
		}
	}
}

func (m *memory[T]) put(event watch.EventType, obj T) T {
	m.version++
	m.writes++
	obj, _ = obj.DeepCopyObject().(T)
	obj.SetResourceVersion(strconv.Itoa(m.version))
	if m.objs == nil {
		m.objs = map[string]T{}
	}
	m.objs[obj.GetName()] = obj
	m.tell(event, obj)
	return obj
}

func (m *memory[T]) Create(_ context.Context, obj T) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail {
		return obj, errAway
	}
	if _, ok := m.objs[obj.GetName()]; ok {
		return obj, apierrors.NewAlreadyExists(schema.GroupResource{}, obj.GetName())
	}
	return m.put(watch.Added, obj), nil
}

func (m *memory[T]) UpdateStatus(_ context.Context, obj T) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail {
		return obj, errAway
	}
	if cur, ok := m.objs[obj.GetName()]; !ok || cur.GetResourceVersion() != obj.GetResourceVersion() {
		return obj, apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("stale"))
	}
	return m.put(watch.Modified, obj), nil
}

func (m *memory[T]) Delete(_ context.Context, obj T) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail {
		return errAway
	}
	cur, ok := m.objs[obj.GetName()]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, obj.GetName())
	}
	delete(m.objs, obj.GetName())
	m.version++
	m.writes++
	m.tell(watch.Deleted, cur)
	return nil
}

func (m *memory[T]) ListerWatcher(selector string) cache.ListerWatcher {
	sel, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return &memoryLW[T]{m, sel}
}

type memoryLW[T object] struct {
	m   *memory[T]
	sel labels.Selector
}

func (l *memoryLW[T]) IsWatchListSemanticsUnSupported() bool { return true }

func (l *memoryLW[T]) List(metav1.ListOptions) (runtime.Object, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(l.m.version)}}
	for _, o := range l.m.objs {
		if l.sel.Matches(labels.Set(o.GetLabels())) {
			list.Items = append(list.Items, runtime.RawExtension{Object: o.DeepCopyObject()})
		}
	}
	return list, nil
}

func (l *memoryLW[T]) Watch(o metav1.ListOptions) (watch.Interface, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if o.ResourceVersion != strconv.Itoa(l.m.version) {
		return nil, apierrors.NewResourceExpired("list again")
	}
	w := &filtered[T]{watch.NewRaceFreeFake(), l.sel}
	l.m.watchers = append(l.m.watchers, w)
	return w, nil
}

func (m *memory[T]) edit(f func(map[string]T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := maps.Clone(m.objs)
	f(m.objs)
	for k, v := range before {
		if _, ok := m.objs[k]; !ok {
			m.version++
			m.tell(watch.Deleted, v)
		}
	}
}

func (m *memory[T]) all() map[string]T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.objs)
}

func (m *memory[T]) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// running runs a writer in virtual time while f runs.
func running(t *testing.T, run func(context.Context) error, f func(settle func())) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	settle := func() {
		time.Sleep(5 * time.Minute)
		synctest.Wait()
	}
	settle()
	f(settle)
	cancel()
	require.NoError(t, <-ended)
}

func TestConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory[*v1beta1.ConfigurationState]{}
		owner := &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "speaker-x", UID: "u"}
		c := NewConfiguration(ConfigurationConfig{
			Store: store, Name: "speaker-n1", Owner: owner, Condition: ConditionSpeaker,
			Labels: map[string]string{LabelComponent: "speaker", LabelNodeName: "n1"},
		})
		running(t, c.Run, func(settle func()) {
			assert.Zero(t, store.count(), "nothing is known yet")
			c.Set(nil)
			settle()
			s := store.all()["speaker-n1"]
			require.NotNil(t, s)
			assert.Equal(t, v1beta1.ConfigurationValid, s.Status.Result)
			assert.Equal(t, []metav1.OwnerReference{*owner}, s.OwnerReferences)
			writes := store.count()
			c.Set(nil)
			settle()
			assert.Equal(t, writes, store.count(), "no news, no write")

			c.Set([]string{"IPAddressPool a is rejected", "IPAddressPool b is rejected"})
			settle()
			s = store.all()["speaker-n1"]
			assert.Equal(t, v1beta1.ConfigurationInvalid, s.Status.Result)
			assert.Equal(t, "IPAddressPool a is rejected\nIPAddressPool b is rejected", s.Status.ErrorSummary)
			require.Len(t, s.Status.Conditions, 1)
			assert.Equal(t, "configReconcilerValid", s.Status.Conditions[0].Type)
			assert.Equal(t, metav1.ConditionFalse, s.Status.Conditions[0].Status)
			assert.Equal(t, "ConfigurationError", s.Status.Conditions[0].Reason)
			turned := s.Status.Conditions[0].LastTransitionTime
			c.Set([]string{strings.Repeat("ü", 20000)})
			settle()
			long := store.all()["speaker-n1"].Status
			assert.Len(t, long.ErrorSummary, 40000)
			assert.Equal(t, strings.Repeat("ü", 16384), long.Conditions[0].Message, "as long as a message may be")
			c.Set([]string{"x" + strings.Repeat("ü", 20000)})
			settle()
			assert.Equal(t, "x"+strings.Repeat("ü", 16383), store.all()["speaker-n1"].Status.Conditions[0].Message, "whole characters")
			c.Set([]string{"IPAddressPool a is rejected"})
			settle()
			assert.Equal(t, turned, store.all()["speaker-n1"].Status.Conditions[0].LastTransitionTime, "still false")

			store.edit(func(m map[string]*v1beta1.ConfigurationState) { delete(m, "speaker-n1") })
			settle()
			assert.Equal(t, v1beta1.ConfigurationInvalid, store.all()["speaker-n1"].Status.Result, "written again")
		})
	})
}

func service(n string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: n} }

func TestLayer2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory[*v1beta1.ServiceL2Status]{}
		foreign := store.put(watch.Added, &v1beta1.ServiceL2Status{ObjectMeta: metav1.ObjectMeta{Name: "l2-other", Labels: map[string]string{
			LabelNode: "n2", LabelServiceName: "web", LabelServiceNamespace: "shop",
		}}})
		store.put(watch.Added, &v1beta1.ServiceL2Status{ObjectMeta: metav1.ObjectMeta{Name: "l2-old", Labels: map[string]string{
			LabelNode: "n1", LabelServiceName: "gone", LabelServiceNamespace: "shop",
		}}})
		l := NewLayer2(Layer2Config{Store: store, Node: "n1"})
		running(t, l.Run, func(settle func()) {
			assert.Equal(t, 2, store.count(), "nothing is known yet")
			l.Set(map[types.NamespacedName][]string{service("web"): nil, service("api"): {"eth1", "eth0"}})
			settle()
			all := store.all()
			require.Len(t, all, 3)
			assert.Equal(t, foreign, all["l2-other"], "another node's is not touched")
			api := all[nameFor("l2-", "n1", service("api"))]
			assert.Equal(t, v1beta1.ServiceL2StatusStatus{
				Node: "n1", ServiceName: "api", ServiceNamespace: "shop",
				Interfaces: []v1beta1.InterfaceInfo{{Name: "eth0"}, {Name: "eth1"}},
			}, api.Status)
			assert.Equal(t, "n1", api.Labels[LabelNode])
			writes := store.count()
			l.Set(map[types.NamespacedName][]string{service("web"): nil, service("api"): {"eth1", "eth0"}})
			settle()
			assert.Equal(t, writes, store.count(), "no news, no write")

			for i := range 50 { // metallb#2626: the address moves to and fro
				l.Set(nil)
				settle()
				require.Len(t, store.all(), 1, "round %d", i)
				l.Set(map[types.NamespacedName][]string{service("web"): nil})
				settle()
				require.Len(t, store.all(), 2, "round %d", i)
			}
			assert.Equal(t, writes+2+50*2+49, store.count(), "one creation, one status and one deletion a move")

			store.edit(func(m map[string]*v1beta1.ServiceL2Status) { delete(m, nameFor("l2-", "n1", service("web"))) })
			settle()
			assert.Contains(t, store.all(), nameFor("l2-", "n1", service("web")))

			store.mu.Lock()
			store.fail = true
			store.mu.Unlock()
			l.Set(nil)
			settle()
			require.Len(t, store.all(), 2)
			store.mu.Lock()
			store.fail = false
			store.mu.Unlock()
			settle()
			assert.Len(t, store.all(), 1, "tried again")
		})
	})
}

func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory[*v1beta1.ServiceL2Status]{}
		for i := range 3 {
			store.put(watch.Added, &v1beta1.ServiceL2Status{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("l2-", i), Labels: map[string]string{LabelNode: fmt.Sprint("n", i)},
			}})
		}
		p := NewPrune(store, nil)
		running(t, p.Run, func(settle func()) {
			assert.Len(t, store.all(), 3)
			p.Set(map[string]struct{}{"n0": {}, "n2": {}})
			settle()
			assert.Len(t, store.all(), 2)
			assert.NotContains(t, store.all(), "l2-1")
		})
	})
}
