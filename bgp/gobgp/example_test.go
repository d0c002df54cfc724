package gobgp_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/gobgp"
)

// An engine is told everything, whenever something has changed. What cannot be
// served is named, and everything else is served.
func ExampleEngine() {
	engine, err := gobgp.New(gobgp.Config{RouterID: bgp.RouterID("node-1", netip.MustParseAddr("192.0.2.11"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = engine.SetPeers([]bgp.Peer{
		{Name: "tor-a", LocalASN: 64512, PeerASN: 64513, Addr: netip.MustParseAddr("192.0.2.1"), PasswordFile: "/nonexistent/password"},
		{Name: "tor-b", LocalASN: 64512, PeerASN: 64513, Addr: netip.MustParseAddr("192.0.2.2"), HoldTime: new(2 * time.Second)},
	})
	fmt.Println(err)
	fmt.Println(engine.SetRoutes([]bgp.Route{{Prefix: netip.MustParsePrefix("203.0.113.7/32")}}))

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	for engine.Sessions()[0].State != bgp.Held {
		<-engine.Changed()
	}
	fmt.Println(engine.Sessions()[0].Peer, engine.Sessions()[0].LastError)
	cancel()
	fmt.Println(<-done, errors.Is(engine.SetRoutes(nil), bgp.ErrStopped))
	// Output:
	// bgp: peer "tor-b": HoldTime 2s: must be a hold time of 0 or of 3 to 65535 seconds
	// <nil>
	// tor-a password file: open /nonexistent/password: no such file or directory
	// <nil> true
}
