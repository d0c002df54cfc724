package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/config"
)

// event is one thing that happened to an object and that its user should read.
type event struct {
	kind    string // corev1.EventTypeNormal or corev1.EventTypeWarning
	reason  string
	message string
}

// outcome is what the decider wants for one Service.
type outcome struct {
	// next is the Service as it should be, a copy of the one decided on;
	// it differs at most in status.loadBalancer and in our own annotations.
	next *corev1.Service
	// events in the order in which they happened.
	events []event
	// freed says that an address or a shared port became free, or that an address became one to share, so that a pending
	// Service may now be served.
	freed bool
	// revisit says that a change of the pools, or an address that becomes free, may concern the Service: it waits for an
	// address or for its second one, or holds one of nobody's pool.
	revisit bool
}

// decider decides which address a Service gets. It holds the allocator and the configuration in force, does no I/O,
// and is used by one goroutine at a time.
type decider struct {
	class  string
	log    *slog.Logger
	alloc  *allocator.Allocator
	store  config.Store
	cfg    config.Config
	owners map[allocator.Owner]known
}

// known is what the decider remembers of an owner that holds an address.
type known struct {
	uid types.UID
	// shape is what others can collide with on a shared address: ports, sharing key and backend key.
	shape string
}

func newDecider(class string, log *slog.Logger) (*decider, error) {
	alloc, err := allocator.New(allocator.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("create allocator: %w", err)
	}
	return &decider{class: class, log: log, alloc: alloc, owners: make(map[allocator.Owner]known)}, nil
}

func ownerOf(svc *corev1.Service) allocator.Owner {
	return allocator.Owner(svc.Namespace + "/" + svc.Name)
}

// setConfig takes the objects as they stand now, and returns the holders that the change concerns: those who lost their
// address, and those whose pool has another name. What is rejected keeps its last good version.
func (d *decider) setConfig(in config.Objects) (touched []allocator.Owner, err error) {
	before := d.cfg.Pools
	d.cfg = d.store.Update(in)
	change, err := d.alloc.ReplacePools(d.cfg.AllocatorPools())
	if err != nil {
		return nil, fmt.Errorf("set pools: %w", err)
	}
	for _, x := range change.Displaced {
		d.log.Info("address displaced by a pool edit", "owner", x.Owner, "addrs", x.Addrs, "pool", x.Pool, "reason", x.Why)
		touched = append(touched, x.Owner)
	}
	for _, x := range change.Renamed {
		touched = append(touched, x.Owner)
	}
	return append(touched, d.dropRemoved(before)...), nil
}

// dropRemoved ends what the allocator keeps for holders whose pool is gone (herald.lb/displaced: keep): with the pool
// went the advertisements that select it, so nobody would announce such an address. It returns the holders.
func (d *decider) dropRemoved(before []config.Pool) (owners []allocator.Owner) {
	removed := func(name string) bool {
		_, exists := d.cfg.Pool(name)
		return !exists
	}
	if !slices.ContainsFunc(before, func(p config.Pool) bool { return removed(p.Name) }) {
		return nil
	}
	for owner, as := range d.alloc.All() {
		if removed(as.Pool) {
			d.log.Info("address displaced by the removal of its pool", "owner", owner, "addrs", as.Addrs, "pool", as.Pool)
			d.alloc.Release(owner)
			owners = append(owners, owner)
		}
	}
	return owners
}

// adopt re-learns what the Service's status says, without allocating or changing anything.
// It is the first phase of a start: every holder is adopted before anyone is given anything new.
func (d *decider) adopt(svc *corev1.Service) {
	if !config.Ours(svc, d.class) {
		return
	}
	held, garbage := config.StatusAddrs(svc)
	if len(held) == 0 || len(garbage) > 0 {
		return
	}
	req, _, err := config.ServiceRequest(svc)
	if err != nil && !config.Adoptable(err) {
		return
	}
	if _, err := d.alloc.Adopt(asHeld(req, svc), held); err != nil {
		d.log.Warn("cannot adopt the address of a Service", "service", ownerOf(svc), "addrs", held, "error", err)
		return
	}
	d.owners[req.Owner] = known{uid: svc.UID, shape: shapeOf(req)}
}

