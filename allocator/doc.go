// Package allocator decides which address a service gets. It knows pools of
// IPv4 and IPv6 ranges and owners that hold addresses from them; it knows
// nothing of Kubernetes and does no I/O.
//
//	r, _, err := allocator.ParseRange("192.0.2.0/24")
//	if err != nil { … }
//	a, err := allocator.New(allocator.Config{
//		Pools: []allocator.Pool{{Name: "public", Ranges: []allocator.Range{r}}},
//	})
//	if err != nil { … }
//	got, err := a.Assign(allocator.Request{
//		Owner:    "shop/web",
//		Families: []allocator.Family{allocator.IPv4},
//	})
//	fmt.Println(got.Addrs) // [192.0.2.0]
//
// # Two phases
//
// The allocator keeps nothing on disk: what is held is known from the records
// of its user, such as the status of Services. After a start, Adopt every
// address that is held, in any order, and only then Assign. So no owner can be
// given what another one holds already, and a restart changes nothing.
// Assign is idempotent and may be called for every owner at any time.
//
// # Which address
//
// The same history gives the same addresses. Pools with a Scope that serves the
// request come before open ones, and open ones are used only if none of the
// others can serve it. Among each, Priority decides (lower positive numbers
// first, 0 last) and then the name. Inside a pool it is the lowest free address
// of the first range that has one. These rules, and the one that both addresses
// of an owner come from one pool, are MetalLB's, which leaves ties between
// pools to chance. With OrderSpread it is a free address at a place that the name
// of the owner decides.
//
// A request for two families takes the first pool that offers both. Only if
// there is none and Request.Partial allows it, one of the families will do; the
// other is added by a later Assign, without a change to the first address.
//
// # Sharing
//
// Owners with one SharingKey and one BackendKey can hold an address together as
// long as no two of them use the same port. A request with a SharingKey joins
// an address of its group where it can. That includes an address in a manual
// pool, as the key names the group, but not one in a pool whose scope does not
// serve the request. An owner of two families joins both addresses of a pair or
// neither. A group lasts as long as it has a member, with ports or without.
//
// # Nobody moves because of others
//
// What one owner does changes no address of another. Only a change of pools can
// end a holding: when no single pool contains its addresses any more.
// Pool.Displaced can prevent even that. ReplacePools reports these holders, and those whose pool has a new name.
//
// # Addresses that are not for everyone
//
// A pool can exclude addresses (Exclude), reserve them for owners that need not
// exist yet (Reserve), let them rest after a release (Quarantine), bound what a
// namespace holds (LimitPerNamespace, and Limits for all pools together), and
// close for new holders (Drain). All of these are about new addresses: nobody
// loses one by them, apart from an exclusion, which is an edit of the ranges.
// Adopt records what is held whatever they say. A quarantine is not a record of
// the past that Adopt could restore: a restart ends it.
//
// A pool can also have a Source in place of ranges. Then Obtain does what Assign
// does, and Settle gives back what is over.
//
// # Cost
//
// Free space is kept as intervals in a B-tree. Assign and Release cost O(log n)
// in the number of held addresses, at any fill and size of the pool, a /64
// included; memory is proportional to what is held. SetPools costs O(n log n)
// in the number of holders, and little if only scopes and priorities change.
//
// All methods are safe for concurrent use; there is one mutex and no goroutine.
package allocator
