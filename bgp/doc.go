// Package bgp holds the types of a BGP speaker that announces routes and learns
// none, and the small interface that an engine implements. It depends on the
// standard library alone.
//
// # Use
//
// An engine such as package bgp/gobgp is told the whole desired state, as often
// as one likes; it finds out what changed:
//
//	speaker, err := gobgp.New(gobgp.Config{RouterID: netip.MustParseAddr("192.0.2.1")})
//	if err != nil {
//		return err
//	}
//	go speaker.Run(ctx) // join it before you leave
//	err = speaker.SetPeers([]bgp.Peer{
//		{Name: "tor", LocalASN: 64512, PeerASN: 64513, Addr: netip.MustParseAddr("192.0.2.254")},
//	})
//	err = speaker.SetRoutes([]bgp.Route{
//		{Prefix: netip.MustParsePrefix("203.0.113.7/32"), Communities: []bgp.Community{64512<<16 | 7}},
//	})
//
// # What an engine promises
//
// A change of routes never touches a session; a change of one peer resets at
// most the session of that peer, once; equal input does nothing. No method but
// Run waits for the network. One slow or dead peer delays no other. Nothing is
// learned from peers. Package bgp/bgptest proves all that of an engine.
//
// An engine ends in one of two ways. When the context of Run is cancelled it
// takes back everything: each session is closed with a Cease (RFC 4271 section
// 6.7), upon which the peer drops the routes. After [Keeper.Keep], Run returns
// and leaves the sessions to the end of the process, whose closed connections
// make the peers keep the routes for the restart time, where graceful restart
// was agreed (RFC 4724): that is how a daemon is upgraded without an outage.
//
// # Routes
//
// A [Route] names a prefix, its attributes, and the peers that get it. Several
// routes for one prefix are merged for each peer, see [Merge], so that two
// services below one aggregate do not fight. [Table] keeps the routes of many
// owners, counts who still needs which prefix, and returns what changed, to be
// handed to [Updater.UpdateRoutes].
//
// # Validation
//
// [Peer.Validate], [Route.Validate] and [ValidatePeers] find everything that no
// engine can do; an engine may refuse more, with the same typed errors, which
// name the peer or prefix, the field, the value and the reason.
//
// # Source
//
// RFC 4271 (BGP-4), 4760 (IPv6), 6793 (four octet AS numbers), 4724 (graceful
// restart), 8950 (IPv4 with an IPv6 next hop), 1997 and 8092 (communities), 2385
// (TCP MD5), 6286 (router IDs), 5882 section 4.3 (liveness and graceful restart).
package bgp
