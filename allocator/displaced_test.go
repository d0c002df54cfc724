package allocator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDisplacedKeep(t *testing.T) {
	old := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/125"), Displaced: PolicyKeep}
	edit := func(f func(*Pool)) Pool { p := old; f(&p); return p }
	shrunk := edit(func(p *Pool) { p.Ranges = mustRanges(t, "10.44.0.4/30", "fd44::/125") })
	for _, tt := range []struct {
		name  string
		pools []Pool
		pool  string // of the holder of 10.44.0.0; none: displaced
	}{
		{"shrinks", []Pool{shrunk}, "p"},
		{"moves", []Pool{edit(func(p *Pool) { p.Ranges = mustRanges(t, "192.0.2.0/24") })}, "p"},
		{"excludes it", []Pool{edit(func(p *Pool) { p.Exclude = mustRanges(t, "10.44.0.0/30") })}, "p"},
		{"avoids it", []Pool{edit(func(p *Pool) { p.AvoidBuggyIPs = true })}, "p"},
		{"is removed", nil, "p"},
		{"drains as well", []Pool{edit(func(p *Pool) { p.Ranges, p.Drain = mustRanges(t, "192.0.2.0/24"), true })}, "p"},
		{"another pool gets it", []Pool{shrunk, {Name: "q", Ranges: mustRanges(t, "10.44.0.0/31")}}, "q"},
		{"and keeps no more", []Pool{edit(func(p *Pool) { p.Ranges, p.Displaced = mustRanges(t, "192.0.2.0/24"), PolicyReassign })}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newTest(t, old)
			mustAssign(t, a, want("a", at("10.44.0.0"), key("k"), tcp(1)))
			change, err := a.ReplacePools(tt.pools)
			require.NoError(t, err)
			if tt.pool == "" {
				require.Len(t, change.Displaced, 1)
				return
			}
			assert.Empty(t, change.Displaced)
			requireHeld(t, a, "a", tt.pool, "10.44.0.0")
			for _, req := range []Request{want("a", key("k"), tcp(2)), want("a", at("10.44.0.0"), key("k"), tcp(2)), want("a", from(tt.pool), key("k"), tcp(2))} {
				assert.Equal(t, addrs("10.44.0.0"), mustAssign(t, a, req).Addrs)
				var used []string
				for _, v := range a.Explain(req) {
					if v.Reason == ReasonUsed {
						used = append(used, v.Pool)
					}
				}
				assert.Equal(t, []string{tt.pool}, used)
			}
			if tt.pool == "q" {
				return
			}
			_, err = a.Assign(want("b", at("10.44.0.0"), key("k"), tcp(1)))
			require.ErrorIs(t, err, ErrNotInPool, "nobody can join")
			if u, ok := a.Usage("p"); ok {
				assert.Equal(t, int64(1), u.V4.Used)
				assert.Equal(t, u.V4.Total, u.V4.Used+u.V4.Free+u.V4.Kept)
			}
			// The next edit knows what the pool had once, and so does the next process.
			if len(tt.pools) > 0 {
				b := newTest(t, tt.pools...)
				_, err = b.Adopt(Request{Owner: "a", Claim: "p"}, addrs("10.44.0.0"))
				require.NoError(t, err)
			}
			_, err = a.SetPools([]Pool{old})
			require.NoError(t, err)
			requireHeld(t, a, "a", "p", "10.44.0.0")
			assert.Equal(t, Count{8, 1, 7, 0}, usageOf(t, a, "p").V4)
			_, err = a.SetPools(tt.pools)
			require.NoError(t, err)
			a.Release("a")
			if u, ok := a.Usage("p"); ok {
				assert.Equal(t, int64(0), u.V4.Used)
			}
		})
	}
}

// Half of a pair is in the pool still; what is lost in the end goes back there.
func TestDisplacedKeepPair(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/30", "fd44::/126"), Displaced: PolicyKeep}
	a := newTest(t, p)
	mustAssign(t, a, want("a", both))
	p.Ranges = mustRanges(t, "10.44.0.0/30", "fd45::/126")
	_, err := a.SetPools([]Pool{p})
	require.NoError(t, err)
	requireHeld(t, a, "a", "p", "10.44.0.0", "fd44::")
	assert.Equal(t, Usage{Count{4, 1, 3, 0}, Count{5, 1, 4, 0}}, usageOf(t, a, "p"))
	assert.Equal(t, addrs("10.44.0.1", "fd45::"), mustAssign(t, a, want("b", both)).Addrs)
	p.Displaced = PolicyReassign
	displaced, err := a.SetPools([]Pool{p})
	require.NoError(t, err)
	require.Len(t, displaced, 1)
	assert.Equal(t, Usage{Count{4, 1, 3, 0}, Count{4, 1, 3, 0}}, usageOf(t, a, "p"))
}
