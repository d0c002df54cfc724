// Package config turns Kubernetes objects into the plain values that the libraries of Herald work with, and decides
// which objects are good. All validation is here: the daemons, an admission webhook and a dry run see the same
// verdicts.
//
// # Configuration objects
//
// A [Store] takes all the pools, advertisements and namespaces at once and returns a [Config]. It never fails as a
// whole: each object is judged alone, what is wrong with it becomes a [Rejection], and the others go on working.
// Rejected is not deleted: an object that was good before keeps its last good version in force until it is good
// again or gone.
//
//	var store config.Store // remembers the last good version of every object
//	cfg := store.Update(config.Objects{Pools: pools, L2Advertisements: ads, Namespaces: namespaces})
//	displaced, err := alloc.SetPools(cfg.AllocatorPools())
//	for _, r := range cfg.Rejected {
//		log.Warn("rejected", "error", r) // names the object, the field, the value and the way out
//	}
//
// The result does not depend on the order of the lists. It does depend on what was good before; a process that has
// just started knows nothing of that. A pool whose only known version is a bad one is then in force as an opaque
// pool: the addresses that Services hold under its name stay with them and go on being announced, and nothing new
// is given from it. An advertisement whose only known version is a bad one is absent, because nobody can know what
// it would announce; the rejection says so.
//
// # Overlapping pools
//
// No address is ever in two pools of a Config. The versions in force are chosen in order of age: creationTimestamp,
// then name. Each pool gets its current version if that is good and overlaps nothing chosen so far. Otherwise it is
// rejected, with both pools named, and gets its last good version less the addresses that older pools have taken
// by now. An older pool whose edit was rejected holds its last good version against younger pools, too, so that a
// slip of the pen does not give its addresses away. An overlap inside one pool rejects that pool.
//
// # Annotations of pools
//
// What Herald's pools can do beyond MetalLB's is said with annotations under herald.lb/, see [AnnotationExclude] and the
// others there. They are part of the version of the pool: a bad one rejects it, an unknown one is a [Warning].
//
// # Routers
//
// BGPPeers become [bgp.Peer] values for each node, see [Config.PeersFor]. A peer whose Secret or BFDProfile is not to be had
// is held back: rejected, and without a session, since one without its password or its liveness is not what was asked for.
// A BGPAdvertisement makes a route of an address with [BGPAdvertisement.Route]. It may go together with some pools only: its
// prefixes must not reach beyond a pool, and two advertisements must not give different preferences to one route of one
// node and peer. The older one stays then; the younger is rejected and leaves that pool out. Communities give names to
// communities; the older object has the name.
//
// # Services
//
// [ServiceRequest] reads what a Service asks for, from its spec and from its annotations under both prefixes
// (metallb.io, and the older metallb.universe.tf). Its errors are of type [*RequestError] and know which Event they
// deserve, and whether a Service that holds an address keeps it. [StatusAddrs] reads what a Service holds, and
// [Ours] says whether it is this installation that serves it. [CanServe] and [ServingNodes] are the rules for
// endpoints, [NetworkUnavailable] and [ExcludedFromLB] those for nodes.
//
// # Concurrency
//
// A Store belongs to one goroutine. A Config does not change once it is returned and may be shared. No function
// changes the objects that it is given. Nothing here does I/O, logs or keeps package-level state.
package config
