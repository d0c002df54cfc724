package status

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Labels of the status objects of Services, as MetalLB has them.
const (
	LabelNode             = "metallb.io/node"
	LabelServiceName      = "metallb.io/service-name"
	LabelServiceNamespace = "metallb.io/service-namespace"
)

// identity is what the status of an object says it is about; it cannot be changed.
type identity struct {
	node    string
	service types.NamespacedName
}

// serviceKind is what differs between the kinds of status objects of Services.
type serviceKind[T object] struct {
	prefix string // of the names
	empty  func() T
	about  func(obj T) identity // zero before the first status
	// set writes the status, and says whether it was another one. The items are sorted.
	set func(obj T, about identity, items []string) (changed bool)
}

// services keeps the status objects of one kind and one node: one for each Service that the node announces.
type services[T object] struct {
	kind  serviceKind[T]
	store Store[T]
	node  string
	owner *metav1.OwnerReference
	keeper
	inf cache.SharedIndexInformer

	mu   sync.Mutex
	want map[types.NamespacedName][]string // nil before the first Set
}

func newServices[T object](kind serviceKind[T], store Store[T], node string, owner *metav1.OwnerReference, log *slog.Logger) services[T] {
	lw := store.ListerWatcher(selector(map[string]string{LabelNode: node}))
	return services[T]{
		kind: kind, store: store, node: node, owner: owner, keeper: newKeeper(log),
		inf: cache.NewSharedIndexInformer(lw, kind.empty(), 0, cache.Indexers{}),
	}
}

// Set says what this node announces: the Services, and for each the items of its status. It never blocks.
func (s *services[T]) Set(want map[types.NamespacedName][]string) {
	if want == nil {
		want = map[types.NamespacedName][]string{}
	}
	s.mu.Lock()
	same := s.want != nil && maps.EqualFunc(s.want, want, slices.Equal[[]string])
	s.want = want
	s.mu.Unlock()
	if !same {
		s.changed()
	}
}

// Run writes until ctx is cancelled, and returns nil then. It may be called once.
func (s *services[T]) Run(ctx context.Context) error { return s.run(ctx, s.inf, s.reconcile) }

func (s *services[T]) reconcile(ctx context.Context) error {
	s.mu.Lock()
	want := s.want
	s.mu.Unlock()
	if want == nil {
		return nil
	}
	have, surplus := s.have()
	var errs []error
	for name, obj := range have {
		if _, wanted := want[name]; !wanted {
			surplus = append(surplus, obj)
		}
	}
	for _, obj := range surplus {
		errs = append(errs, s.store.Delete(ctx, obj))
	}
	for name, items := range want {
		obj, known := have[name]
		errs = append(errs, s.keep(ctx, name, items, obj, known))
	}
	return errors.Join(errs...)
}

// have are the objects of this node by Service, the oldest of each, and those that are one too many.
func (s *services[T]) have() (have map[types.NamespacedName]T, surplus []T) {
	have = make(map[types.NamespacedName]T)
	var all []T
	for _, o := range s.inf.GetStore().List() {
		if obj, ok := o.(T); ok {
			all = append(all, obj)
		}
	}
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	for _, obj := range all {
		labels := obj.GetLabels()
		name := types.NamespacedName{Namespace: labels[LabelServiceNamespace], Name: labels[LabelServiceName]}
		about := s.kind.about(obj)
		wrong := about.node != "" && about != identity{s.node, name}
		if _, twice := have[name]; twice || wrong { // what is immutable cannot be mended
			surplus = append(surplus, obj)
			continue
		}
		have[name] = obj
	}
	return have, surplus
}

// nameFor is the name of the object of a node and a Service: MetalLB's prefix, and then a hash, so that an object which
// the watch has not shown yet is not made twice.
func nameFor(prefix, node string, svc types.NamespacedName) string {
	sum := sha256.Sum256([]byte(node + "/" + svc.String()))
	return prefix + hex.EncodeToString(sum[:8])
}

func (s *services[T]) keep(ctx context.Context, name types.NamespacedName, items []string, have T, known bool) error {
	if !known {
		obj := s.kind.empty()
		obj.SetName(nameFor(s.kind.prefix, s.node, name))
		obj.SetLabels(map[string]string{LabelNode: s.node, LabelServiceName: name.Name, LabelServiceNamespace: name.Namespace})
		if s.owner != nil {
			obj.SetOwnerReferences([]metav1.OwnerReference{*s.owner})
		}
		made, err := s.store.Create(ctx, obj)
		if err != nil {
			return err
		}
		have = made
	}
	next, ok := have.DeepCopyObject().(T)
	if !ok || !s.kind.set(next, identity{s.node, name}, slices.Sorted(slices.Values(items))) {
		return nil
	}
	_, err := s.store.UpdateStatus(ctx, next)
	return err
}

// Prune removes the status objects of nodes that are gone.
type Prune[T object] struct {
	store Store[T]
	keeper
	inf cache.SharedIndexInformer

	mu    sync.Mutex
	nodes map[string]struct{}
}

// NewPrune returns a Prune that removes nothing before the first Set.
func NewPrune[T object](store Store[T], log *slog.Logger) *Prune[T] {
	return &Prune[T]{
		store: store, keeper: newKeeper(log),
		inf: cache.NewSharedIndexInformer(store.ListerWatcher(LabelNode), nil, 0, cache.Indexers{}),
	}
}

// Set says which nodes exist. It never blocks.
func (p *Prune[T]) Set(nodes map[string]struct{}) {
	p.mu.Lock()
	p.nodes = nodes
	p.mu.Unlock()
	p.changed()
}

// Run removes until ctx is cancelled, and returns nil then. It may be called once.
func (p *Prune[T]) Run(ctx context.Context) error {
	return p.run(ctx, p.inf, func(ctx context.Context) error {
		p.mu.Lock()
		nodes := p.nodes
		p.mu.Unlock()
		if nodes == nil {
			return nil
		}
		var errs []error
		for _, o := range p.inf.GetStore().List() {
			s, ok := o.(T)
			if !ok {
				continue
			}
			if _, exists := nodes[s.GetLabels()[LabelNode]]; !exists {
				errs = append(errs, p.store.Delete(ctx, s))
			}
		}
		return errors.Join(errs...)
	})
}
