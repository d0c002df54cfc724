package allocator

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustRanges(tb testing.TB, texts ...string) []Range {
	tb.Helper()
	var list []Range
	for _, text := range texts {
		r, _, err := ParseRange(text)
		require.NoError(tb, err)
		list = append(list, r)
	}
	return list
}

func newTest(tb testing.TB, pools ...Pool) *Allocator {
	tb.Helper()
	a, err := New(Config{Pools: pools})
	require.NoError(tb, err)
	return a
}

func mustAssign(tb testing.TB, a *Allocator, req Request) Assignment {
	tb.Helper()
	as, err := a.Assign(req)
	require.NoError(tb, err)
	return as
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}
