package allocator

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// space numbers the usable addresses of one family of one pool 0, 1, 2, … in
// the order of allocation: range after range as the pool lists them, ascending
// inside a range, addresses that AvoidBuggyIPs excludes left out. The next
// address to give is then the lowest free position, and a gap costs nothing.
type space struct {
	family Family
	skip   bool    // leave out IPv4 addresses that end in .0 or .255
	blocks []block // in the order of allocation, none empty
	last   u128    // the last position, if there is a block
	free   spanSet
	used   u128  // positions taken
	kept   int64 // positions that are neither free nor taken
}

// block is a range as a run of positions.
type block struct {
	first u128 // coordinate of the first usable address
	base  u128 // its position
}

func newSpace(f Family, ranges []Range, skip bool) space {
	s := space{family: f, skip: skip && f == IPv4}
	for _, r := range ranges {
		if FamilyOf(r.From) != f {
			continue
		}
		first, last, ok := s.coordinates(r)
		if !ok {
			continue
		}
		b := block{first: first}
		if len(s.blocks) > 0 {
			b.base = s.last.next()
		}
		s.last = b.base.add(last.sub(first))
		s.blocks = append(s.blocks, b)
	}
	if len(s.blocks) > 0 {
		s.free.insert(span{to: s.last})
	}
	return s
}

// Usable addresses have dense coordinates: their own number or, when two of
// 256 are left out, their rank among the usable ones.
const usablePer256 = 254

// coordinate returns the coordinate of a usable address, and of one that is
// not usable that of the next usable one.
func (s *space) coordinate(n u128) u128 {
	if !s.skip {
		return n
	}
	rank := n.lo >> 8 * usablePer256
	if octet := n.lo & 0xff; octet > 0 {
		rank += min(octet-1, usablePer256)
	}
	return u128{lo: rank}
}

// coordinates returns the coordinates of the first and last usable address of
// r; ok is false when it has none.
func (s *space) coordinates(r Range) (first, last u128, ok bool) {
	from, to := number(r.From), number(r.To)
	if !s.skip {
		return from, to, true
	}
	first, end := s.coordinate(from), s.coordinate(to.next())
	return first, end.prev(), first.less(end)
}

// excluded reports whether the pool contains address n and must not use it.
func (s *space) excluded(n u128) bool {
	return s.skip && buggy(s.family, n)
}

// buggy reports an IPv4 address that ends in .0 or .255.
func buggy(f Family, n u128) bool {
	return f == IPv4 && (n.lo&0xff == 0 || n.lo&0xff == 0xff)
}

// at returns the number of the address at a position.
func (s *space) at(pos u128) u128 {
	i := sort.Search(len(s.blocks), func(i int) bool { return pos.less(s.blocks[i].base) }) - 1
	coordinate := s.blocks[i].first.add(pos.sub(s.blocks[i].base))
	if !s.skip {
		return coordinate
	}
	return u128{lo: coordinate.lo/usablePer256<<8 + coordinate.lo%usablePer256 + 1}
}

// take makes a position taken, which was free or kept.
func (s *space) take(pos u128) {
	if !s.free.take(pos) {
		s.kept--
	}
	s.used = s.used.next()
}

// give makes a taken position free.
func (s *space) give(pos u128) {
	s.free.give(pos)
	s.used = s.used.prev()
}

// keep withholds a free position.
func (s *space) keep(pos u128) {
	s.free.take(pos)
	s.kept++
}

// unkeep makes a kept position free.
func (s *space) unkeep(pos u128) {
	s.free.give(pos)
	s.kept--
}

// refill makes exactly the given positions taken, and all others free.
func (s *space) refill(taken []u128) {
	slices.SortFunc(taken, u128.cmp)
	s.free, s.used, s.kept = spanSet{}, u128{lo: uint64(len(taken))}, 0
	if len(s.blocks) == 0 {
		return
	}
	next := u128{}
	for _, pos := range taken {
		if next.less(pos) {
			s.free.insert(span{next, pos.prev()})
		}
		next = pos.next()
	}
	if len(taken) == 0 || taken[len(taken)-1].less(s.last) {
		s.free.insert(span{next, s.last})
	}
}

// count saturates: a /64 has more addresses than an int64 can tell.
func (s *space) count() Count {
	if len(s.blocks) == 0 {
		return Count{}
	}
	total, used := sizeOf(s.last), s.used
	c := Count{Total: total, Used: used.saturate(), Free: total, Kept: s.kept}
	if gone := used.add(u128{lo: uint64(s.kept)}); gone != (u128{}) {
		// last + 1 - gone, without the overflow that a /0 would cause.
		c.Free = s.last.sub(gone.prev()).saturate()
	}
	return c
}

// sizeOf returns last+1, saturated.
func sizeOf(last u128) int64 {
	if n := last.saturate(); n < math.MaxInt64 {
		return n + 1
	}
	return math.MaxInt64
}

// index finds the range that contains an address, over all pools.
type index [2][]indexed

type indexed struct {
	from, to    u128
	pool        *pool
	first, base u128 // as in block
}

func newIndex(pools []*pool) *index {
	var x index
	for _, p := range pools {
		for f := range p.spaces {
			s := &p.spaces[f]
			base := u128{}
			for _, r := range p.parts {
				if FamilyOf(r.From) != s.family {
					continue
				}
				first, last, ok := s.coordinates(r)
				x[f] = append(x[f], indexed{number(r.From), number(r.To), p, first, base})
				if ok {
					base = base.add(last.sub(first)).next()
				}
			}
		}
	}
	for f := range x {
		slices.SortFunc(x[f], func(a, b indexed) int { return cmp.Or(a.from.cmp(b.from), a.to.cmp(b.to)) })
	}
	return &x
}

// find returns the pool that contains address n of family f, and its position
// there; nil when none does. usable is false for an address that the pool
// excludes.
func (x *index) find(f Family, n u128) (p *pool, pos u128, usable bool) {
	list := x[f.index()]
	i := sort.Search(len(list), func(i int) bool { return n.less(list[i].from) }) - 1
	if i < 0 || list[i].to.less(n) {
		return nil, u128{}, false
	}
	e := &list[i]
	s := &e.pool.spaces[f.index()]
	return e.pool, e.base.add(s.coordinate(n).sub(e.first)), !s.excluded(n)
}
