package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// filled returns an allocator with one pool in which n addresses are held,
// scattered with holes from a fixed seed: each second to ninth one.
func filled(tb testing.TB, cidr string, n int) (*Allocator, []Owner) {
	tb.Helper()
	r, _, err := ParseRange(cidr)
	require.NoError(tb, err)
	a, err := New(Config{Pools: []Pool{{Name: "pool", Ranges: []Range{r}}}})
	require.NoError(tb, err)
	f := FamilyOf(r.From)
	size := number(r.To).sub(number(r.From)).saturate()
	rnd := rand.New(rand.NewPCG(1, 2))
	step := max(1, min(8, int(size)/n))
	owners := make([]Owner, n)
	offsets := make([]uint64, n)
	for i := range offsets {
		offsets[i] = uint64(i*step + rnd.IntN(step))
	}
	rnd.Shuffle(n, func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
	for i, offset := range offsets {
		owners[i] = Owner(fmt.Sprintf("namespace-%d/service-%d", i%97, i))
		addr := address(f, number(r.From).add(u128{lo: offset}))
		_, err := a.Adopt(Request{Owner: owners[i]}, []netip.Addr{addr})
		require.NoError(tb, err)
	}
	runtime.GC() // so that it does not run while the clock does
	return a, owners
}

func BenchmarkAllocate(b *testing.B) {
	for _, pool := range []struct {
		name, cidr string
		size       int
	}{
		{"v4-16", "10.1.0.0/16", 1 << 16},
		{"v4-8", "10.0.0.0/8", 1 << 24},
		{"v6-64", "2001:db8::/64", 1 << 62},
	} {
		b.Run(pool.name, func(b *testing.B) {
			for _, held := range []int{1_000, 60_000, 1_000_000} {
				if held >= pool.size {
					continue
				}
				b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
					a, _ := filled(b, pool.cidr, held)
					req := Request{Owner: "new/service", Families: []Family{IPv4}}
					if pool.name == "v6-64" {
						req.Families[0] = IPv6
					}
					b.ReportAllocs()
					for b.Loop() {
						if _, err := a.Assign(req); err != nil {
							b.Fatal(err)
						}
						a.Release(req.Owner)
					}
				})
			}
		})
	}
}

// BenchmarkAllocatePools has the free address in the last of many pools.
func BenchmarkAllocatePools(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("pools=%d", n), func(b *testing.B) {
			a := newTest(b, manyPools(n, 31)...)
			for i := range (n-1)*2 + 1 {
				mustAssign(b, a, Request{Owner: Owner(fmt.Sprint("o", i)), Families: []Family{IPv4}})
			}
			req := Request{Owner: "new/service", Families: []Family{IPv4}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Assign(req); err != nil {
					b.Fatal(err)
				}
				a.Release(req.Owner)
			}
		})
	}
}

// BenchmarkChurn releases a random holder of a /16 at 90 % fill and gives it an
// address again.
func BenchmarkChurn(b *testing.B) {
	b.Run("fill=90", func(b *testing.B) {
		a, owners := filled(b, "10.1.0.0/16", 65536*9/10)
		rnd := rand.New(rand.NewPCG(3, 4))
		req := Request{Families: []Family{IPv4}}
		b.ReportAllocs()
		for b.Loop() {
			req.Owner = owners[rnd.IntN(len(owners))]
			a.Release(req.Owner)
			if _, err := a.Assign(req); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSetPools grows and shrinks a pool above its holders.
func BenchmarkSetPools(b *testing.B) {
	b.Run("holders=100000", func(b *testing.B) {
		a, _ := filled(b, "10.0.0.0/8", 100_000)
		edits := [][]Pool{
			{{Name: "pool", Ranges: mustRanges(b, "10.0.0.0/9")}},
			{{Name: "renamed", Ranges: mustRanges(b, "10.0.0.0/8")}},
		}
		i := 0
		for b.Loop() {
			displaced, err := a.SetPools(edits[i%2])
			if err != nil || len(displaced) > 0 {
				b.Fatal(err, len(displaced))
			}
			i++
		}
	})
}

// manyPools returns n disjoint IPv4 pools of the given prefix length, in a
// shuffled order of addresses.
func manyPools(n, bits int) []Pool {
	rnd := rand.New(rand.NewPCG(5, 6))
	pools := make([]Pool, n)
	for i, at := range rnd.Perm(n) {
		from := u128{lo: 10<<24 + uint64(at)<<(32-bits)}
		last := from.add(u128{lo: 1<<(32-bits) - 1})
		pools[i] = Pool{Name: fmt.Sprintf("pool-%04d", i), Ranges: []Range{{address(IPv4, from), address(IPv4, last)}}}
	}
	return pools
}

func BenchmarkValidatePools(b *testing.B) {
	b.Run("pools=2000", func(b *testing.B) {
		pools := manyPools(2000, 24)
		b.ReportAllocs()
		for b.Loop() {
			if faults := ValidatePools(pools); len(faults) > 0 {
				b.Fatal(faults)
			}
		}
	})
}

// BenchmarkFull asks for an address of a full /16.
func BenchmarkFull(b *testing.B) {
	a, _ := filled(b, "10.1.0.0/16", 65536)
	req := Request{Owner: "new/service", Families: []Family{IPv4}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Assign(req); err == nil {
			b.Fatal("not full")
		}
	}
}

// BenchmarkMemory reports the heap that a held address keeps, its owner's name
// included.
func BenchmarkMemory(b *testing.B) {
	for _, held := range []int{60_000, 1_000_000} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			var perHeld float64
			for b.Loop() {
				before := heapInUse()
				a, _ := filled(b, "10.0.0.0/8", held)
				perHeld = float64(heapInUse()-before) / float64(held)
				runtime.KeepAlive(a)
			}
			b.ReportMetric(perHeld, "bytes/held")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