func shapeOf(req allocator.Request) string {
	return fmt.Sprintf("%q %q %v", req.SharingKey, req.BackendKey, req.Ports)
}

// asHeld is the request without its explicit wishes, and with the pool that the Service says it was served from,
// so that what is held can be adopted whatever is wished for now.
func asHeld(req allocator.Request, svc *corev1.Service) allocator.Request {
	req.Addresses, req.Pool = nil, ""
	req.Claim = config.PoolHint(svc)
	return req
}

// forget releases what a deleted Service held.
func (d *decider) forget(owner allocator.Owner) (freed bool) {
	delete(d.owners, owner)
	_, freed = d.alloc.Release(owner)
	return freed
}

// decide says what the Service's status should be, and why. It follows the order of MetalLB's convergence
// (controller/service.go), without its known faults: docs/compatibility.md has the differences.
func (d *decider) decide(svc *corev1.Service) outcome {
	r := &round{decider: d, svc: svc, out: outcome{next: svc.DeepCopy()}, owner: ownerOf(svc)}
	was, remembered := d.owners[r.owner]
	if remembered && was.uid != svc.UID {
		// Deleted and created again between two looks: a new Service, with no claim on the old one's address.
		r.out.freed = d.forget(r.owner)
	}
	before, held := d.alloc.Get(r.owner)
	r.run()
	after, holds := d.alloc.Get(r.owner)
	if holds {
		d.owners[r.owner] = known{uid: svc.UID, shape: r.shape}
	} else {
		delete(d.owners, r.owner)
	}
	if held && (!holds || !subset(before.Addrs, after.Addrs) || was.shape != r.shape) {
		r.out.freed = true
	}
	if r.shares && !subset(after.Addrs, before.Addrs) {
		r.out.freed = true // the others of the group can join
	}
	return r.out
}

// round is one decision on one Service.
type round struct {
	*decider
	svc   *corev1.Service
	owner allocator.Owner
	out   outcome
	shape string
	// shares says that the Service has a sharing key.
	shares bool
	lost   string // why a held address had to go, for the Event that names old and new
	old    []netip.Addr
}

func (r *round) run() {
	if !config.Ours(r.svc, r.class) {
		r.disown()
		return
	}
	held, garbage := config.StatusAddrs(r.svc)
	if r.foreign(held, garbage) {
		r.out.revisit = true
		return
	}
	req, notices, err := config.ServiceRequest(r.svc)
	for _, n := range notices {
		r.event(corev1.EventTypeWarning, n.Reason, n.Message)
	}
	if err != nil {
		r.malformed(req, held, err)
		return
	}
	r.shape, r.shares = shapeOf(req), req.SharingKey != ""
	if err := config.CheckStatus(held, garbage); err != nil {
		reason, _ := config.EventReason(err, false)
		r.event(corev1.EventTypeWarning, reason, err.Error())
		held = nil
	}
	if !r.keep(req, held) {
		r.clear()
	}
	r.assign(req)
}

// foreign says whether the status was written by somebody else: addresses (or host names) without our annotation and
// outside every pool are never touched (metallb#2887).
func (r *round) foreign(held []netip.Addr, garbage []string) bool {
	if len(r.svc.Status.LoadBalancer.Ingress) == 0 || r.marked() {
		return false
	}
	if _, known := r.alloc.Get(r.owner); known {
		return false
	}
	for _, a := range held {
		if _, in := r.cfg.PoolOf([]netip.Addr{a}, ""); in {
			return false
		}
	}
	if len(held) == 0 && len(garbage) > 0 {
		return false
	}
	r.log.Debug("status belongs to somebody else", "service", r.owner, "addrs", held)
	return true
}

// marked says whether the Service carries the mark of an address given by us (or by MetalLB before us).
func (r *round) marked() bool { return config.PoolHint(r.svc) != "" }

