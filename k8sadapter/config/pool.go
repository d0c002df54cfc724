package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Pool is a pool in force.
type Pool struct {
	Name string
	// Labels of the IPAddressPool, which advertisements may select.
	Labels map[string]string
	// Alloc is the pool as the allocator wants it.
	Alloc allocator.Pool
}

// poolVersion is one version of an IPAddressPool that is good in itself.
type poolVersion struct {
	uid     types.UID
	labels  map[string]string
	alloc   allocator.Pool // without Scope
	entries []string       // the entry of spec.addresses for each range
	scoped  bool
	// Of a scoped pool:
	namespaces         []string
	namespaceSelectors []labelSelector
	services           []labelSelector
}

// parsePool checks one pool for itself.
func parsePool(obj *v1beta1.IPAddressPool) (*poolVersion, []Warning, faults) {
	v := &poolVersion{uid: obj.UID, labels: maps.Clone(obj.Labels), alloc: allocator.Pool{
		Name:          obj.Name,
		Manual:        obj.Spec.AutoAssign != nil && !*obj.Spec.AutoAssign,
		AvoidBuggyIPs: obj.Spec.AvoidBuggyIPs,
	}}
	var bad faults
	if obj.Name == "" {
		bad = append(bad, &FieldError{Field: "metadata.name", Reason: "is empty; give the pool a name"})
	}
	warnings, f := v.parseAddresses(obj)
	bad = append(bad, f...)
	if len(f) == 0 { // reservations are judged by the addresses
		w, f := v.parseSettings(obj)
		warnings, bad = append(warnings, w...), append(bad, f...)
	}
	if a := obj.Spec.AllocateTo; a != nil {
		bad = append(bad, v.parseAllocation(a)...)
	}
	return v, warnings, bad
}

func (v *poolVersion) parseAddresses(obj *v1beta1.IPAddressPool) ([]Warning, faults) {
	const field = "spec.addresses"
	if len(obj.Spec.Addresses) == 0 {
		return nil, faults{&FieldError{Field: field, Reason: "is empty; list at least one prefix or range"}}
	}
	var warnings []Warning
	var bad faults
	var own claims
	for i, text := range obj.Spec.Addresses {
		at := fmt.Sprintf("%s[%d]", field, i)
		entry, mapped := unmapEntry(text)
		r, masked, err := allocator.ParseRange(entry)
		if err != nil {
			bad = append(bad, &FieldError{Field: at, Value: text, Reason: parseReason(err), Err: err})
			continue
		}
		if other, overlap := own.overlapping(r); overlap {
			bad = append(bad, &FieldError{
				Field: at, Value: text, Other: obj.Name,
				Reason: fmt.Sprintf("overlaps %s of the same pool; remove what is in both from one of them", quote(other.text)),
			})
			continue
		}
		own.add(claim{Range: r, pool: obj.Name, text: text})
		v.alloc.Ranges = append(v.alloc.Ranges, r)
		v.entries = append(v.entries, text)
		if mapped {
			warnings = append(warnings, poolWarning(obj, at, fmt.Sprintf(
				"%s: %s has IPv4 addresses in IPv6 form; write %s", at, quote(text), r)))
		}
		if masked {
			warnings = append(warnings, poolWarning(obj, at, fmt.Sprintf(
				"%s: %s has host bits; the pool holds the whole prefix; write %s", at, quote(text), r)))
		}
	}
	return warnings, bad
}

// unmapEntry rewrites IPv4 addresses in IPv6 form, which MetalLB takes for the IPv4 addresses that they stand for:
// ::ffff:192.0.2.0/120 becomes 192.0.2.0/24. Every other entry comes back as it is.
func unmapEntry(entry string) (out string, mapped bool) {
	if p, err := netip.ParsePrefix(strings.TrimSpace(entry)); err == nil {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).String(), true
		}
		return entry, false
	}
	ends := strings.Split(entry, "-")
	for i, end := range ends {
		if a, err := netip.ParseAddr(strings.TrimSpace(end)); err == nil && a.Is4In6() && a.Zone() == "" {
			ends[i], mapped = a.Unmap().String(), true
		}
	}
	if !mapped || len(ends) != 2 {
		return entry, false
	}
	return strings.Join(ends, "-"), true
}

// parseReason is the text of a range that does not parse, without the value, which the caller names.
func parseReason(err error) string {
	var pe *allocator.ParseError
	if errors.As(err, &pe) && pe.Reason != "" {
		return pe.Reason
	}
	return err.Error()
}

func (v *poolVersion) parseAllocation(a *v1beta1.ServiceAllocation) faults {
	const field = "spec.serviceAllocation"
	var bad faults
	if a.Priority < 0 {
		bad = append(bad, &FieldError{
			Field: field + ".priority", Value: strconv.Itoa(a.Priority),
			Reason: "is negative; use 1 for the pool to try first, and 0 for the last",
		})
	}
	bad = append(bad, duplicateStrings(field+".namespaces", a.Namespaces)...)
	var f faults
	v.namespaceSelectors, f = parseSelectors(field+".namespaceSelectors", a.NamespaceSelectors)
	bad = append(bad, f...)
	v.services, f = parseSelectors(field+".serviceSelectors", a.ServiceSelectors)
	bad = append(bad, f...)
	v.scoped = true
	v.alloc.Priority = a.Priority
	v.namespaces = slices.Clone(a.Namespaces)
	return bad
}

// scope resolves whom the pool serves, with the namespaces as they are now. An open pool has no scope.
func (v *poolVersion) scope(namespaces []*corev1.Namespace) *allocator.Scope {
	if !v.scoped {
		return nil
	}
	s := &allocator.Scope{AnyNamespace: len(v.namespaces) == 0 && len(v.namespaceSelectors) == 0}
	for _, sel := range v.services {
		s.Services = append(s.Services, sel)
	}
	if s.AnyNamespace || slices.ContainsFunc(v.namespaceSelectors, labelSelector.matchesAll) {
		s.AnyNamespace = true
		return s
	}
	s.Namespaces = slices.Clone(v.namespaces)
	for _, ns := range namespaces {
		if ns != nil && matchesAny(v.namespaceSelectors, ns.Labels) {
			s.Namespaces = append(s.Namespaces, ns.Name)
		}
	}
	slices.Sort(s.Namespaces)
	s.Namespaces = slices.Compact(s.Namespaces)
	return s
}

// pool returns the version as a pool in force that holds the ranges.
func (v *poolVersion) pool(ranges []allocator.Range, namespaces []*corev1.Namespace) Pool {
	p := Pool{Name: v.alloc.Name, Labels: v.labels, Alloc: v.alloc}
	p.Alloc.Ranges = ranges
	p.Alloc.Reserve = v.reservedIn(ranges)
	p.Alloc.Scope = v.scope(namespaces)
	return p
}

// opaquePool is what is in force of a pool of which only a bad version is known.
func opaquePool(obj *v1beta1.IPAddressPool) Pool {
	return Pool{Name: obj.Name, Labels: maps.Clone(obj.Labels), Alloc: allocator.Pool{Name: obj.Name, Opaque: true}}
}

func poolWarning(obj *v1beta1.IPAddressPool, field, message string) Warning {
	return Warning{
		Kind: v1beta1.KindIPAddressPool, Namespace: obj.Namespace, Name: obj.Name,
		Object: obj, Field: field, Message: message,
	}
}
