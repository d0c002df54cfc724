package allocator_test

import (
	"fmt"
	"net/netip"

	"github.com/heraldlb/herald/allocator"
)

func ranges(texts ...string) []allocator.Range {
	var list []allocator.Range
	for _, text := range texts {
		r, _, err := allocator.ParseRange(text)
		if err != nil {
			panic(err)
		}
		list = append(list, r)
	}
	return list
}

func ExampleAllocator() {
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{
		{Name: "public", Ranges: ranges("192.0.2.10-192.0.2.11")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, owner := range []allocator.Owner{"shop/web", "shop/api", "shop/mail"} {
		got, err := a.Assign(allocator.Request{Owner: owner, Families: []allocator.Family{allocator.IPv4}})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(got.Owner, got.Pool, got.Addrs)
	}
	usage, _ := a.Usage("public")
	fmt.Printf("%+v\n", usage.V4)
	// Output:
	// shop/web public [192.0.2.10]
	// shop/api public [192.0.2.11]
	// assign shop/mail: no free address: pool "public": no free IPv4 address
	// {Total:2 Used:2 Free:0 Kept:0}
}

func ExampleAllocator_sharing() {
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{
		{Name: "public", Ranges: ranges("192.0.2.0/24"), AvoidBuggyIPs: true},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, server := range []struct {
		owner allocator.Owner
		port  allocator.Port
	}{
		{"dns/udp", allocator.Port{Protocol: "UDP", Number: 53}},
		{"dns/tcp", allocator.Port{Protocol: "TCP", Number: 53}},
		{"dns/other", allocator.Port{Protocol: "TCP", Number: 53}},
	} {
		got, err := a.Assign(allocator.Request{
			Owner:      server.owner,
			Families:   []allocator.Family{allocator.IPv4},
			Ports:      []allocator.Port{server.port},
			SharingKey: "dns",
		})
		fmt.Println(server.owner, got.Addrs, err)
	}
	// Output:
	// dns/udp [192.0.2.1] <nil>
	// dns/tcp [192.0.2.1] <nil>
	// dns/other [192.0.2.2] <nil>
}

func ExampleAllocator_dualStack() {
	v4only := allocator.Pool{Name: "public", Ranges: ranges("192.0.2.0/24")}
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{v4only}})
	if err != nil {
		fmt.Println(err)
		return
	}
	prefer := allocator.Request{
		Owner:    "shop/web",
		Families: []allocator.Family{allocator.IPv4, allocator.IPv6},
		Partial:  true,
	}
	require := prefer
	require.Owner, require.Partial = "shop/api", false

	got, err := a.Assign(prefer)
	fmt.Println(got.Addrs, err)
	_, err = a.Assign(require)
	fmt.Println(err)

	// The pool gains the other family: the first address stays.
	both := v4only
	both.Ranges = ranges("192.0.2.0/24", "2001:db8::/64")
	if _, err := a.SetPools([]allocator.Pool{both}); err != nil {
		fmt.Println(err)
		return
	}
	got, err = a.Assign(prefer)
	fmt.Println(got.Addrs, err)
	// Output:
	// [192.0.2.0] <nil>
	// assign shop/api: no single pool has both families: pool "public": no IPv6 addresses
	// [192.0.2.0 2001:db8::] <nil>
}

// After a restart, what the records say is adopted before anything is given.
func ExampleAllocator_Adopt() {
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{
		{Name: "public", Ranges: ranges("192.0.2.10-192.0.2.12")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v4 := []allocator.Family{allocator.IPv4}
	for _, record := range []struct{ owner, addr string }{
		{"shop/web", "192.0.2.10"},
		{"shop/api", "192.0.2.12"},
		{"shop/old", "192.0.2.10"},
	} {
		addr := ranges(record.addr + "/32")[0].From
		req := allocator.Request{Owner: allocator.Owner(record.owner), Families: v4}
		if _, err := a.Adopt(req, []netip.Addr{addr}); err != nil {
			fmt.Println(err)
		}
	}
	got, err := a.Assign(allocator.Request{Owner: "shop/new", Families: v4})
	fmt.Println(got.Addrs, err)
	// Output:
	// adopt shop/old: 192.0.2.10 is in use by shop/web
	// [192.0.2.11] <nil>
}

func ExampleAllocator_Explain() {
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{
		{Name: "full", Ranges: ranges("192.0.2.1/32"), Priority: 1},
		{Name: "lab", Ranges: ranges("198.51.100.0/24"), Manual: true},
		{Name: "team-a", Ranges: ranges("203.0.113.0/24"), Scope: &allocator.Scope{Namespaces: []string{"team-a"}}},
		{Name: "v6", Ranges: ranges("2001:db8::/64")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := allocator.Request{Owner: "shop/web", Namespace: "shop", Families: []allocator.Family{allocator.IPv4}}
	if _, err := a.Assign(req); err != nil {
		fmt.Println(err)
	}
	req.Owner = "shop/api"
	for _, verdict := range a.Explain(req) {
		fmt.Println(verdict)
	}
	// Output:
	// pool "team-a": serves other namespaces or labels
	// pool "full": no free IPv4 address
	// pool "lab": only for requests that name the pool or an address in it
	// pool "v6": no IPv4 addresses
}
