package allocator

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Everything at once, and in the end the books balance.
func TestConcurrentUse(t *testing.T) {
	pools := []Pool{
		{Name: "p", Ranges: mustRanges(t, "10.44.0.0/26", "fd44::/122")},
		{Name: "q", Ranges: mustRanges(t, "10.45.0.0/26")},
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
				switch rnd.IntN(12) {
				case 0:
					a.Release(owner)
				case 1:
					for o, as := range a.All() {
						assert.Equal(t, o, as.Owner)
					}
				case 2:
					_, err := a.ReplacePools(pools[:1+rnd.IntN(2)])
					assert.NoError(t, err)
				case 3:
					a.Explain(req)
					a.Usage("p")
				case 4:
					if as, ok := a.Get(owner); ok {
						_, err := a.Adopt(req, as.Addrs)
						_ = err // may well be taken by now
					}
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
	for name, total := range map[string][2]int64{"p": {64, 64}, "q": {64, 0}} {
		_, err := a.SetPools(pools)
		require.NoError(t, err)
		usage, _ := a.Usage(name)
		assert.Equal(t, Usage{Count{total[0], 0, total[0], 0}, Count{total[1], 0, total[1], 0}}, usage)
	}
}