// disown handles a Service that is not ours, or no longer: what we gave is taken back, what others gave is left.
func (r *round) disown() {
	_, holds := r.alloc.Release(r.owner)
	if !holds && r.svc.Annotations[config.AnnotationAllocatedFrom] == "" {
		return
	}
	pool := r.svc.Annotations[config.AnnotationAllocatedFrom]
	keep := r.svc.Status.LoadBalancer.Ingress[:0:0]
	for _, in := range r.svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil {
			if _, given := r.cfg.PoolOf([]netip.Addr{a.Unmap()}, pool); given || holds {
				continue
			}
		}
		keep = append(keep, in)
	}
	r.out.next.Status.LoadBalancer.Ingress = keep
	delete(r.out.next.Annotations, config.AnnotationAllocatedFrom)
}

// malformed handles a request that cannot be understood. A Service that holds an address keeps it, as MetalLB does
// (scenario: garbage in loadBalancerIPs while holding), unless its families themselves are what is wrong.
func (r *round) malformed(req allocator.Request, held []netip.Addr, err error) {
	reason, clears := config.EventReason(err, len(held) > 0)
	if reason != "" {
		r.event(corev1.EventTypeWarning, reason, err.Error())
	}
	if clears {
		r.clear()
		r.out.revisit = true
		return
	}
	r.out.revisit = len(held) == 0
	r.shape = shapeOf(req)
	if len(held) > 0 && config.Adoptable(err) {
		if _, known := r.alloc.Get(r.owner); !known {
			if _, aerr := r.alloc.Adopt(asHeld(req, r.svc), held); aerr != nil {
				r.log.Warn("cannot adopt the address of a Service", "service", r.owner, "addrs", held, "error", aerr)
			}
		}
	}
}

// keep says whether what the Service holds is still its own. What this process gave or adopted counts more than the
// status, which may be older than our last write.
func (r *round) keep(req allocator.Request, held []netip.Addr) bool {
	if have, ok := r.alloc.Get(r.owner); ok {
		if familiesFit(req, have.Addrs) {
			return true
		}
		r.old = have.Addrs
		return false
	}
	if len(held) == 0 {
		return false
	}
	r.old = held
	if !familiesFit(req, held) {
		return false
	}
	if _, err := r.alloc.Adopt(asHeld(req, r.svc), held); err != nil {
		r.lost = cause(err).Error()
		return false
	}
	return true
}

// assign gives the Service what it asks for, and reports what changed.
func (r *round) assign(req allocator.Request) {
	have, holds := r.alloc.Get(r.owner)
	if !holds && r.svc.DeletionTimestamp != nil {
		return // on its way out: what it holds stays until it is gone, but nothing new is given
	}
	got, err := r.alloc.Assign(req)
	if err != nil {
		if holds {
			r.alloc.Release(r.owner) // an explicit wish that cannot be met costs the current address, as in MetalLB
		}
		r.reportLoss("")
		r.event(corev1.EventTypeWarning, "AllocationFailed", failure(req, err))
		r.clear()
		r.out.revisit = true
		return
	}
	r.write(got)
	r.reportGain(req, have.Addrs, got)
}

func (r *round) reportLoss(instead string) {
	if r.lost == "" {
		return
	}
	msg := fmt.Sprintf("%s is no longer permitted: %s", join(r.old), r.lost)
	if instead != "" {
		msg = fmt.Sprintf("%s; assigned %s", msg, instead)
	}
	r.event(corev1.EventTypeNormal, "ClearAssignment", msg)
}

