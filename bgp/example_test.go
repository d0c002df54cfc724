package bgp_test

import (
	"fmt"
	"net/netip"

	"github.com/heraldlb/herald/bgp"
)

// Two services below one aggregate: it is announced as long as one of them is there.
func ExampleTable() {
	var table bgp.Table
	announce := func(service, address string, community bgp.Community) {
		network, err := bgp.Aggregate(netip.MustParseAddr(address), 24)
		if err != nil {
			fmt.Println(err)
			return
		}
		changes, err := table.Set(bgp.Owner(service), []bgp.Route{{Prefix: network, Communities: []bgp.Community{community}}})
		fmt.Println(service, len(changes), "changes", err)
	}
	announce("default/web", "203.0.113.1", 64512<<16|1)
	announce("default/dns", "203.0.113.2", 64512<<16|2)
	fmt.Println(table.Routes()[0].Communities, table.Owners(netip.MustParsePrefix("203.0.113.0/24")))

	fmt.Println(len(table.Delete("default/web")[0].Routes), "route left") // other communities
	for _, c := range table.Delete("default/dns") {
		fmt.Println("withdraw", c.Prefix, len(c.Routes) == 0)
	}
	// Output:
	// default/web 1 changes <nil>
	// default/dns 1 changes <nil>
	// [64512:1 64512:2] [default/dns default/web]
	// 1 route left
	// withdraw 203.0.113.0/24 true
}

// A validator says which peer, which field, and how to get out of it.
func ExampleValidatePeers() {
	_, faults := bgp.ValidatePeers([]bgp.Peer{
		{Name: "tor-a", LocalASN: 64512, PeerASN: 64513, Addr: netip.MustParseAddr("192.0.2.1")},
		{Name: "tor-b", LocalASN: 64512, PeerASN: 64512, EBGPMultihop: true, Addr: netip.MustParseAddr("192.0.2.1")},
		{Name: "tor-c", LocalASN: 64512, PeerASN: 64513, Addr: netip.MustParseAddr("192.0.2.1")},
	})
	for _, f := range faults {
		fmt.Println(f)
	}
	// Output:
	// bgp: peer "tor-b": EBGPMultihop: is for peers of another AS, and both sides are 64512
	// bgp: peer "tor-c": Addr 192.0.2.1:179: is the endpoint of peer "tor-a" too; remove one, or give them different source addresses
}

// A node without an IPv4 address gets an identifier from its name.
func ExampleRouterID() {
	fmt.Println(bgp.RouterID("node-1", netip.MustParseAddr("192.0.2.11")))
	fmt.Println(bgp.RouterID("node-1", netip.MustParseAddr("2001:db8::11")))
	// Output:
	// 192.0.2.11
	// 189.187.2.74
}
