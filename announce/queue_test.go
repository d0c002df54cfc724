package announce

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sender that is stuck, and addresses that come and go: what is dead is
// forgotten, what is held is kept.
func TestQueueForgetsTheDead(t *testing.T) {
	current := make(map[netip.Addr]*tenure)
	q := newQueue(time.Second, func(a netip.Addr) *tenure { return current[a] })
	addr := netip.MustParseAddr("192.0.2.1")
	keep := &entry{addr: netip.MustParseAddr("192.0.2.2"), tenure: new(tenure)}
	current[keep.addr] = keep.tenure
	q.add(slices.Values([]*entry{keep}), 5)
	for range 100_000 {
		e := &entry{addr: addr, tenure: new(tenure)}
		current[addr] = e.tenure
		q.add(slices.Values([]*entry{e}), 5)
	}
	require.LessOrEqual(t, len(q.fresh), tidyMin)
	require.LessOrEqual(t, len(q.bursts), tidyMin)
	due, _ := q.take(nil, 10, time.Now())
	require.Len(t, due, 2)
	require.Equal(t, keep.addr, due[0].addr)
	require.Equal(t, current[addr], due[1].tenure)
	require.Len(t, q.bursts, 2)
}

func TestQueueOrder(t *testing.T) {
	start := time.Now()
	e := [3]*entry{}
	for i := range e {
		e[i] = &entry{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), tenure: new(tenure)}
	}
	q := newQueue(time.Second, func(a netip.Addr) *tenure { return e[a.As4()[3]].tenure })
	take := func(now time.Time, want ...byte) {
		t.Helper()
		due, _ := q.take(nil, 10, now)
		var got []byte
		for _, r := range due {
			got = append(got, r.addr.As4()[3])
		}
		require.Equal(t, want, got)
		q.done(due, now)
	}
	q.add(slices.Values(e[:2]), 2)
	take(start, 0, 1)
	_, wait := q.take(nil, 10, start)
	require.Equal(t, time.Second, wait)
	// A new address goes before repeats that are due.
	q.add(slices.Values(e[2:]), 1)
	take(start.Add(time.Second), 2, 0, 1)
	_, wait = q.take(nil, 10, start.Add(time.Hour))
	require.Negative(t, wait)
	require.Empty(t, q.bursts)
	// A second burst replaces the first.
	q.add(slices.Values(e[:1]), 5)
	q.add(slices.Values(e[:1]), 2)
	take(start, 0)
	take(start.Add(time.Second), 0)
	_, wait = q.take(nil, 10, start.Add(time.Hour))
	require.Negative(t, wait)
}
