// Package bgptest helps to test programs that speak BGP.
//
// A [Peer] is a small BGP speaker in this process: it accepts sessions, keeps what
// it is told, can be made old, rude, slow or gone, and shows every message as it
// came over the wire. It is written against the RFCs, not against an engine.
//
//	router := bgptest.NewPeer(t, bgptest.PeerConfig{ASN: 64513})
//	speaker.SetPeers([]bgp.Peer{router.Peer("router", 64512)})
//	router.WaitRoute(t, netip.MustParsePrefix("203.0.113.7/32"))
//
// [Run] is the conformance suite: what package bgp promises of every engine, as
// tests against such peers. An engine passes it with
//
//	func TestConformance(t *testing.T) {
//		bgptest.Run(t, bgptest.Harness{New: func(t *testing.T) bgp.Engine { ... }})
//	}
//
// Everything here is on loopback addresses, unless the harness says otherwise.
package bgptest
