package membership_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/membership"
)

func TestDrainThenLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, c := l.startThree()
		begin := time.Now()
		require.NoError(t, a.Drain(t.Context()))
		t.Logf("drained after %v", time.Since(begin))
		assert.Less(t, time.Since(begin), 3*time.Second)
		// When Drain returns the others have known for about the settle time.
		assert.Equal(t, "a- b c", b.names())
		assert.Equal(t, "a- b c", c.names())

		begin = time.Now()
		require.NoError(t, a.Drain(t.Context()))
		assert.Equal(t, time.Second, time.Since(begin), "nothing is told again, only the settle time passes")

		begin = time.Now()
		require.NoError(t, a.stop())
		t.Logf("left after %v", time.Since(begin))
		assert.Less(t, time.Since(begin), 2*time.Second)
		assert.Equal(t, "b c", b.names())
		assert.Equal(t, "b c", c.names())
		assert.Equal(t, "a- b c", a.names(), "a does not believe that it is alone")
	})
}

func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, _ := l.startThree(func(c *membership.Config) { c.DrainSettle = time.Hour })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, a.Drain(ctx), context.DeadlineExceeded)
		assert.Equal(t, "a- b c", a.names(), "ineligible all the same")

		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		assert.ErrorIs(t, b.Drain(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

// TestLeaveWithoutListeners: the others are gone, the node leaves all the same
// and in bounded time.
func TestLeaveWithoutListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, _, _ := l.startThree()
		l.net.Partition([]netip.Addr{host(1)}, []netip.Addr{host(2), host(3)})
		waitFor(t, 10*time.Second, "a suspects somebody", func() bool { return a.Stats().Suspects > 0 })
		begin := time.Now()
		require.NoError(t, a.stop())
		t.Logf("left after %v", time.Since(begin))
		assert.Less(t, time.Since(begin), 10*time.Second)
	})
}
