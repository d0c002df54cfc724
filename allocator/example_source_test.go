package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/heraldlb/herald/allocator"
)

// inventory is the smallest IPAM: a list of addresses and who has them. One
// behind a network does the same with requests, and may take its time.
type inventory struct {
	mu    sync.Mutex
	addrs []netip.Addr
	users map[netip.Addr]allocator.Owner
}

// Acquire returns what the owner has already, so asking twice takes nothing.
func (inv *inventory) Acquire(_ context.Context, ask allocator.Ask) ([]netip.Addr, error) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	var got []netip.Addr
	for _, f := range ask.Families {
		addr, ok := inv.find(f, ask.Owner)
		if !ok {
			addr, ok = inv.find(f, "")
		}
		if ok {
			got = append(got, addr)
		}
	}
	if len(got) == 0 || len(got) < len(ask.Families) && !ask.Partial {
		return nil, errors.New("the inventory has no more")
	}
	for _, addr := range got {
		inv.users[addr] = ask.Owner
	}
	return got, nil
}

func (inv *inventory) find(f allocator.Family, user allocator.Owner) (netip.Addr, bool) {
	for _, addr := range inv.addrs {
		if allocator.FamilyOf(addr) == f && inv.users[addr] == user {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

func (inv *inventory) Release(_ context.Context, owner allocator.Owner, addrs []netip.Addr) error {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for _, addr := range addrs {
		if inv.users[addr] == owner {
			delete(inv.users, addr)
		}
	}
	return nil
}

func ExampleSource() {
	ctx := context.Background()
	inv := &inventory{
		addrs: []netip.Addr{netip.MustParseAddr("203.0.113.80")},
		users: map[netip.Addr]allocator.Owner{},
	}
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{
		{Name: "data-centre", Source: inv, Priority: 1, Scope: &allocator.Scope{AnyNamespace: true}},
		{Name: "spare", Ranges: ranges("192.0.2.0/24")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v4 := []allocator.Family{allocator.IPv4}
	for _, owner := range []allocator.Owner{"shop/web", "shop/api"} {
		got, err := a.Obtain(ctx, allocator.Request{Owner: owner, Families: v4})
		fmt.Println(owner, got.Pool, got.Addrs, err)
	}
	a.Release("shop/web")
	if err := a.Settle(ctx); err != nil { // the inventory hears of it
		fmt.Println(err)
	}
	got, err := a.Obtain(ctx, allocator.Request{Owner: "shop/mail", Families: v4})
	fmt.Println("shop/mail", got.Pool, got.Addrs, err)
	// Output:
	// shop/web data-centre [203.0.113.80] <nil>
	// shop/api spare [192.0.2.0] <nil>
	// shop/mail data-centre [203.0.113.80] <nil>
}

// An address is kept for a service that does not exist yet; others get none of
// it, and it comes back to its owner.
func ExampleReservation() {
	a, err := allocator.New(allocator.Config{Pools: []allocator.Pool{{
		Name:    "public",
		Ranges:  ranges("192.0.2.0/29"),
		Exclude: ranges("192.0.2.0/32"), // the router
		Reserve: []allocator.Reservation{{Addr: netip.MustParseAddr("192.0.2.1"), Owner: "mail/smtp"}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v4 := []allocator.Family{allocator.IPv4}
	for _, req := range []allocator.Request{
		{Owner: "shop/web", Families: v4},
		{Owner: "shop/api", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		{Owner: "mail/smtp", Families: v4},
	} {
		got, err := a.Assign(req)
		fmt.Println(req.Owner, got.Addrs, err)
	}
	// Output:
	// shop/web [192.0.2.2] <nil>
	// shop/api [] assign shop/api: 192.0.2.1 is reserved for mail/smtp
	// mail/smtp [192.0.2.1] <nil>
}
