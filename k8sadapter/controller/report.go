package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// Stats are the controller's counters, under MetalLB's meaning of them.
type Stats struct {
	Updates      uint64 // items handled
	UpdateErrors uint64 // items that failed and are tried again
	ConfigLoaded bool   // a configuration was applied since the start
	ConfigStale  bool   // an object of the configuration is rejected: its last good version is in force
}

type counters struct {
	updates, errors atomic.Uint64
	loaded, stale   atomic.Bool
}

// Stats returns the counters as they stand. It is safe for concurrent use.
func (c *Controller) Stats() Stats {
	return Stats{
		Updates: c.stats.updates.Load(), UpdateErrors: c.stats.errors.Load(),
		ConfigLoaded: c.stats.loaded.Load(), ConfigStale: c.stats.stale.Load(),
	}
}

// Usage returns the counters of every pool in force. It is safe for concurrent use.
func (c *Controller) Usage() map[string]allocator.Usage {
	names := c.poolNames.Load()
	if names == nil {
		return nil
	}
	out := make(map[string]allocator.Usage, len(*names))
	for _, name := range *names {
		if u, ok := c.dec.alloc.Usage(name); ok {
			out[name] = u
		}
	}
	return out
}

// sayer sends Events on transitions only: what it said of an object last, it does not say again until it stopped being
// true. It is used by one goroutine.
type sayer struct {
	emit func(obj runtime.Object, eventType, reason, message string)
	said map[any]map[event]struct{} // by object key
	held map[any][]event            // decided, but the write that makes them true has yet to succeed
}

func newSayer(emit func(runtime.Object, string, string, string)) *sayer {
	return &sayer{emit: emit, said: make(map[any]map[event]struct{}), held: make(map[any][]event)}
}

// say sends those of now, and those held, that were not true before. Of several assignments the first is said.
func (s *sayer) say(key any, obj runtime.Object, now []event) {
	all := slices.Concat(s.held[key], now)
	delete(s.held, key)
	before := s.said[key]
	after := make(map[event]struct{}, len(all))
	assigned := false
	for _, e := range all {
		if e.reason == "IPAllocated" {
			if assigned {
				continue
			}
			assigned = true
		}
		_, known := before[e]
		_, twice := after[e]
		if !known && !twice {
			s.emit(obj, e.kind, e.reason, e.message)
		}
		after[e] = struct{}{}
	}
	if len(after) == 0 {
		delete(s.said, key)
		return
	}
	s.said[key] = after
}

// hold keeps events until the write that they speak of has succeeded.
func (s *sayer) hold(key any, events []event) {
	for _, e := range events {
		if !slices.Contains(s.held[key], e) {
			s.held[key] = append(s.held[key], e)
		}
	}
}

func (s *sayer) forget(key any) {
	delete(s.said, key)
	delete(s.held, key)
}

// reportConfig says of every object of the configuration what is wrong with it, when it begins to be.
func (c *Controller) reportConfig(nodes []*corev1.Node) {
	for key, o := range configEvents(c.dec.cfg, nodes, source.Listed[*v1beta1.IPAddressPool](c.pools), source.Listed[*v1beta1.L2Advertisement](c.ads)) {
		if len(o.events) > 0 && len(c.says.said[key]) == 0 {
			for _, e := range o.events {
				c.log.Warn("configuration", "object", key, "reason", e.reason, "message", e.message)
			}
		}
		c.says.say(key, o.obj, o.events)
	}
}

type objectEvents struct {
	obj    runtime.Object
	events []event
}

// configEvents lists for every pool and advertisement, by "Kind/name", what is wrong with it (mostly nothing).
func configEvents(cfg config.Config, nodes []*corev1.Node, pools []*v1beta1.IPAddressPool, ads []*v1beta1.L2Advertisement) map[string]objectEvents {
	out := make(map[string]objectEvents, len(pools)+len(ads))
	for _, p := range pools {
		out["IPAddressPool/"+p.Name] = objectEvents{obj: p}
	}
	for _, a := range ads {
		out["L2Advertisement/"+a.Name] = objectEvents{obj: a}
	}
	add := func(key, kind, reason, message string) {
		if o, ok := out[key]; ok {
			o.events = append(o.events, event{kind: kind, reason: reason, message: message})
			out[key] = o
		}
	}
	for _, r := range cfg.Rejected {
		add(r.Kind+"/"+r.Name, corev1.EventTypeWarning, "ConfigurationError", r.Error())
	}
	for _, w := range cfg.Warnings {
		add(w.Kind+"/"+w.Name, corev1.EventTypeWarning, "ConfigurationWarning", w.Message)
	}
	for _, n := range nodes {
		for _, na := range n.Status.Addresses {
			a, err := netip.ParseAddr(na.Address)
			if err != nil {
				continue
			}
			if p, in := cfg.PoolOf([]netip.Addr{a.Unmap()}, ""); in {
				add("IPAddressPool/"+p.Name, corev1.EventTypeWarning, "NodeAddressInPool",
					fmt.Sprintf("the pool holds %s, an address of node %q: it may be given to a Service while the node uses it; exclude it from spec.addresses", a, n.Name))
			}
		}
	}
	return out
}

// writePoolStatus writes the counters of the pools whose status differs.
func (c *Controller) writePoolStatus(ctx context.Context) error {
	var errs []error
	for _, p := range source.Listed[*v1beta1.IPAddressPool](c.pools) {
		next := withUsage(p, c.dec.alloc)
		if next.Status == p.Status {
			continue
		}
		if _, err := c.src.PatchPoolStatus(ctx, p, next); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("write status of IPAddressPool %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// withUsage returns the pool with its counters as they stand; a pool that is not in force counts nothing.
func withUsage(p *v1beta1.IPAddressPool, alloc *allocator.Allocator) *v1beta1.IPAddressPool {
	u, _ := alloc.Usage(p.Name)
	next := p.DeepCopy()
	next.Status.AssignedIPv4, next.Status.AvailableIPv4 = u.V4.Used, u.V4.Free
	next.Status.AssignedIPv6, next.Status.AvailableIPv6 = u.V6.Used, u.V6.Free
	return next
}

// changed says whether what we own of a Service differs: the ingress list and our annotation.
func changed(prev, next *corev1.Service) bool {
	return !reflect.DeepEqual(ingress(prev), ingress(next)) || !maps.Equal(prev.Annotations, next.Annotations)
}

// ingress is the list with nil and empty made equal.
func ingress(svc *corev1.Service) []corev1.LoadBalancerIngress {
	if len(svc.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	return svc.Status.LoadBalancer.Ingress
}

func ips(svc *corev1.Service) []string {
	out := make([]string, 0, len(svc.Status.LoadBalancer.Ingress))
	for _, in := range svc.Status.LoadBalancer.Ingress {
		out = append(out, cmp.Or(in.IP, in.Hostname))
	}
	return out
}

// nameOf is the key of a Service.
func nameOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}
