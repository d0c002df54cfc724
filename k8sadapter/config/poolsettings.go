package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Annotations of IPAddressPools: what the fields of MetalLB cannot say. MetalLB does not look at them. An absent or
// empty one means the default. They are validated like fields: a bad value rejects this version of the pool.
const (
	// AnnotationExclude lists addresses that the pool does not have after all: single ones, prefixes and first-last,
	// separated by commas.
	AnnotationExclude = poolPrefix + "exclude"
	// AnnotationReserve lists addresses that are kept for Services, which need not exist yet, as
	// address=namespace/name separated by commas.
	AnnotationReserve = poolPrefix + "reserve"
	// AnnotationOrder is "lowest" (the default) or "spread": by the name of the Service.
	AnnotationOrder = poolPrefix + "order"
	// AnnotationDrain with the value "true" closes the pool for Services that hold no address of it.
	AnnotationDrain = poolPrefix + "drain"
	// AnnotationDisplaced is "reassign" (the default) or "keep": what an edit does to a Service whose address it takes
	// out of the pool.
	AnnotationDisplaced = poolPrefix + "displaced"
	// AnnotationQuarantine is how long a released address rests, as a Go duration such as 10m.
	AnnotationQuarantine = poolPrefix + "quarantine"
	// AnnotationLimitPerNamespace is how many addresses of the pool the Services of one namespace may hold.
	AnnotationLimitPerNamespace = poolPrefix + "limit-per-namespace"

	poolPrefix = "herald.lb/"
)

// SamePoolSettings says whether two versions of a pool have the same annotations of Herald. A change of others, such
// as those that kubectl writes, changes nothing.
func SamePoolSettings(a, b *v1beta1.IPAddressPool) bool {
	return maps.Equal(poolSettings(a), poolSettings(b))
}

func poolSettings(obj *v1beta1.IPAddressPool) map[string]string {
	out := make(map[string]string)
	for key, value := range obj.Annotations {
		if strings.HasPrefix(key, poolPrefix) {
			out[key] = value
		}
	}
	return out
}

// parseSettings reads the annotations, after the addresses.
func (v *poolVersion) parseSettings(obj *v1beta1.IPAddressPool) ([]Warning, faults) {
	var warnings []Warning
	var bad faults
	settings := poolSettings(obj)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		field, value := "metadata.annotations["+key+"]", strings.TrimSpace(settings[key])
		parse := v.settingParser(key)
		if parse == nil {
			warnings = append(warnings, poolWarning(obj, field, fmt.Sprintf(
				"%s: %s is not an annotation that Herald knows, and is ignored", field, key)))
			continue
		}
		if value == "" {
			continue
		}
		if err := parse(value); err != nil {
			bad = append(bad, &FieldError{Field: field, Value: settings[key], Reason: err.Error(), Err: err})
		}
	}
	if len(bad) > 0 {
		return warnings, bad
	}
	for _, r := range v.alloc.Exclude {
		if !slices.ContainsFunc(v.alloc.Ranges, func(in allocator.Range) bool { return overlap(in, r) }) {
			field := "metadata.annotations[" + AnnotationExclude + "]"
			warnings = append(warnings, poolWarning(obj, field, fmt.Sprintf(
				"%s: %s is outside of the pool; it excludes nothing", field, r)))
		}
	}
	return warnings, v.checkReservations(obj)
}

// settingParser returns what reads a value into v, nil for an unknown key.
func (v *poolVersion) settingParser(key string) func(value string) error {
	switch key {
	case AnnotationExclude:
		return v.parseExclude
	case AnnotationReserve:
		return v.parseReserve
	case AnnotationOrder:
		return func(value string) (err error) {
			v.alloc.Order, err = oneOf(value, allocator.OrderLowest, allocator.OrderSpread)
			return err
		}
	case AnnotationDrain:
		return func(value string) (err error) {
			v.alloc.Drain, err = oneOf(value, false, true)
			return err
		}
	case AnnotationDisplaced:
		return func(value string) (err error) {
			v.alloc.Displaced, err = oneOf(value, allocator.PolicyReassign, allocator.PolicyKeep)
			return err
		}
	case AnnotationQuarantine:
		return v.parseQuarantine
	case AnnotationLimitPerNamespace:
		return v.parseLimit
	default:
		return nil
	}
}

