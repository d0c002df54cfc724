package allocator

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// check verifies the B-tree's shape and that its spans are sorted, disjoint and
// not adjacent, and returns them.
func (s *spanSet) check(t require.TestingT) []span {
	var list []span
	var depth int
	var walk func(n *spanNode, level int)
	walk = func(n *spanNode, level int) {
		require.LessOrEqual(t, len(n.spans), maxSpans)
		if n != s.root {
			require.GreaterOrEqual(t, len(n.spans), minSpans)
		}
		if n.kids == nil {
			if depth == 0 {
				depth = level
			}
			require.Equal(t, depth, level, "leaves at two depths")
			list = append(list, n.spans...)
			return
		}
		require.Len(t, n.kids, len(n.spans)+1)
		for i, kid := range n.kids {
			walk(kid, level+1)
			if i < len(n.spans) {
				list = append(list, n.spans[i])
			}
		}
	}
	if s.root != nil {
		walk(s.root, 1)
	}
	require.Len(t, list, s.n)
	for i, sp := range list {
		require.False(t, sp.to.less(sp.from))
		if i > 0 {
			require.True(t, list[i-1].to.next().less(sp.from), "spans touch")
		}
	}
	return list
}

func TestSpanSetAgainstBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3000).Draw(t, "size")
		// The universe lies across a carry of the low word.
		base := u128{hi: 7, lo: ^uint64(0) - uint64(size)/2}
		at := func(i int) u128 { return base.add(u128{lo: uint64(i)}) }
		var s spanSet
		s.insert(span{at(0), at(size - 1)})
		free := make([]bool, size)
		for i := range free {
			free[i] = true
		}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		bias := rapid.IntRange(1, 9).Draw(t, "takes of ten")
		for range 2 * size {
			i := rnd.IntN(size)
			require.Equal(t, free[i], s.has(at(i)))
			switch {
			case rnd.IntN(10) < bias:
				require.Equal(t, free[i], s.take(at(i)))
				free[i] = false
			case !free[i]:
				s.give(at(i))
				free[i] = true
			}
		}
		var want []span
		for i, ok := range free {
			switch {
			case !ok:
			case len(want) > 0 && want[len(want)-1].to.next() == at(i):
				want[len(want)-1].to = at(i)
			default:
				want = append(want, span{at(i), at(i)})
			}
		}
		require.Equal(t, want, s.check(t))
		if len(want) > 0 {
			require.Equal(t, want[0].from, s.min())
		} else {
			require.True(t, s.empty())
		}
		require.False(t, s.take(at(size)), "outside")
	})
}

// A large tree is emptied and filled again, in two orders.
func TestSpanSetGrowsAndShrinks(t *testing.T) {
	const n = 200_000
	var s spanSet
	s.insert(span{to: u128{lo: n - 1}})
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for _, i := range order {
		require.True(t, s.take(u128{lo: uint64(i)}))
	}
	require.True(t, s.empty())
	require.Nil(t, s.root)
	for k, i := range order {
		s.give(u128{lo: uint64(i)})
		if k == n/2 {
			s.check(t)
		}
	}
	require.Equal(t, []span{{to: u128{lo: n - 1}}}, s.check(t))
}
