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

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Labels of ServiceL2Statuses, as MetalLB has them.
const (
	LabelNode             = "metallb.io/node"
	LabelServiceName      = "metallb.io/service-name"
	LabelServiceNamespace = "metallb.io/service-namespace"
)

// Layer2Config configures a Layer2.
type Layer2Config struct {
	Store Store[*v1beta1.ServiceL2Status] // required
	// Node is the node whose objects are kept. Required.
	Node string
	// Owner is the speaker's pod: its objects go with it. Nil: they stay until they are pruned.
	Owner  *metav1.OwnerReference
	Logger *slog.Logger // nil discards
}

// Layer2 keeps the ServiceL2Statuses of one node: one for each Service that the node announces.
type Layer2 struct {
	cfg Layer2Config
	keeper
	inf cache.SharedIndexInformer

	mu   sync.Mutex
	want map[types.NamespacedName][]string // nil before the first Set
}

// NewLayer2 returns a Layer2 that writes nothing before the first Set.
func NewLayer2(cfg Layer2Config) *Layer2 {
	lw := cfg.Store.ListerWatcher(selector(map[string]string{LabelNode: cfg.Node}))
	return &Layer2{
		cfg: cfg, keeper: newKeeper(cfg.Logger),
		inf: cache.NewSharedIndexInformer(lw, &v1beta1.ServiceL2Status{}, 0, cache.Indexers{}),
	}
}

// Set says which Services this node announces, and on which links (none: every link). It never blocks.
func (l *Layer2) Set(want map[types.NamespacedName][]string) {
	if want == nil {
		want = map[types.NamespacedName][]string{}
	}
	l.mu.Lock()
	same := l.want != nil && maps.EqualFunc(l.want, want, slices.Equal[[]string])
	l.want = want
	l.mu.Unlock()
	if !same {
		l.changed()
	}
}

// Run writes until ctx is cancelled, and returns nil then. It may be called once.
func (l *Layer2) Run(ctx context.Context) error { return l.run(ctx, l.inf, l.reconcile) }

func (l *Layer2) reconcile(ctx context.Context) error {
	l.mu.Lock()
	want := l.want
	l.mu.Unlock()
	if want == nil {
		return nil
	}
	have, surplus := l.have()
	var errs []error
	for name, obj := range have {
		if _, wanted := want[name]; !wanted {
			surplus = append(surplus, obj)
		}
	}
	for _, obj := range surplus {
		errs = append(errs, l.cfg.Store.Delete(ctx, obj))
	}
	for name, links := range want {
		errs = append(errs, l.keep(ctx, name, links, have[name]))
	}
	return errors.Join(errs...)
}

// have are the objects of this node by Service, the oldest of each, and those that are one too many.
func (l *Layer2) have() (have map[types.NamespacedName]*v1beta1.ServiceL2Status, surplus []*v1beta1.ServiceL2Status) {
	have = make(map[types.NamespacedName]*v1beta1.ServiceL2Status)
	var all []*v1beta1.ServiceL2Status
	for _, o := range l.inf.GetStore().List() {
		if s, ok := o.(*v1beta1.ServiceL2Status); ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *v1beta1.ServiceL2Status) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range all {
		name := types.NamespacedName{Namespace: s.Labels[LabelServiceNamespace], Name: s.Labels[LabelServiceName]}
		wrong := s.Status.Node != "" && (s.Status.Node != l.cfg.Node || s.Status.ServiceName != name.Name || s.Status.ServiceNamespace != name.Namespace)
		if _, twice := have[name]; twice || wrong { // what is immutable cannot be mended
			surplus = append(surplus, s)
			continue
		}
		have[name] = s
	}
	return have, surplus
}

// nameFor is the name of the object of a node and a Service: l2- as MetalLB has it, and then a hash, so that an object which
// the watch has not shown yet is not made twice.
func nameFor(node string, svc types.NamespacedName) string {
	sum := sha256.Sum256([]byte(node + "/" + svc.String()))
	return "l2-" + hex.EncodeToString(sum[:8])
}

func (l *Layer2) keep(ctx context.Context, name types.NamespacedName, links []string, have *v1beta1.ServiceL2Status) error {
	if have == nil {
		obj := &v1beta1.ServiceL2Status{ObjectMeta: metav1.ObjectMeta{
			Name:   nameFor(l.cfg.Node, name),
			Labels: map[string]string{LabelNode: l.cfg.Node, LabelServiceName: name.Name, LabelServiceNamespace: name.Namespace},
		}}
		if l.cfg.Owner != nil {
			obj.OwnerReferences = []metav1.OwnerReference{*l.cfg.Owner}
		}
		made, err := l.cfg.Store.Create(ctx, obj)
		if err != nil {
			return err
		}
		have = made
	}
	next := have.DeepCopy()
	next.Status = v1beta1.ServiceL2StatusStatus{Node: l.cfg.Node, ServiceName: name.Name, ServiceNamespace: name.Namespace}
	for _, link := range slices.Sorted(slices.Values(links)) {
		next.Status.Interfaces = append(next.Status.Interfaces, v1beta1.InterfaceInfo{Name: link})
	}
	if next.Status.Node == have.Status.Node && slices.Equal(next.Status.Interfaces, have.Status.Interfaces) {
		return nil
	}
	_, err := l.cfg.Store.UpdateStatus(ctx, next)
	return err
}

// Prune removes the ServiceL2Statuses of nodes that are gone.
type Prune struct {
	store Store[*v1beta1.ServiceL2Status]
	keeper
	inf cache.SharedIndexInformer

	mu    sync.Mutex
	nodes map[string]struct{}
}

// NewPrune returns a Prune that removes nothing before the first Set.
func NewPrune(store Store[*v1beta1.ServiceL2Status], log *slog.Logger) *Prune {
	return &Prune{
		store: store, keeper: newKeeper(log),
		inf: cache.NewSharedIndexInformer(store.ListerWatcher(LabelNode), &v1beta1.ServiceL2Status{}, 0, cache.Indexers{}),
	}
}

// Set says which nodes exist. It never blocks.
func (p *Prune) Set(nodes map[string]struct{}) {
	p.mu.Lock()
	p.nodes = nodes
	p.mu.Unlock()
	p.changed()
}

// Run removes until ctx is cancelled, and returns nil then. It may be called once.
func (p *Prune) Run(ctx context.Context) error {
	return p.run(ctx, p.inf, func(ctx context.Context) error {
		p.mu.Lock()
		nodes := p.nodes
		p.mu.Unlock()
		if nodes == nil {
			return nil
		}
		var errs []error
		for _, o := range p.inf.GetStore().List() {
			s, ok := o.(*v1beta1.ServiceL2Status)
			if !ok {
				continue
			}
			if _, exists := nodes[s.Labels[LabelNode]]; !exists {
				errs = append(errs, p.store.Delete(ctx, s))
			}
		}
		return errors.Join(errs...)
	})
}
