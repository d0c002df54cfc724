package config_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

func manyPools(n int) config.Objects {
	var in config.Objects
	for i := range n {
		p := pool(fmt.Sprintf("pool-%05d", i), fmt.Sprintf("10.%d.%d.0/28", i/256, i%256), fmt.Sprintf("2001:db8:%x::/64", i))
		in.Pools = append(in.Pools, p)
	}
	in.L2Advertisements = []*v1beta1.L2Advertisement{l2("all", v1beta1.L2AdvertisementSpec{})}
	return in
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{10, 100, 2000} {
		b.Run(fmt.Sprintf("pools=%d", n), func(b *testing.B) {
			in := manyPools(n)
			var store config.Store
			for b.Loop() {
				store.Update(in)
			}
		})
	}
}

func BenchmarkPoolOf(b *testing.B) {
	for _, n := range []int{10, 100, 2000} {
		b.Run(fmt.Sprintf("pools=%d", n), func(b *testing.B) {
			var store config.Store
			cfg := store.Update(manyPools(n))
			addrs := []netip.Addr{netip.MustParseAddr("10.0.7.3"), netip.MustParseAddr("2001:db8:7::1")}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := cfg.PoolOf(addrs, ""); !ok {
					b.Fatal("no pool")
				}
			}
		})
	}
}
