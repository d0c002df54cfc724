package controller

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// ErrRejected is returned by Once when at least one object was rejected: the others are decided and printed all the same.
var ErrRejected = errors.New("at least one object was rejected")

// OnceConfig configures Once.
type OnceConfig struct {
	LBClass string       // as Config.LBClass
	Logger  *slog.Logger // rejections at Warn; nil discards
}

// Once decides on the objects of set as a controller that starts would, and prints to w a YAML stream: every Event that
// it would send, every IPAddressPool with its status, every Service with its annotations and status.loadBalancer,
// sorted by kind, namespace, name. It writes nothing else. Services that hold an address are adopted first; the others
// are served in order of creationTimestamp, namespace, name. The error is ErrRejected when an object was rejected.
func Once(w io.Writer, set *source.Set, cfg OnceConfig) error {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dec, err := newDecider(cfg.LBClass, log)
	if err != nil {
		return err
	}
	p := &printer{seen: make(map[string]int)}
	says := newSayer(p.event)
	if _, err := dec.setConfig(config.Objects{
		Pools: set.IPAddressPools, L2Advertisements: set.L2Advertisements, Namespaces: set.Namespaces,
	}); err != nil {
		return err
	}
	for _, x := range set.Rejected {
		log.Warn("object rejected", "error", x)
		p.event(x.Object(), corev1.EventTypeWarning, source.ReasonRejected, x.Error())
	}
	dec.cfg.Rejected = withoutPlaceholders(dec.cfg.Rejected, set.Rejected)
	for _, r := range dec.cfg.Rejected {
		log.Warn("object rejected", "error", r)
	}
	for key, o := range configEvents(dec.cfg, set.Nodes, set.IPAddressPools, set.L2Advertisements) {
		says.say(key, o.obj, o.events)
	}
	services := slices.Clone(set.Services)
	sortForService(services)
	for _, svc := range services {
		dec.adopt(svc)
	}
	for _, svc := range settle(dec, says, services) {
		p.service(svc)
	}
	for _, pool := range set.IPAddressPools {
		p.pool(withUsage(pool, dec.alloc))
	}
	if err := p.print(w); err != nil {
		return fmt.Errorf("print decisions: %w", err)
	}
	if len(set.Rejected)+len(dec.cfg.Rejected) > 0 {
		return ErrRejected
	}
	return nil
}

// settle decides on the Services, in their order, and then on those that wait for as long as a decision may have helped
// one of them. It returns all of them as they are in the end.
func settle(dec *decider, says *sayer, services []*corev1.Service) []*corev1.Service {
	end := slices.Clone(services)
	waiting := make([]int, len(end))
	for i := range waiting {
		waiting[i] = i
	}
	for range len(end) {
		var still []int
		helped := false
		for _, i := range waiting {
			out := dec.decide(end[i])
			says.say(nameOf(end[i]), end[i], out.events)
			end[i] = out.next
			helped = helped || out.freed
			if out.revisit {
				still = append(still, i)
			}
		}
		if !helped {
			break
		}
		waiting = still
	}
	return end
}

// withoutPlaceholders leaves out the pools that stand in for manifests that do not decode: that they have no addresses
// is nothing that their author did, and what is wrong with the manifest has been said.
func withoutPlaceholders(rejected []config.Rejection, manifests []*source.Problem) []config.Rejection {
	return slices.DeleteFunc(slices.Clone(rejected), func(r config.Rejection) bool {
		pool, ok := r.Object.(*v1beta1.IPAddressPool)
		return ok && len(pool.Spec.Addresses) == 0 && slices.ContainsFunc(manifests, func(x *source.Problem) bool {
			return errors.Is(x, source.ErrInvalid) && x.Kind == r.Kind && x.Namespace == r.Namespace && x.Name == r.Name
		})
	})
}

// document is one object of the stream, with what it is sorted by.
type document struct {
	kind, namespace, name string
	object                any
}

type printer struct {
	docs []document
	seen map[string]int // events so far by object, to number them
}

func (p *printer) service(svc *corev1.Service) {
	type status struct {
		LoadBalancer corev1.LoadBalancerStatus `json:"loadBalancer"`
	}
	p.docs = append(p.docs, document{"Service", svc.Namespace, svc.Name, struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        objectMeta `json:"metadata"`
		Status          status     `json:"status"`
	}{
		metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		objectMeta{Name: svc.Name, Namespace: svc.Namespace, Annotations: svc.Annotations},
		status{svc.Status.LoadBalancer},
	}})
}

// objectMeta is the part of metav1.ObjectMeta that the stream shows, without a null creationTimestamp.
type objectMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (p *printer) pool(pool *v1beta1.IPAddressPool) {
	p.docs = append(p.docs, document{"IPAddressPool", pool.Namespace, pool.Name, struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        objectMeta                  `json:"metadata"`
		Status          v1beta1.IPAddressPoolStatus `json:"status"`
	}{
		metav1.TypeMeta{APIVersion: v1beta1.GroupVersion().String(), Kind: "IPAddressPool"},
		objectMeta{Name: pool.Name, Namespace: pool.Namespace, Annotations: pool.Annotations},
		pool.Status,
	}})
}

func (p *printer) event(obj runtime.Object, kind, reason, message string) {
	on := reference(obj)
	key := on.Kind + "/" + on.Namespace + "/" + on.Name
	p.seen[key]++
	name := fmt.Sprintf("%s.%s.%d", on.Name, strings.ToLower(on.Kind), p.seen[key])
	p.docs = append(p.docs, document{"Event", on.Namespace, name, struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        objectMeta             `json:"metadata"`
		InvolvedObject  corev1.ObjectReference `json:"involvedObject"`
		Type            string                 `json:"type"`
		Reason          string                 `json:"reason"`
		Message         string                 `json:"message"`
	}{
		metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		objectMeta{Name: name, Namespace: on.Namespace},
		on, kind, reason, message,
	}})
}

// reference names an object of one of the kinds that the controller speaks of, or a manifest.
func reference(obj runtime.Object) corev1.ObjectReference {
	switch o := obj.(type) {
	case *corev1.Service:
		return corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: o.Namespace, Name: o.Name}
	case *v1beta1.IPAddressPool:
		return corev1.ObjectReference{Kind: "IPAddressPool", APIVersion: v1beta1.GroupVersion().String(), Namespace: o.Namespace, Name: o.Name}
	case *v1beta1.L2Advertisement:
		return corev1.ObjectReference{Kind: "L2Advertisement", APIVersion: v1beta1.GroupVersion().String(), Namespace: o.Namespace, Name: o.Name}
	case *metav1.PartialObjectMetadata: // a manifest that was rejected
		return corev1.ObjectReference{Kind: o.Kind, APIVersion: o.APIVersion, Namespace: o.Namespace, Name: o.Name}
	}
	return corev1.ObjectReference{}
}

func (p *printer) print(w io.Writer) error {
	slices.SortStableFunc(p.docs, func(a, b document) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, d := range p.docs {
		text, err := yaml.Marshal(d.object)
		if err != nil {
			return fmt.Errorf("render %s %s/%s: %w", d.kind, d.namespace, d.name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
