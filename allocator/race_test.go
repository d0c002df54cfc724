package allocator

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Everything at once, and in the end the books balance.
func TestConcurrentUse(t *testing.T) {
	src := &shelf{free: addrs("192.0.2.1", "192.0.2.2", "192.0.2.3")}
	pools := []Pool{
		{Name: "p", Ranges: mustRanges(t, "10.44.0.0/26", "fd44::/122"), Quarantine: time.Microsecond, LimitPerNamespace: 50},
		{Name: "q", Ranges: mustRanges(t, "10.45.0.0/26"), Order: OrderSpread, Displaced: PolicyKeep, Reserve: reserve("10.45.0.9", "o1")},
		{Name: "s", Source: src, Manual: true},
	}
	a := newTest(t, pools...)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 400 {
				owner := Owner(fmt.Sprint("o", rnd.IntN(60)))
				req := want(owner, tcp(uint16(rnd.IntN(9))))
				if rnd.IntN(2) == 0 {
					prefer(&req)
				}
				if rnd.IntN(2) == 0 {
					key("k")(&req)
				}
				switch rnd.IntN(15) {
				case 0:
					a.Release(owner)
				case 1:
					for o, as := range a.All() {
						assert.Equal(t, o, as.Owner)
					}
				case 2:
					_, err := a.ReplacePools(pools[:1+rnd.IntN(3)])
					assert.NoError(t, err)
				case 3:
					a.Explain(req)
					a.Usage("p")
				case 4:
					if as, ok := a.Get(owner); ok {
						_, err := a.Adopt(req, as.Addrs)
						_ = err // may well be taken by now
					}
				case 5:
					from("s")(&req)
					_, err := a.Obtain(t.Context(), req)
					_ = err // the shelf is small
				case 6:
					assert.NoError(t, a.Settle(t.Context()))
				case 7:
					a.NextFree()
					assert.NoError(t, a.SetLimits(Limits{PerNamespace: rnd.IntN(2) * 100}))
				default:
					if as, err := a.Assign(req); err == nil {
						assert.Equal(t, owner, as.Owner)
					}
				}
			}
		})
	}
	wg.Wait()
	for o := range a.All() {
		a.Release(o)
	}
	require.NoError(t, a.Settle(t.Context()))
	assert.Len(t, src.free, 3, "everything is given back")
	for len(a.queue) > 0 {
		a.NextFree() // until the last quarantine is over
	}
	pools[1].Reserve = nil
	for name, total := range map[string][2]int64{"p": {64, 64}, "q": {64, 0}} {
		_, err := a.SetPools(pools)
		require.NoError(t, err)
		usage, _ := a.Usage(name)
		assert.Equal(t, Usage{Count{total[0], 0, total[0], 0}, Count{total[1], 0, total[1], 0}}, usage)
	}
}
