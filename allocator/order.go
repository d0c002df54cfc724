package allocator

import "math/bits"

// spot returns the position in [0, last] from which OrderSpread looks for a
// free address. It depends on the name alone, so it is the same in every
// process; this must not change between versions.
func spot(o Owner, last u128) u128 {
	// FNV-1a, then two rounds of the SplitMix64 finalizer: FNV alone leaves
	// names that differ in the last letter close together.
	h := uint64(14695981039346656037)
	for i := range len(o) {
		h = (h ^ uint64(o[i])) * 1099511628211
	}
	lo := mix(h)
	if last.hi == 0 {
		return u128{lo: scale(lo, last.lo)}
	}
	pos := u128{hi: scale(mix(lo), last.hi), lo: lo}
	if last.less(pos) {
		pos.lo = scale(lo, last.lo)
	}
	return pos
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// scale maps all of uint64 evenly to [0, last].
func scale(x, last uint64) uint64 {
	if last+1 == 0 {
		return x
	}
	hi, _ := bits.Mul64(x, last+1)
	return hi
}
