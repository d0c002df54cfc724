package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// ValidatePools returns the faults for which SetPools would refuse the list,
// none for a good one. The list without the pools that PoolError.Pool names is
// always good: pools are judged in the order of the list, and a pool is blamed
// for overlapping only those earlier ones that are good themselves. It costs
// O(n log n) in the number of ranges.
func ValidatePools(pools []Pool) []*PoolError {
	v := validator{pools: pools, faults: make([][]*PoolError, len(pools))}
	v.judgeAlone()
	v.judgeOverlaps()
	return slices.Concat(v.faults...)
}

type validator struct {
	pools  []Pool
	faults [][]*PoolError // by pool
}

// judgeAlone finds what is wrong with a pool whatever the others are.
func (v *validator) judgeAlone() {
	names := make(map[string]bool, len(v.pools))
	for i := range v.pools {
		p := &v.pools[i]
		blame := func(r Range, err error) {
			v.faults[i] = append(v.faults[i], &PoolError{Pool: p.Name, Range: r, Err: err})
		}
		if p.Name == "" {
			blame(Range{}, ErrPoolName)
		} else if names[p.Name] {
			blame(Range{}, ErrPoolTwice)
		}
		names[p.Name] = true
		if p.Priority < 0 {
			blame(Range{}, fmt.Errorf("%w: %d; use 0 for last, positive numbers before it", ErrPoolPriority, p.Priority))
		}
		if p.Scope != nil && slices.Contains(p.Scope.Services, nil) {
			blame(Range{}, ErrPoolScope)
		}
		for _, err := range p.settingFaults() {
			blame(Range{}, fmt.Errorf("%w: %w", ErrPoolSetting, err))
		}
		if p.Opaque || p.Source != nil {
			continue
		}
		if len(p.Ranges) == 0 {
			blame(Range{}, ErrPoolEmpty)
		}
		for _, r := range p.Ranges {
			if err := r.check(); err != nil {
				blame(r, fmt.Errorf("%w: %w", ErrPoolRange, err))
			}
		}
		for _, r := range p.Exclude {
			if err := r.check(); err != nil {
				blame(r, fmt.Errorf("%w: %w", ErrPoolExclude, err))
			}
		}
		for i := range p.Reserve {
			if err := p.reserveFault(i); err != nil {
				blame(Range{}, fmt.Errorf("%w: %w", ErrPoolReserve, err))
			}
		}
	}
}

// settingFaults judges the fields that are no addresses.
func (p *Pool) settingFaults() []error {
	var faults []error
	if p.Order > OrderSpread {
		faults = append(faults, fmt.Errorf("order %v is unknown; use OrderLowest or OrderSpread", p.Order))
	}
	if p.Displaced > PolicyKeep {
		faults = append(faults, fmt.Errorf("policy %v is unknown; use PolicyReassign or PolicyKeep", p.Displaced))
	}
	if p.Quarantine < 0 {
		faults = append(faults, fmt.Errorf("quarantine %v is negative; use 0 for none", p.Quarantine))
	}
	if p.LimitPerNamespace < 0 {
		faults = append(faults, fmt.Errorf("limit per namespace %d is negative; use 0 for none", p.LimitPerNamespace))
	}
	if p.Source != nil && len(p.Ranges)+len(p.Exclude)+len(p.Reserve) > 0 {
		faults = append(faults, errors.New("a source stands in for ranges, exclusions and reservations; use one or the other"))
	}
	return faults
}

// reserveFault judges the reservation of index i.
func (p *Pool) reserveFault(i int) error {
	r := p.Reserve[i]
	contains := func(in Range) bool { return in.Contains(r.Addr) }
	switch {
	case r.Owner == "":
		return fmt.Errorf("%s is for no owner", r.Addr)
	case slices.Contains(p.Reserve[:i], r):
		return fmt.Errorf("%s for %s is there twice", r.Addr, r.Owner)
	case !slices.ContainsFunc(p.Ranges, contains):
		return fmt.Errorf("%s is not in the pool", r.Addr)
	case slices.ContainsFunc(p.Exclude, contains):
		return fmt.Errorf("%s is excluded from the pool", r.Addr)
	case p.AvoidBuggyIPs && buggy(FamilyOf(r.Addr), number(r.Addr)):
		return fmt.Errorf("%s ends in .0 or .255, which the pool avoids", r.Addr)
	}
	return nil
}

// extent is a range of a pool as numbers.
type extent struct {
	family   Family
	from, to u128
	pool     int // in the list
	r        Range
}

func (a extent) cmp(b extent) int {
	return cmp.Or(cmp.Compare(a.family, b.family), a.from.cmp(b.from), a.to.cmp(b.to), cmp.Compare(a.pool, b.pool))
}

func (a extent) overlaps(b extent) bool {
	return a.family == b.family && !a.to.less(b.from) && !b.to.less(a.from)
}

func (v *validator) judgeOverlaps() {
	// Only ranges that overlap something need to be judged, in a good list none.
	suspects := make([][]extent, len(v.pools))
	for _, cluster := range v.clusters() {
		for _, e := range cluster {
			suspects[e.pool] = append(suspects[e.pool], e)
		}
	}
	var good []extent // sorted and disjoint
	for i, list := range suspects {
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, extent.cmp)
		v.judge(i, list, good)
		if len(v.faults[i]) > 0 {
			continue
		}
		for _, e := range list {
			at, _ := slices.BinarySearchFunc(good, e, extent.cmp)
			good = slices.Insert(good, at, e)
		}
	}
}

// judge compares the sorted ranges of pool i with each other and with the
// ranges of good pools before it.
func (v *validator) judge(i int, list, good []extent) {
	blame := func(e, other extent) {
		v.faults[i] = append(v.faults[i], &PoolError{
			Pool: v.pools[i].Name, Range: e.r,
			Other: v.pools[other.pool].Name, OtherRange: other.r, Err: ErrPoolOverlap,
		})
	}
	widest := list[0]
	for k, e := range list {
		if k > 0 && widest.overlaps(e) {
			blame(e, widest)
		}
		if widest.family != e.family || widest.to.less(e.to) {
			widest = e
		}
		at := sort.Search(len(good), func(j int) bool {
			return good[j].family > e.family || good[j].family == e.family && !good[j].to.less(e.from)
		})
		if at < len(good) && good[at].overlaps(e) {
			blame(e, good[at])
		}
	}
}

// clusters returns the groups of two and more ranges that are connected by
// overlaps, of pools that are good alone.
func (v *validator) clusters() [][]extent {
	var all []extent
	for i := range v.pools {
		if len(v.faults[i]) > 0 || v.pools[i].Opaque || v.pools[i].Source != nil {
			continue
		}
		for _, r := range v.pools[i].Ranges {
			all = append(all, extent{FamilyOf(r.From), number(r.From), number(r.To), i, r})
		}
	}
	slices.SortFunc(all, extent.cmp)
	var found [][]extent
	for start := 0; start < len(all); {
		reach := all[start]
		end := start + 1
		for end < len(all) && reach.overlaps(all[end]) {
			reach.to = maxOf(reach.to, all[end].to)
			end++
		}
		if end-start > 1 {
			found = append(found, all[start:end])
		}
		start = end
	}
	return found
}

func maxOf(a, b u128) u128 {
	if a.less(b) {
		return b
	}
	return a
}

// joinFaults turns the faults of a list into one error, nil for none.
func joinFaults(faults []*PoolError) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}
