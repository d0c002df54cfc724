package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shelf is a Source in memory; what it gives is given once, in order.
type shelf struct {
	mu    sync.Mutex
	free  []netip.Addr
	given map[Owner][]netip.Addr
	delay time.Duration
	err   error
	asked []Ask
}

func (s *shelf) Acquire(ctx context.Context, ask Ask) ([]netip.Addr, error) {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, ask)
	if s.err != nil {
		return nil, s.err
	}
	if got := s.given[ask.Owner]; got != nil {
		return got, nil
	}
	if len(s.free) == 0 {
		return nil, errors.New("the shelf is empty")
	}
	if s.given == nil {
		s.given = map[Owner][]netip.Addr{}
	}
	s.given[ask.Owner] = s.free[:1:1]
	s.free = s.free[1:]
	return s.given[ask.Owner], nil
}

func (s *shelf) Release(_ context.Context, o Owner, addrs []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.free = append(s.free, addrs...)
	delete(s.given, o)
	return nil
}

func TestObtain(t *testing.T) {
	src := &shelf{free: addrs("192.0.2.1", "192.0.2.2")}
	pools := []Pool{
		{Name: "dhcp", Source: src, Priority: 1, Scope: &Scope{AnyNamespace: true}},
		{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30")},
	}
	a := newTest(t, pools...)
	ctx := t.Context()
	_, err := a.Assign(want("a"))
	var source *SourceError
	require.ErrorAs(t, err, &source)
	assert.Equal(t, "dhcp", source.Pool)
	require.ErrorIs(t, err, ErrSource)
	assert.Equal(t, `pool "dhcp": its source decides`, a.Explain(want("a"))[0].String())

	as, err := a.Obtain(ctx, want("a"))
	require.NoError(t, err)
	assert.Equal(t, Assignment{"a", "dhcp", addrs("192.0.2.1")}, as)
	assert.Equal(t, []Ask{{Pool: "dhcp", Owner: "a", Namespace: "default", Families: []Family{IPv4}}}, src.asked)
	assert.Equal(t, as, mustAssign(t, a, want("a")), "what is held needs no source")
	assert.Equal(t, Usage{V4: Count{1, 1, 0, 0}}, usageOf(t, a, "dhcp"))

	as, err = a.Obtain(ctx, want("b", from("dhcp")))
	require.NoError(t, err)
	assert.Equal(t, addrs("192.0.2.2"), as.Addrs)
	as, err = a.Obtain(ctx, want("c"))
	require.NoError(t, err)
	assert.Equal(t, Assignment{"c", "p", addrs("10.44.0.0")}, as, "the source refused")
	_, err = a.Obtain(ctx, want("d", from("dhcp")))
	require.EqualError(t, err, `assign d: source of pool "dhcp": the shelf is empty`)

	// A move and a release give back, with the next Settle.
	mustAssign(t, a, want("a", at("10.44.0.1")))
	a.Release("b")
	assert.Empty(t, src.free)
	src.err = errors.New("out of order")
	require.ErrorContains(t, a.Settle(ctx), `settle a: give [192.0.2.1] back to the source of pool "dhcp": out of order`)
	src.err = nil
	require.NoError(t, a.Settle(ctx))
	assert.ElementsMatch(t, addrs("192.0.2.1", "192.0.2.2"), src.free)
	require.NoError(t, a.Settle(ctx))
	assert.Len(t, src.free, 2, "once")

	// Back before it is settled: nothing is owed.
	_, err = a.Obtain(ctx, want("b"))
	require.NoError(t, err)
	a.Release("b")
	_, err = a.Obtain(ctx, want("b"))
	require.NoError(t, err)
	require.NoError(t, a.Settle(ctx))
	assert.Len(t, src.given, 1)

	// Who holds an address of ranges can move to one of the source.
	as, err = a.Obtain(ctx, want("c", from("dhcp")))
	require.NoError(t, err)
	assert.Equal(t, "dhcp", as.Pool)
	a.Release("c")
	require.NoError(t, a.Settle(ctx))

	// A restart, an edit, the end.
	fresh := newTest(t, pools...)
	_, err = fresh.Adopt(Request{Owner: "b", Claim: "dhcp"}, src.given["b"])
	require.NoError(t, err)
	displaced, err := a.SetPools(pools[1:])
	require.NoError(t, err)
	require.Len(t, displaced, 1)
	require.NoError(t, a.Settle(ctx))
	assert.Empty(t, src.given)
}

func TestObtainExplicit(t *testing.T) {
	src := &shelf{free: addrs("192.0.2.1")}
	a := newTest(t, Pool{Name: "dhcp", Source: src, LimitPerNamespace: 1}, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30")})
	_, err := a.Obtain(t.Context(), want("a", at("192.0.2.9"), from("dhcp")))
	require.ErrorContains(t, err, "it answers [192.0.2.1]: address not in pool: [192.0.2.9] is wanted")
	require.NoError(t, a.Settle(t.Context()))
	assert.Equal(t, addrs("192.0.2.1"), src.free, "given back")
	_, err = a.Obtain(t.Context(), want("a", at("192.0.2.1"), from("dhcp")))
	require.NoError(t, err)
	_, err = a.Obtain(t.Context(), want("b", from("dhcp")))
	require.ErrorIs(t, err, ErrLimit)
	assert.Len(t, src.asked, 2, "not asked in vain")
}

// What a source must not answer is refused and given back.
func TestObtainBadAnswer(t *testing.T) {
	for _, tt := range []struct{ name, answer, text string }{
		{"another pool's", "10.44.0.1", `it is in pool "p"`},
		{"held", "192.0.2.7", "192.0.2.7 is in use by z"},
		{"wrong family", "2001:db8::1", "family that is not wanted"},
		{"mapped", "::ffff:192.0.2.1", "IPv4-mapped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := &shelf{free: addrs(tt.answer)}
			a := newTest(t, Pool{Name: "dhcp", Source: src}, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30"), Drain: true})
			_, err := a.Adopt(Request{Owner: "z", Claim: "dhcp"}, addrs("192.0.2.7"))
			require.NoError(t, err)
			_, err = a.Obtain(t.Context(), want("a"))
			require.ErrorIs(t, err, ErrSource)
			assert.Contains(t, err.Error(), `assign a: no address from a source: pool "dhcp": it answers [`+tt.answer+"]: ")
			assert.Contains(t, err.Error(), tt.text)
			require.NoError(t, a.Settle(t.Context()))
			assert.Equal(t, addrs(tt.answer), src.free)
		})
	}
}

// While one source is slow, everyone else is served; for one owner, calls queue.
func TestObtainSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &shelf{free: addrs("192.0.2.1", "192.0.2.2"), delay: time.Minute}
		a := newTest(t, Pool{Name: "dhcp", Source: src}, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30"), Manual: true})
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				as, err := a.Obtain(t.Context(), want("a"))
				assert.NoError(t, err)
				held, _ := a.Get("a")
				assert.Equal(t, held, as)
			})
		}
		wg.Go(func() {
			_, err := a.Obtain(t.Context(), want("b"))
			assert.NoError(t, err)
			assert.Equal(t, time.Minute, time.Since(start), "side by side with a")
		})
		synctest.Wait()
		mustAssign(t, a, want("c", from("p")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Obtain(ctx, want("a"))
		require.ErrorIs(t, err, context.DeadlineExceeded, "while it waits for the others")
		_, err = a.Obtain(ctx, want("d"))
		require.ErrorIs(t, err, context.DeadlineExceeded, "in the source")
		wg.Wait()
		assert.Equal(t, time.Minute, time.Since(start), "a is asked for once")
		assert.Len(t, src.asked, 2)
	})
}

