package allocator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLimitPerNamespace(t *testing.T) {
	p := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/28", "fd44::/124"), LimitPerNamespace: 2}
	q := Pool{Name: "q", Ranges: mustRanges(t, "10.45.0.0/28")}
	const full = `namespace "default" holds 2 addresses of pool "p" and may hold 2`
	runScenarios(t, []scenario{
		{
			name: "of one pool", pools: []Pool{p},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.0"}},
				{req: want("b"), want: []string{"10.44.0.1"}},
				{req: want("c"), is: ErrLimit, text: `assign c: limit of the namespace reached: pool "p": ` + full},
				{req: want("c", at("10.44.0.7")), is: ErrLimit, text: "assign c: " + full},
				{req: want("c", from("p")), is: ErrLimit, text: full},
				{req: want("c", in("other")), want: []string{"10.44.0.2"}},
				{req: want("b", at("10.44.0.9")), want: []string{"10.44.0.9"}},
				{req: want("b", at("10.44.0.9", "fd44::9")), is: ErrLimit},
				{req: want("a", prefer), want: []string{"10.44.0.0"}},
				{req: want("a"), release: true},
				{req: want("b", at("10.44.0.9", "fd44::9")), want: []string{"10.44.0.9", "fd44::9"}},
			},
		},
		{
			name: "goes on to the next pool", pools: []Pool{p, q},
			steps: []step{
				{req: want("a", both), want: []string{"10.44.0.0", "fd44::"}},
				{req: want("b"), want: []string{"10.45.0.0"}, pool: "q"},
			},
		},
		{
			name: "a shared address counts once for each namespace", pools: []Pool{p},
			steps: []step{
				{req: want("a", key("k"), tcp(1)), want: []string{"10.44.0.0"}},
				{req: want("b", key("k"), tcp(2)), want: []string{"10.44.0.0"}},
				{req: want("c", key("k"), tcp(3)), want: []string{"10.44.0.0"}},
				{req: want("d"), want: []string{"10.44.0.1"}},
				{req: want("e", key("k"), tcp(5)), want: []string{"10.44.0.0"}},
				{req: want("f", key("k"), tcp(5)), is: ErrLimit},
				{req: want("g", in("other"), key("k"), tcp(6)), want: []string{"10.44.0.0"}},
				{req: want("h", in("other")), want: []string{"10.44.0.2"}},
				{req: want("i", in("other")), is: ErrLimit, text: `namespace "other" holds 2 addresses`},
			},
		},
		{
			name: "one of two families", pools: []Pool{{Name: "p", Ranges: p.Ranges, LimitPerNamespace: 1}},
			steps: []step{
				{req: want("a", both), is: ErrLimit},
				{req: want("a", preferV6), want: []string{"fd44::"}},
			},
		},
	})
}

func TestLimitError(t *testing.T) {
	a, err := New(Config{
		Pools:  []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/28"), LimitPerNamespace: 2}, {Name: "q", Ranges: mustRanges(t, "10.45.0.0/28")}},
		Limits: Limits{PerNamespace: 3, Namespaces: map[string]int{"big": 0}},
	})
	require.NoError(t, err)
	for i := range 3 {
		mustAssign(t, a, want(Owner(fmt.Sprint("o", i))))
	}
	_, err = a.Assign(want("x"))
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	assert.Equal(t, LimitError{Namespace: "default", Limit: 3, Held: 3}, *limit)
	assert.Contains(t, err.Error(), `namespace "default" holds 3 addresses in all pools and may hold 3`)
	verdicts := a.Explain(want("x"))
	assert.Equal(t, []Reason{ReasonLimit, ReasonLimit}, []Reason{verdicts[0].Reason, verdicts[1].Reason})
	_, err = a.Assign(want("x", at("10.44.0.9")))
	require.ErrorAs(t, err, &limit)
	for i := range 5 {
		mustAssign(t, a, want(Owner(fmt.Sprint("b", i)), in("big")))
	}

	// A limit that sinks takes nothing away, and lets nothing in.
	require.NoError(t, a.SetLimits(Limits{PerNamespace: 1}))
	for i := range 3 {
		mustAssign(t, a, want(Owner(fmt.Sprint("o", i))))
	}
	a.Release("o0")
	_, err = a.Assign(want("o0"))
	require.ErrorAs(t, err, &limit)
	assert.Equal(t, LimitError{Namespace: "default", Limit: 1, Held: 2}, *limit)
	require.NoError(t, a.SetLimits(Limits{}))
	mustAssign(t, a, want("o0"))

	require.Error(t, a.SetLimits(Limits{PerNamespace: -1}))
	_, err = New(Config{Limits: Limits{Namespaces: map[string]int{"x": -1}}})
	require.ErrorContains(t, err, `limit -1 of namespace "x" is negative`)
}
