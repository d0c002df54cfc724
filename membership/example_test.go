package membership_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/heraldlb/herald/membership"
)

// Two members on loopback addresses, with a shared secret.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	run := func(name, bind string, seeds ...netip.AddrPort) (*membership.Cluster, <-chan error) {
		c, err := membership.New(membership.Config{
			Name:  name,
			Bind:  netip.MustParseAddrPort(bind),
			Keys:  [][]byte{membership.DeriveKey([]byte("secret"))},
			Seeds: membership.Addresses(seeds...),
		})
		if err != nil {
			panic(err)
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		<-c.Ready()
		return c, done
	}
	a, doneA := run("kw-01", "127.0.0.1:0") // a free port; real nodes use 7946
	_, doneB := run("kw-02", "127.0.0.1:0", a.LocalAddr())

	for len(a.Members()) < 2 {
		<-a.Changed()
	}
	for _, m := range a.Members() {
		fmt.Println(m.Name, m.Addr, m.Eligible)
	}

	cancel() // both leave
	fmt.Println(<-doneA, <-doneB)
	// Output:
	// kw-01 127.0.0.1 true
	// kw-02 127.0.0.1 true
	// <nil> <nil>
}

// A list that somebody else keeps.
func ExampleStatic() {
	nodes := membership.NewStatic([]membership.Member{
		{Name: "kw-02"},
		membership.Member{Name: "kw-01"}.WithLinks([]string{"eth0"}),
	})
	for _, m := range nodes.Members() {
		fmt.Println(m.Name, "eth0:", m.HasLink("eth0"), "eth1:", m.HasLink("eth1"))
	}
	nodes.Set([]membership.Member{{Name: "kw-02"}})
	<-nodes.Changed()
	fmt.Println(len(nodes.Members()), "left")
	// Output:
	// kw-01 eth0: true eth1: false
	// kw-02 eth0: true eth1: true
	// 1 left
}

func ExampleParseProfile() {
	p, err := membership.ParseProfile(membership.WAN(), []byte(`{"ProbeInterval": "2s"}`))
	fmt.Println(p.ProbeInterval, p.ProbeTimeout, err)

	_, err = membership.ParseProfile(membership.LAN(), []byte(`{"Interval": "2s"}`))
	fmt.Println(err)
	// Output:
	// 2s 3s <nil>
	// membership: profile: unknown key "Interval"
}
