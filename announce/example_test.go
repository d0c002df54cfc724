package announce_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

// An address is announced at once when it is set. This example uses a host in
// memory; without Open the announcer works on the links of the machine.
func ExampleAnnouncer() {
	host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
	a, err := announce.New(announce.Config{Open: host.Open, Repeat: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()

	<-a.LinksChanged()
	fmt.Println("links:", a.Links()[0].Name, a.Links()[0].HardwareAddr)
	err = a.SetAddrs([]announce.Advertisement{
		{Addr: netip.MustParseAddr("192.0.2.10"), Owner: "default/web"},
	})
	fmt.Println("set:", err)
	// A gratuitous request and a gratuitous reply are on their way.
	for sent := 0; sent < 2; time.Sleep(time.Millisecond) {
		for _, f := range host.Sent() {
			fmt.Printf("%s %v to %x\n", f.Link, f.Protocol, f.Data[:6])
			sent++
		}
	}
	cancel()
	fmt.Println("stopped:", <-done)
	// Output:
	// links: eth0 02:00:00:00:00:01
	// set: <nil>
	// eth0 ARP to ffffffffffff
	// eth0 ARP to ffffffffffff
	// stopped: <nil>
}

// The whole set is given each time; several owners may share an address.
func ExampleAnnouncer_SetAddrs() {
	a, _ := announce.New(announce.Config{})
	shared := netip.MustParseAddr("192.0.2.10")
	_ = a.SetAddrs([]announce.Advertisement{
		{Addr: shared, Owner: "default/web", Links: []string{"eth0"}},
		{Addr: shared, Owner: "default/mail", Links: []string{"eth1"}},
	})
	fmt.Println(a.Stats().Addresses[0].Owners, a.Stats().Addresses[0].Links)
	_ = a.SetAddrs([]announce.Advertisement{
		{Addr: shared, Owner: "default/mail", Links: []string{"eth1"}},
	})
	fmt.Println(a.Stats().Addresses[0].Owners, a.Stats().Addresses[0].Links)
	fmt.Println(a.SetAddrs([]announce.Advertisement{{Addr: netip.MustParseAddr("ff02::1"), Owner: "default/bad"}}))
	// Output:
	// [default/mail default/web] [eth0 eth1]
	// [default/mail] [eth1]
	// announce: bad address: ff02::1 of owner "default/bad" is not a unicast address
}
