package bfd_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/heraldlb/herald/bgp/bfd"
	"github.com/heraldlb/herald/bgp/bfd/bfdtest"
)

// Two systems watch each other over a network in memory, which is then cut.
// Without Transport a monitor uses the UDP ports of the host.
func ExampleMonitor() {
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	network := bfdtest.NewNetwork()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	start := func(self, remote netip.Addr) *bfd.Monitor {
		m, err := bfd.New(bfd.Config{Transport: network.Host(self)})
		if err != nil {
			panic(err)
		}
		err = m.SetPeers([]bfd.Peer{{Addr: remote, Transmit: 20 * time.Millisecond, Receive: 20 * time.Millisecond}})
		if err != nil {
			panic(err)
		}
		go func() { done <- m.Run(ctx) }()
		return m
	}
	m := start(one, two)
	start(two, one)

	wait := func(state bfd.State) bfd.Status {
		for range m.Changed() {
			if s := m.Sessions()[0]; s.State == state {
				return s
			}
		}
		panic("not reached")
	}
	s := wait(bfd.Up)
	fmt.Println(s.Peer, "is", s.State)
	network.SetLink(bfdtest.Cut)
	s = wait(bfd.Down)
	fmt.Println(s.Peer, "is", s.State, "because:", s.Diag)

	cancel()
	fmt.Println(<-done, <-done)
	// Output:
	// 192.0.2.2 is up
	// 192.0.2.2 is down because: control detection time expired
	// <nil> <nil>
}

// Every peer at fault is named, and nothing is changed.
func ExampleMonitor_SetPeers() {
	m, _ := bfd.New(bfd.Config{})
	fmt.Println(m.SetPeers([]bfd.Peer{
		{Addr: netip.MustParseAddr("192.0.2.1")},
		{Addr: netip.MustParseAddr("192.0.2.2"), Receive: 5 * time.Millisecond},
		{Addr: netip.MustParseAddr("fe80::1")},
	}))
	fmt.Println(len(m.Sessions()))
	// Output:
	// bfd: bad peer 192.0.2.2: Receive is 5ms, must be whole microseconds from 10ms to 1m0s
	// bfd: bad peer fe80::1: a link-local address needs Interface
	// 0
}
