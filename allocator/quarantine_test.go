package allocator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/31"), Quarantine: time.Minute}
		a := newTest(t, p)
		mustAssign(t, a, want("a"))
		mustAssign(t, a, want("b"))
		_, rests := a.NextFree()
		require.False(t, rests)
		start := time.Now()
		a.Release("a")
		time.Sleep(10 * time.Second)
		a.Release("b")

		at0, rests := a.NextFree()
		require.True(t, rests)
		assert.Equal(t, start.Add(time.Minute), at0)
		assert.Equal(t, Count{2, 0, 0, 2}, usageOf(t, a, "p").V4)
		_, err := a.Assign(want("c"))
		require.ErrorIs(t, err, ErrExhausted)
		assert.Contains(t, err.Error(), "rest in quarantine")
		_, err = a.Assign(want("c", at("10.44.0.0")))
		var conflict *ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.Equal(t, ConflictError{Addr: addrs("10.44.0.0")[0], Holder: "a", Reason: ReasonQuarantine, Until: at0}, *conflict)
		assert.Contains(t, err.Error(), "10.44.0.0 was released by a and rests until 2000-01-01T00:01:00Z")

		// Its last owner comes back, not to the lower one.
		assert.Equal(t, addrs("10.44.0.1"), mustAssign(t, a, want("b")).Addrs)
		a.Release("b")
		time.Sleep(time.Until(at0) - time.Nanosecond)
		_, err = a.Assign(want("c"))
		require.ErrorIs(t, err, ErrExhausted)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, addrs("10.44.0.0"), mustAssign(t, a, want("c")).Addrs)
		at1, rests := a.NextFree()
		require.True(t, rests)
		assert.Equal(t, start.Add(70*time.Second), at1, "counted from the second release")

		// The edit counts for what rests already; the end of the rest of the space, too.
		p.Quarantine = time.Hour
		_, err = a.SetPools([]Pool{p})
		require.NoError(t, err)
		at1, _ = a.NextFree()
		assert.Equal(t, start.Add(10*time.Second).Add(time.Hour), at1)
		p.Ranges = mustRanges(t, "10.44.0.0/30")
		_, err = a.SetPools([]Pool{p})
		require.NoError(t, err)
		assert.Equal(t, Count{4, 1, 2, 1}, usageOf(t, a, "p").V4)
		p.Quarantine = 0
		_, err = a.SetPools([]Pool{p})
		require.NoError(t, err)
		assert.Equal(t, Count{4, 1, 3, 0}, usageOf(t, a, "p").V4)
	})
}

// A move rests what it leaves; a share that ends does not while others stay.
func TestQuarantineOfMovesAndShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/125"), Quarantine: time.Minute})
		mustAssign(t, a, want("a", key("k"), tcp(1)))
		mustAssign(t, a, want("b", key("k"), tcp(2)))
		mustAssign(t, a, want("a", at("10.44.0.5")))
		_, rests := a.NextFree()
		require.False(t, rests, "b is still there")
		mustAssign(t, a, want("b", at("10.44.0.6")))
		_, err := a.Assign(want("a", at("10.44.0.0")))
		require.ErrorIs(t, err, ErrConflict, "b was the last")
		mustAssign(t, a, want("b", both))
		mustAssign(t, a, want("b", only(IPv6)))
		_, err = a.Assign(want("c", at("10.44.0.6")))
		require.ErrorIs(t, err, ErrConflict, "dropped with its family")
		assert.Equal(t, addrs("fd44::", "10.44.0.1"), mustAssign(t, a, want("b", both)).Addrs, "completed as ever")
		a.Release("b")
		assert.Equal(t, addrs("10.44.0.1", "fd44::"), mustAssign(t, a, want("b", both)).Addrs, "the last ones")

		// Adopting ends a quarantine.
		_, err = a.Adopt(Request{Owner: "c"}, addrs("10.44.0.6"))
		require.NoError(t, err)
		a.Release("a")
		time.Sleep(time.Minute)
		_, rests = a.NextFree()
		require.False(t, rests)
		assert.Equal(t, Usage{Count{8, 2, 6, 0}, Count{8, 1, 7, 0}}, usageOf(t, a, "p"))
	})
}

// Two that share are displaced together: the address rests once.
func TestQuarantineOfDisplacedSharers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30", "fd44::/126"), Quarantine: time.Minute}
		a := newTest(t, p)
		mustAssign(t, a, want("a", both, key("k"), tcp(1)))
		mustAssign(t, a, want("b", both, key("k"), tcp(2)))
		p.Ranges = p.Ranges[:1]
		displaced, err := a.SetPools([]Pool{p})
		require.NoError(t, err)
		require.Len(t, displaced, 2)
		assert.Equal(t, Count{4, 0, 3, 1}, usageOf(t, a, "p").V4)
		assert.Equal(t, addrs("10.44.0.1"), mustAssign(t, a, want("a")).Addrs)
		assert.Equal(t, addrs("10.44.0.0"), mustAssign(t, a, want("b")).Addrs, "the last of the two")
		time.Sleep(time.Minute)
		_, rests := a.NextFree()
		assert.False(t, rests)
		assert.Equal(t, Count{4, 2, 2, 0}, usageOf(t, a, "p").V4)
	})
}