func (r *round) reportGain(req allocator.Request, had []netip.Addr, got allocator.Assignment) {
	status, _ := config.StatusAddrs(r.svc)
	now := fmt.Sprintf("%s from pool %q", join(got.Addrs), got.Pool)
	switch {
	case r.lost != "":
		r.reportLoss(now)
	case !sameSet(got.Addrs, status):
		msg := "assigned " + now
		if moved := missing(status, got.Addrs); len(moved) > 0 {
			msg = fmt.Sprintf("%s in place of %s", msg, join(moved))
		}
		r.event(corev1.EventTypeNormal, "IPAllocated", msg)
	case len(had) > 0 && !sameSet(had, got.Addrs):
		r.event(corev1.EventTypeNormal, "IPAllocated", "assigned "+now)
	}
	if req.Partial && len(req.Families) > len(got.Addrs) {
		r.out.revisit = true
		r.event(corev1.EventTypeNormal, "AdditionalAssignFailed",
			fmt.Sprintf("the Service prefers two families and pool %q has a free address of only one; it keeps %s", got.Pool, join(got.Addrs)))
	}
}

// write puts the assignment into the Service. Entries that stay keep what others put into them (ipMode, ports).
func (r *round) write(got allocator.Assignment) {
	have := r.svc.Status.LoadBalancer.Ingress
	want := make([]corev1.LoadBalancerIngress, 0, len(got.Addrs))
	for _, a := range ordered(got.Addrs, have) {
		entry := corev1.LoadBalancerIngress{IP: a.String()}
		for _, h := range have {
			if b, err := netip.ParseAddr(h.IP); err == nil && b.Unmap() == a {
				entry = *h.DeepCopy()
				entry.IP, entry.Hostname = a.String(), ""
			}
		}
		want = append(want, entry)
	}
	r.out.next.Status.LoadBalancer.Ingress = want
	if r.out.next.Annotations == nil {
		r.out.next.Annotations = make(map[string]string, 1)
	}
	r.out.next.Annotations[config.AnnotationAllocatedFrom] = got.Pool
}

// clear takes every address from the Service, in memory and in what is to be written.
func (r *round) clear() {
	r.alloc.Release(r.owner)
	r.out.next.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	delete(r.out.next.Annotations, config.AnnotationAllocatedFrom)
}

func (r *round) event(kind, reason, message string) {
	r.out.events = append(r.out.events, event{kind: kind, reason: reason, message: message})
}

// failure is the text of an allocation that failed: the owner's wish, and the cause in the allocator's words.
func failure(req allocator.Request, err error) string {
	var wish string
	switch {
	case len(req.Addresses) > 0 && req.Pool != "":
		wish = fmt.Sprintf("%s of pool %q", join(req.Addresses), req.Pool)
	case len(req.Addresses) > 0:
		wish = join(req.Addresses)
	case req.Pool != "":
		wish = fmt.Sprintf("an address of pool %q", req.Pool)
	default:
		wish = "an address"
	}
	text := fmt.Sprintf("cannot give %q %s: %v", req.Owner, wish, cause(err))
	if errors.Is(err, allocator.ErrNoPool) && req.Pool == "" && len(req.Addresses) == 0 {
		text += "; create an IPAddressPool that serves it"
	}
	return text
}

// cause is the error without the allocator's first words, which name the owner that the Event is about anyway.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// familiesFit says whether addrs are of families that the request wants, and enough of them.
func familiesFit(req allocator.Request, addrs []netip.Addr) bool {
	for _, a := range addrs {
		if !slices.Contains(req.Families, allocator.FamilyOf(a)) {
			return false
		}
	}
	return req.Partial || len(addrs) == len(req.Families)
}

// ordered keeps the order that the status already has when it names the very same addresses.
func ordered(want []netip.Addr, have []corev1.LoadBalancerIngress) []netip.Addr {
	var now []netip.Addr
	for _, h := range have {
		if a, err := netip.ParseAddr(h.IP); err == nil {
			now = append(now, a.Unmap())
		}
	}
	if sameSet(want, now) {
		return now
	}
	return want
}

func join(addrs []netip.Addr) string {
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return strings.Join(s, ", ")
}

func subset(a, b []netip.Addr) bool { return len(missing(a, b)) == 0 }

func sameSet(a, b []netip.Addr) bool { return len(a) == len(b) && subset(a, b) }

// missing returns the addresses of a that b lacks.
func missing(a, b []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