func TestPoolSettings(t *testing.T) {
	v4 := mustRanges(t, "10.44.0.0/24")
	for _, tt := range []struct {
		name string
		edit func(*Pool)
		is   error
		text string
	}{
		{"order", func(p *Pool) { p.Order = 7 }, ErrPoolSetting, "order Order(7) is unknown"},
		{"policy", func(p *Pool) { p.Displaced = 7 }, ErrPoolSetting, "policy Policy(7) is unknown"},
		{"quarantine", func(p *Pool) { p.Quarantine = -time.Second }, ErrPoolSetting, "quarantine -1s is negative"},
		{"limit", func(p *Pool) { p.LimitPerNamespace = -2 }, ErrPoolSetting, "limit per namespace -2 is negative"},
		{"source and ranges", func(p *Pool) { p.Source = &shelf{} }, ErrPoolSetting, "use one or the other"},
		{"exclusion", func(p *Pool) { p.Exclude = []Range{{v4[0].To, v4[0].From}} }, ErrPoolExclude, "is before the first"},
		{"reserved elsewhere", func(p *Pool) { p.Reserve = reserve("10.45.0.1", "a") }, ErrPoolReserve, "10.45.0.1 is not in the pool"},
		{"reserved for nobody", func(p *Pool) { p.Reserve = reserve("10.44.0.1", "") }, ErrPoolReserve, "for no owner"},
		{"reserved twice", func(p *Pool) { p.Reserve = reserve("10.44.0.1", "a", "10.44.0.1", "b", "10.44.0.1", "a") }, ErrPoolReserve, "there twice"},
		{"reserved and excluded", func(p *Pool) { p.Reserve, p.Exclude = reserve("10.44.0.1", "a"), v4 }, ErrPoolReserve, "is excluded"},
		{"reserved and avoided", func(p *Pool) { p.Reserve, p.AvoidBuggyIPs = reserve("10.44.0.0", "a"), true }, ErrPoolReserve, "avoids"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Pool{Name: "p", Ranges: v4}
			tt.edit(&p)
			faults := ValidatePools([]Pool{p})
			require.Len(t, faults, 1)
			require.ErrorIs(t, faults[0], tt.is)
			assert.Contains(t, faults[0].Error(), `pool "p": `)
			assert.Contains(t, faults[0].Error(), tt.text)
		})
	}
	assert.Empty(t, ValidatePools([]Pool{{Name: "p", Source: &shelf{}}, {Name: "q", Source: &shelf{}}}))
	assert.Equal(t, "lowest spread reassign keep", fmt.Sprint(OrderLowest, " ", OrderSpread, " ", PolicyReassign, " ", PolicyKeep))
}
