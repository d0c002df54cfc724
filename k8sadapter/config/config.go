package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/heraldlb/herald/allocator"
)

// Config is the configuration in force. Only [Store.Update] makes one that works; the zero value holds nothing.
type Config struct {
	// Pools in force, sorted by name. No address is in two of them.
	Pools []Pool
	// L2 advertisements in force, sorted by name.
	L2 []L2Advertisement
	// Peers, advertisements to them, and profiles of liveness, in force, each sorted by name.
	Peers       []BGPPeer
	BGP         []BGPAdvertisement
	BFDProfiles []BFDProfile
	// Rejected are the objects whose present version is not in force, sorted by kind, namespace and name.
	Rejected []Rejection
	// Warnings about objects in force, sorted by kind, namespace, name and field.
	Warnings []Warning

	claims claims
}

// AllocatorPools returns the pools as the allocator wants them. It will accept them: what it would refuse has been
// rejected already.
func (c Config) AllocatorPools() []allocator.Pool {
	out := make([]allocator.Pool, len(c.Pools))
	for i, p := range c.Pools {
		out[i] = p.Alloc
	}
	return out
}

// Pool returns the pool of that name.
func (c Config) Pool(name string) (Pool, bool) {
	i, ok := slices.BinarySearchFunc(c.Pools, name, func(p Pool, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return Pool{}, false
	}
	return c.Pools[i], true
}

// PoolOf returns the pool that holds all the addresses. Where none of them is in another pool, and hint names a pool
// that is opaque or keeps displaced Services, it is that one: what it holds or held is not known, so the word of the
// Service (see [PoolHint]) is taken for it. There is no pool for no address, nor for addresses that are not in one pool.
//
// A pool that avoids or excludes addresses holds them nevertheless here: it gives none away, but one that a Service
// has still belongs to it.
func (c Config) PoolOf(addrs []netip.Addr, hint string) (Pool, bool) {
	name, inside := "", 0
	for _, a := range addrs {
		held, ok := c.claims.holder(a.Unmap())
		if !ok {
			continue
		}
		if inside > 0 && name != held.pool {
			return Pool{}, false
		}
		name = held.pool
		inside++
	}
	switch {
	case len(addrs) == 0:
		return Pool{}, false
	case inside == len(addrs):
		return c.Pool(name)
	case inside == 0 || name == hint:
		if p, ok := c.Pool(hint); ok && (p.Alloc.Opaque || p.Alloc.Displaced == allocator.PolicyKeep) {
			return p, true
		}
	}
	return Pool{}, false
}

// L2For returns the advertisements that cover the addresses of the pool for a Service with these labels, sorted by
// name. Advertisements without preferences that ask for the same nodes, interfaces and Services are returned once.
func (c Config) L2For(pool Pool, svcLabels map[string]string) []L2Advertisement {
	var out []L2Advertisement
	for _, a := range c.L2 {
		if !a.MatchesPool(pool) || !a.MatchesService(svcLabels) {
			continue
		}
		if len(a.preferred) == 0 && slices.ContainsFunc(out, func(b L2Advertisement) bool {
			return len(b.preferred) == 0 && b.key == a.key
		}) {
			continue
		}
		out = append(out, a)
	}
	return out
}

func (c *Config) sort() {
	slices.SortFunc(c.Pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.L2, func(a, b L2Advertisement) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Peers, func(a, b BGPPeer) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.BGP, func(a, b BGPAdvertisement) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.BFDProfiles, func(a, b BFDProfile) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(c.Rejected, func(a, b Rejection) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(c.Warnings, func(a, b Warning) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Field, b.Field))
	})
}
