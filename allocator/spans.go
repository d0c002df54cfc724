package allocator

import "slices"

// span is a closed interval of positions.
type span struct{ from, to u128 }

// spanSet is a set of positions, kept as disjoint, non-adjacent spans in a
// B-tree ordered by position. Every operation costs O(log n) in the number of
// spans, whatever the number of positions in them. The zero value is empty.
type spanSet struct {
	root *spanNode
	n    int // spans
}

// A node other than the root holds minSpans..maxSpans spans; an inner node has
// one child more than it has spans.
const (
	maxSpans = 63
	minSpans = maxSpans / 2
)

type spanNode struct {
	spans []span
	kids  []*spanNode // nil in a leaf
}

func (s *spanSet) empty() bool { return s.n == 0 }

// min returns the lowest position; the set must not be empty.
func (s *spanSet) min() u128 {
	n := s.root
	for n.kids != nil {
		n = n.kids[0]
	}
	return n.spans[0].from
}

// from returns the lowest position at or after pos or, if there is none, the
// lowest of all; the set must not be empty.
func (s *spanSet) from(pos u128) u128 {
	below, above := s.around(pos)
	switch {
	case below != nil && !below.to.less(pos):
		return pos
	case above != nil:
		return above.from
	default:
		return s.min()
	}
}

// around returns the last span that starts at or below pos and the first that
// starts above it; nil where there is none. The pointers are good until the
// next insert or remove.
func (s *spanSet) around(pos u128) (below, above *span) {
	for n := s.root; n != nil; {
		i := n.search(pos)
		if i > 0 {
			below = &n.spans[i-1]
		}
		if i < len(n.spans) {
			above = &n.spans[i]
		}
		if n.kids == nil {
			break
		}
		n = n.kids[i]
	}
	return below, above
}

func (s *spanSet) has(pos u128) bool {
	below, _ := s.around(pos)
	return below != nil && !below.to.less(pos)
}

// take removes one position and reports whether it was there.
func (s *spanSet) take(pos u128) bool {
	sp, _ := s.around(pos)
	if sp == nil || sp.to.less(pos) {
		return false
	}
	switch {
	case sp.from == sp.to:
		s.remove(pos)
	case sp.from == pos:
		sp.from = pos.next()
	case sp.to == pos:
		sp.to = pos.prev()
	default:
		rest := span{pos.next(), sp.to}
		sp.to = pos.prev()
		s.insert(rest)
	}
	return true
}

// give adds one position that is not in the set.
func (s *spanSet) give(pos u128) {
	below, above := s.around(pos)
	joinsBelow := below != nil && below.to.next() == pos
	joinsAbove := above != nil && pos.next() == above.from
	switch {
	case joinsBelow && joinsAbove:
		gone := above.from
		below.to = above.to
		s.remove(gone)
	case joinsBelow:
		below.to = pos
	case joinsAbove:
		above.from = pos
	default:
		s.insert(span{pos, pos})
	}
}

// insert adds a span that neither overlaps nor touches another.
func (s *spanSet) insert(sp span) {
	s.n++
	if s.root == nil {
		s.root = &spanNode{spans: []span{sp}}
		return
	}
	if len(s.root.spans) == maxSpans {
		s.root = &spanNode{kids: []*spanNode{s.root}}
		s.root.split(0)
	}
	s.root.insert(sp)
}

// remove deletes the span that starts at from, which must exist.
func (s *spanSet) remove(from u128) {
	s.n--
	s.root.remove(from)
	switch {
	case len(s.root.spans) > 0:
	case s.root.kids == nil:
		s.root = nil
	default:
		s.root = s.root.kids[0]
	}
}

// search returns how many spans of n start at or below pos.
func (n *spanNode) search(pos u128) int {
	lo, hi := 0, len(n.spans)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if pos.less(n.spans[mid].from) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func (n *spanNode) insert(sp span) {
	for {
		i := n.search(sp.from)
		if n.kids == nil {
			n.spans = slices.Insert(n.spans, i, sp)
			return
		}
		if len(n.kids[i].spans) == maxSpans {
			n.split(i)
			if n.spans[i].from.less(sp.from) {
				i++
			}
		}
		n = n.kids[i]
	}
}

// split halves the full child i; its median moves up into n.
func (n *spanNode) split(i int) {
	left := n.kids[i]
	median := left.spans[minSpans]
	right := &spanNode{spans: slices.Clone(left.spans[minSpans+1:])}
	left.spans = left.spans[:minSpans]
	if left.kids != nil {
		right.kids = slices.Clone(left.kids[minSpans+1:])
		clear(left.kids[minSpans+1:])
		left.kids = left.kids[:minSpans+1]
	}
	n.spans = slices.Insert(n.spans, i, median)
	n.kids = slices.Insert(n.kids, i+1, right)
}

// remove deletes the span that starts at from. Every node it descends into
// has been given at least one span to spare.
func (n *spanNode) remove(from u128) {
	for {
		i := n.search(from)
		found := i > 0 && n.spans[i-1].from == from
		if n.kids == nil {
			n.spans = slices.Delete(n.spans, i-1, i)
			return
		}
		if found {
			i--
		}
		if len(n.kids[i].spans) <= minSpans {
			n.grow(i)
			continue
		}
		if found {
			// The last span of the left sub-tree takes the place.
			n.spans[i] = n.kids[i].removeLast()
			return
		}
		n = n.kids[i]
	}
}

func (n *spanNode) removeLast() span {
	for n.kids != nil {
		last := len(n.kids) - 1
		if len(n.kids[last].spans) <= minSpans {
			n.grow(last)
			continue
		}
		n = n.kids[last]
	}
	last := n.spans[len(n.spans)-1]
	n.spans = n.spans[:len(n.spans)-1]
	return last
}

// grow gives child i at least one span to spare: from a neighbour that can
// part with one, else by merging the two.
func (n *spanNode) grow(i int) {
	child := n.kids[i]
	switch {
	case i > 0 && len(n.kids[i-1].spans) > minSpans:
		left := n.kids[i-1]
		child.spans = slices.Insert(child.spans, 0, n.spans[i-1])
		n.spans[i-1] = left.spans[len(left.spans)-1]
		left.spans = left.spans[:len(left.spans)-1]
		if left.kids != nil {
			last := len(left.kids) - 1
			child.kids = slices.Insert(child.kids, 0, left.kids[last])
			left.kids = slices.Delete(left.kids, last, last+1)
		}
	case i < len(n.spans) && len(n.kids[i+1].spans) > minSpans:
		right := n.kids[i+1]
		child.spans = append(child.spans, n.spans[i])
		n.spans[i] = right.spans[0]
		right.spans = slices.Delete(right.spans, 0, 1)
		if right.kids != nil {
			child.kids = append(child.kids, right.kids[0])
			right.kids = slices.Delete(right.kids, 0, 1)
		}
	default:
		if i == len(n.spans) {
			i--
		}
		left, right := n.kids[i], n.kids[i+1]
		left.spans = append(append(left.spans, n.spans[i]), right.spans...)
		left.kids = append(left.kids, right.kids...)
		n.spans = slices.Delete(n.spans, i, i+1)
		n.kids = slices.Delete(n.kids, i+1, i+2)
	}
}
