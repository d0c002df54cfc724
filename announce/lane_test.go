package announce

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Cells made by many goroutines at once count everything, each in its own slot, and
// what is folded is in the sum.
func TestCells(t *testing.T) {
	const slots, times = 9, 1000
	var ten tenure
	require.Nil(t, ten.find(3))
	var wg sync.WaitGroup
	for g := range 4 * slots {
		wg.Go(func() {
			for range times {
				ten.cell(g % slots).requests.Add(1)
			}
		})
	}
	wg.Wait()
	seen := make(map[*cell]bool)
	for slot := range slots {
		c := ten.find(slot)
		require.EqualValues(t, 4*times, c.requests.Load())
		seen[c] = true
	}
	require.Len(t, seen, slots)
	for slot := range slots {
		ten.fold(slot)
		ten.fold(slot)
		require.Nil(t, ten.find(slot))
		require.EqualValues(t, 4*times*(slot+1), ten.gone.requests.Load())
	}
	fresh := ten.cell(0)
	require.Zero(t, fresh.requests.Load())
	require.False(t, seen[fresh], "nobody who looks at a cell that is gone looks at another's")
}
