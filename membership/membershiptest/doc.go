// Package membershiptest has a network in memory for clusters of package
// membership: nothing leaves the process, hosts can be killed, cut off from
// each other, unplugged and slowed down, and everything runs in virtual time inside a
// bubble of testing/synctest.
//
//	synctest.Test(t, func(t *testing.T) {
//		lan := membershiptest.NewNetwork()
//		addr := netip.MustParseAddrPort("192.0.2.1:7946")
//		c, err := membership.New(membership.Config{
//			Name: "a", Bind: addr, Transport: lan.Host(addr.Addr()),
//		})
//		...
//		lan.Partition([]netip.Addr{a, b}, []netip.Addr{c})
//		time.Sleep(30 * time.Second) // virtual
//		lan.Heal()
//	})
//
// It behaves like a LAN where that matters to gossip: packets are lost without
// notice, a packet for a slow reader is dropped, connecting to a host that does
// not answer lasts until the context ends, and to a port that nobody listens on
// fails at once. Connections across a new cut are reset.
//
// A Network belongs to the bubble in which it was made. All methods may be
// called concurrently.
package membershiptest
