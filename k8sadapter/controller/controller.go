package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// Source is where the controller reads objects and writes its results. *source.Kube and *source.Files are Sources.
// All methods are safe for concurrent use; Event never blocks and never fails.
type Source interface {
	ListerWatcher(kind source.Kind) cache.ListerWatcher
	PatchService(ctx context.Context, prev, next *corev1.Service) (*corev1.Service, error)
	PatchPoolStatus(ctx context.Context, prev, next *v1beta1.IPAddressPool) (*v1beta1.IPAddressPool, error)
	Event(obj runtime.Object, eventType, reason, message string)
}

// Config configures a Controller.
type Config struct {
	// Source is where objects come from and where results go. Required.
	Source Source
	// LBClass is the value of spec.loadBalancerClass that this controller serves. Empty: Services without a class.
	LBClass string
	// OnDecision and OnWrite, if set, are told how long each decision on a Service and each write of its status took.
	// They must not block.
	OnDecision, OnWrite func(took time.Duration)
	// OnConfiguration, if set, is told at every change of the configuration what is wrong with it, a text for each
	// rejected object. It must not block.
	OnConfiguration func(rejected []string)
	// OnNodes, if set, is told at every change of the configuration which nodes exist. It must not block.
	OnNodes func(names map[string]struct{})
	// Logger receives state changes at Info and degraded operation at Warn. Nil discards.
	Logger *slog.Logger
}

// Controller gives every Service of type LoadBalancer its address. Create it with New, run it with Run.
type Controller struct {
	src   Source
	log   *slog.Logger
	dec   *decider
	queue workqueue.TypedRateLimitingInterface[item]
	says  *sayer
	cfg   Config

	services, pools, ads, namespaces, nodes cache.SharedIndexInformer

	waiting   map[types.NamespacedName]struct{} // those that outcome.revisit names
	started   atomic.Bool
	poolNames atomic.Pointer[[]string]
	stats     counters
}

// item is what the queue holds: a Service by name, the configuration as a whole, the status of the pools, or the end of
// a quarantine.
type item struct {
	kind itemKind
	name types.NamespacedName
}

// String names the item in the log.
func (i item) String() string {
	switch i.kind {
	case configItem:
		return "configuration"
	case statusItem:
		return "status of the pools"
	case restItem:
		return "end of a quarantine"
	case serviceItem:
	}
	return i.name.String()
}

type itemKind uint8

const (
	serviceItem itemKind = iota
	configItem
	statusItem
	restItem
)

// statusDelay gathers the counter changes of a burst into one write for each pool.
const statusDelay = 100 * time.Millisecond

// New validates cfg and returns a Controller that does nothing until Run.
func New(cfg Config) (*Controller, error) {
	if cfg.Source == nil {
		return nil, errors.New("controller: Config.Source is required")
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dec, err := newDecider(cfg.LBClass, log)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	c := &Controller{
		src: cfg.Source, cfg: cfg, log: log, dec: dec, waiting: make(map[types.NamespacedName]struct{}),
		says: newSayer(cfg.Source.Event),
	}
	c.services = c.informer(source.Services, &corev1.Service{})
	c.pools = c.informer(source.IPAddressPools, &v1beta1.IPAddressPool{})
	c.ads = c.informer(source.L2Advertisements, &v1beta1.L2Advertisement{})
	c.namespaces = c.informer(source.Namespaces, &corev1.Namespace{})
	c.nodes = c.informer(source.Nodes, &corev1.Node{})
	return c, nil
}

func (c *Controller) informer(kind source.Kind, example runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(c.src.ListerWatcher(kind), example, 0, cache.Indexers{})
}

// Run serves until ctx is cancelled, and returns nil then. It first adopts every address that a Service holds, and only
// then gives addresses to those that wait. It may be called once.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[item](50*time.Millisecond, time.Minute))
	if err := c.watch(); err != nil {
		return fmt.Errorf("controller: register for changes: %w", err)
	}
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	watching, end := context.WithCancel(source.WithKlog(ctx, c.log))
	wait, ok := source.RunInformers(watching, c.services, c.pools, c.ads, c.namespaces, c.nodes)
	defer func() {
		c.queue.ShutDown()
		end()
		wait()
	}()
	if !ok {
		return nil // cancelled before the first list was complete: nothing was done
	}
	if err := c.start(); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	for c.next(ctx) {
	}
	return nil
}

// start is the first pass: adopt what all Services hold, then queue all of them, holders first, oldest first.
func (c *Controller) start() error {
	c.started.Store(true)
	if _, err := c.applyConfig(); err != nil {
		return err
	}
	services := source.Listed[*corev1.Service](c.services)
	sortForService(services)
	for _, svc := range services {
		c.dec.adopt(svc)
	}
	for _, svc := range services {
		c.queue.Add(serviceKey(svc))
	}
	c.queue.AddAfter(item{kind: statusItem}, statusDelay)
	c.stats.loaded.Store(true)
	c.log.Info("controller started", "services", len(services), "pools", len(c.dec.cfg.Pools))
	return nil
}

// Ready says whether the controller has adopted what exists and is serving.
func (c *Controller) Ready() bool { return c.stats.loaded.Load() }

// next handles one item of the queue; false when the queue is shut down.
func (c *Controller) next(ctx context.Context) bool {
	it, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(it)
	var err error
	switch it.kind {
	case serviceItem:
		err = c.serve(ctx, it.name)
	case configItem:
		err = c.reconfigure()
	case statusItem:
		err = c.writePoolStatus(ctx)
	case restItem:
		c.wakeWaiting()
		c.wakeAfterRest()
	}
	c.stats.updates.Add(1)
	switch {
	case err == nil:
		c.queue.Forget(it)
	case ctx.Err() != nil:
	default:
		c.stats.errors.Add(1)
		level := slog.LevelWarn
		if apierrors.IsConflict(err) {
			level = slog.LevelDebug // somebody else wrote between: the next try sees it
		}
		c.log.Log(ctx, level, "will try again", "item", it.String(), "error", err)
		c.queue.AddRateLimited(it)
	}
	return true
}