// oneOf returns the choice that is written as text.
func oneOf[T any](text string, choices ...T) (T, error) {
	names := make([]string, len(choices))
	for i, c := range choices {
		if names[i] = fmt.Sprint(c); names[i] == text {
			return c, nil
		}
	}
	var none T
	return none, fmt.Errorf("is not known; use %s", strings.Join(names, " or "))
}

func (v *poolVersion) parseQuarantine(value string) error {
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return fmt.Errorf("is no duration; write one such as 10m or 1h30m: %w", err)
	case d < 0:
		return errors.New("is negative; remove the annotation for no quarantine")
	}
	v.alloc.Quarantine = d
	return nil
}

func (v *poolVersion) parseLimit(value string) error {
	n, err := strconv.Atoi(value)
	switch {
	case err != nil:
		return fmt.Errorf("is no number; write a positive one such as 5: %w", err)
	case n < 1:
		return fmt.Errorf("is not positive; remove the annotation for no limit, use %s to give nothing new", AnnotationDrain)
	}
	v.alloc.LimitPerNamespace = n
	return nil
}

// entries are the parts of a list, without white space.
func entries(value string) []string {
	parts := strings.Split(value, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func (v *poolVersion) parseExclude(value string) error {
	for _, entry := range entries(value) {
		if a, err := netip.ParseAddr(entry); err == nil && a.Zone() == "" {
			v.alloc.Exclude = append(v.alloc.Exclude, allocator.Range{From: a.Unmap(), To: a.Unmap()})
			continue
		}
		text, _ := unmapEntry(entry)
		r, masked, err := allocator.ParseRange(text)
		switch {
		case err != nil:
			return fmt.Errorf("entry %s: %s", quote(entry), parseReason(err))
		case masked:
			return fmt.Errorf("entry %s has host bits; write %s for the whole prefix, or the address alone", quote(entry), r)
		}
		v.alloc.Exclude = append(v.alloc.Exclude, r)
	}
	return nil
}

func (v *poolVersion) parseReserve(value string) error {
	for _, entry := range entries(value) {
		addr, owner, _ := strings.Cut(entry, "=")
		namespace, name, _ := strings.Cut(strings.TrimSpace(owner), "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("entry %s has no Service; write address=namespace/name", quote(entry))
		}
		a, err := netip.ParseAddr(strings.TrimSpace(addr))
		if err != nil {
			return fmt.Errorf("entry %s has no address; write address=namespace/name: %w", quote(entry), err)
		}
		v.alloc.Reserve = append(v.alloc.Reserve, allocator.Reservation{
			Addr: a.Unmap(), Owner: allocator.Owner(namespace + "/" + name),
		})
	}
	return nil
}

// checkReservations lets the allocator judge them: they must be addresses of the pool.
func (v *poolVersion) checkReservations(obj *v1beta1.IPAddressPool) faults {
	if len(v.alloc.Reserve) == 0 || len(v.alloc.Ranges) == 0 {
		return nil
	}
	var bad faults
	for _, err := range allocator.ValidatePools([]allocator.Pool{v.alloc}) {
		bad = append(bad, &FieldError{
			Field: "metadata.annotations[" + AnnotationReserve + "]", Value: obj.Annotations[AnnotationReserve],
			Reason: err.Err.Error() + "; reserve addresses that the pool can give, once for each Service", Err: err.Err,
		})
	}
	return bad
}

// reservedIn returns the reservations inside the ranges, which may be fewer than those of the version.
func (v *poolVersion) reservedIn(ranges []allocator.Range) []allocator.Reservation {
	return slices.DeleteFunc(slices.Clone(v.alloc.Reserve), func(r allocator.Reservation) bool {
		return !slices.ContainsFunc(ranges, func(in allocator.Range) bool { return in.Contains(r.Addr) })
	})
}

func overlap(a, b allocator.Range) bool {
	return allocator.FamilyOf(a.From) == allocator.FamilyOf(b.From) && !a.To.Less(b.From) && !b.To.Less(a.From)
}
