// Command operator shows how another controller embeds package allocator: no Kubernetes type is involved, and the rules
// of pools, sharing and restarts are the ones that Herald's own controller keeps.
package main

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/heraldlb/herald/allocator"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run() error {
	office, _, err := allocator.ParseRange("192.0.2.10-192.0.2.12")
	if err != nil {
		return err
	}
	alloc, err := allocator.New(allocator.Config{
		Pools: []allocator.Pool{{Name: "office", Ranges: []allocator.Range{office}}},
	})
	if err != nil {
		return err
	}

	// After a restart: first adopt what your records say, all of it, in any order …
	v4 := []allocator.Family{allocator.IPv4}
	if _, err := alloc.Adopt(allocator.Request{Owner: "db", Families: v4}, []netip.Addr{netip.MustParseAddr("192.0.2.11")}); err != nil {
		return err
	}
	// … then give addresses to those that wait. Nobody's address changes because of them.
	for _, owner := range []allocator.Owner{"web", "db", "mail", "chat"} {
		got, err := alloc.Assign(allocator.Request{Owner: owner, Families: v4})
		if err != nil {
			fmt.Println("waits:", err)
			continue
		}
		fmt.Printf("%s has %s from pool %s\n", owner, got.Addrs[0], got.Pool)
	}
	return nil
}