// reconfigure takes the configuration as it stands, and queues the Services that the change can concern: holders that it
// touched, and those that wait.
func (c *Controller) reconfigure() error {
	touched, err := c.applyConfig()
	if err != nil {
		return err
	}
	for _, owner := range touched {
		ns, name, _ := strings.Cut(string(owner), "/")
		c.waiting[types.NamespacedName{Namespace: ns, Name: name}] = struct{}{}
	}
	c.wakeWaiting()
	c.wakeAfterRest()
	return nil
}

// applyConfig hands the configuration to the decider, and says what is wrong with it.
func (c *Controller) applyConfig() (touched []allocator.Owner, err error) {
	touched, err = c.dec.setConfig(config.Objects{
		Pools:            source.Listed[*v1beta1.IPAddressPool](c.pools),
		L2Advertisements: source.Listed[*v1beta1.L2Advertisement](c.ads),
		Namespaces:       source.Listed[*corev1.Namespace](c.namespaces),
	})
	if err != nil {
		c.stats.stale.Store(true)
		return nil, err
	}
	c.stats.stale.Store(len(c.dec.cfg.Rejected) > 0)
	names := make([]string, len(c.dec.cfg.Pools))
	for i, p := range c.dec.cfg.Pools {
		names[i] = p.Name
	}
	c.poolNames.Store(&names)
	c.reportConfig(source.Listed[*corev1.Node](c.nodes))
	c.callHooks()
	return touched, nil
}

func (c *Controller) callHooks() {
	if c.cfg.OnConfiguration != nil {
		c.cfg.OnConfiguration(config.Texts(c.dec.cfg.Rejected))
	}
	if c.cfg.OnNodes != nil {
		names := make(map[string]struct{})
		for _, n := range source.Listed[*corev1.Node](c.nodes) {
			names[n.Name] = struct{}{}
		}
		c.cfg.OnNodes(names)
	}
}

// serve brings one Service to what it should be.
func (c *Controller) serve(ctx context.Context, name types.NamespacedName) error {
	obj, exists, err := c.services.GetStore().GetByKey(name.String())
	if err != nil {
		return fmt.Errorf("look up Service %s: %w", name, err)
	}
	if !exists {
		delete(c.waiting, name)
		c.says.forget(name)
		if c.dec.forget(allocator.Owner(name.String())) {
			c.wakeWaiting()
			c.wakeAfterRest()
		}
		return nil
	}
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return fmt.Errorf("look up Service %s: the cache holds a %T", name, obj)
	}
	start := time.Now()
	out := c.dec.decide(svc)
	if c.cfg.OnDecision != nil {
		c.cfg.OnDecision(time.Since(start))
	}
	if out.revisit {
		c.waiting[name] = struct{}{}
	} else {
		delete(c.waiting, name)
	}
	if out.freed {
		c.wakeWaiting()
	}
	c.wakeAfterRest()
	if changed(svc, out.next) {
		c.queue.AddAfter(item{kind: statusItem}, statusDelay)
		start := time.Now()
		_, err := c.src.PatchService(ctx, svc, out.next)
		if c.cfg.OnWrite != nil {
			c.cfg.OnWrite(time.Since(start))
		}
		if err != nil {
			if apierrors.IsNotFound(err) {
				return nil // gone: the deletion is on its way to us
			}
			c.says.hold(name, out.events)
			return fmt.Errorf("write status of Service %s: %w", name, err)
		}
		c.log.Info("Service updated", "service", name.String(), "status", ips(out.next), "took", time.Since(start))
	}
	c.says.say(name, svc, out.events)
	return nil
}

// wakeWaiting queues those that wait for an address, oldest first.
func (c *Controller) wakeWaiting() {
	c.queue.AddAfter(item{kind: statusItem}, statusDelay)
	c.enqueue(slices.Collect(maps.Keys(c.waiting)))
}

// wakeAfterRest sees to it that those who wait are woken, and the counters of pools written, when the next quarantine of
// an address is over.
func (c *Controller) wakeAfterRest() {
	if at, rests := c.dec.alloc.NextFree(); rests {
		c.queue.AddAfter(item{kind: restItem}, time.Until(at)) // of several times the queue keeps the first
	}
}

// enqueue queues Services in the order in which they are served.
func (c *Controller) enqueue(names []types.NamespacedName) {
	services := make([]*corev1.Service, 0, len(names))
	for _, name := range names {
		if obj, ok, err := c.services.GetStore().GetByKey(name.String()); err == nil && ok {
			if svc, ok := obj.(*corev1.Service); ok {
				services = append(services, svc)
			}
		}
	}
	sortForService(services)
	for _, svc := range services {
		c.queue.Add(serviceKey(svc))
	}
}

func serviceKey(svc *corev1.Service) item {
	return item{kind: serviceItem, name: types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}}
}

// sortForService orders Services as they are served: those that hold an address first, then by age, namespace, name.
// The order decides who keeps an address that two statuses claim, and who gets the last one of a pool.
func sortForService(services []*corev1.Service) {
	holds := func(s *corev1.Service) int { return min(len(s.Status.LoadBalancer.Ingress), 1) }
	slices.SortFunc(services, func(a, b *corev1.Service) int {
		return cmp.Or(
			cmp.Compare(holds(b), holds(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
}
