package allocator

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
)

// u128 is an unsigned 128-bit number: an IPv6 address, an IPv4 address in the
// low 32 bits, or a position in a space.
type u128 struct{ hi, lo uint64 }

func (x u128) cmp(y u128) int {
	switch {
	case x.hi < y.hi, x.hi == y.hi && x.lo < y.lo:
		return -1
	case x == y:
		return 0
	default:
		return 1
	}
}

func (x u128) less(y u128) bool { return x.hi < y.hi || x.hi == y.hi && x.lo < y.lo }

// add wraps around at 2^128, as sub does.
func (x u128) add(y u128) u128 {
	lo, carry := bits.Add64(x.lo, y.lo, 0)
	hi, _ := bits.Add64(x.hi, y.hi, carry)
	return u128{hi, lo}
}

func (x u128) sub(y u128) u128 {
	lo, borrow := bits.Sub64(x.lo, y.lo, 0)
	hi, _ := bits.Sub64(x.hi, y.hi, borrow)
	return u128{hi, lo}
}

func (x u128) next() u128 { return x.add(u128{lo: 1}) }
func (x u128) prev() u128 { return x.sub(u128{lo: 1}) }

// saturate returns x, or the largest int64 when x is larger.
func (x u128) saturate() int64 {
	if x.hi != 0 || x.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(x.lo)
}

// number returns the numeric value of a valid address.
func number(addr netip.Addr) u128 {
	if addr.Is4() {
		b := addr.As4()
		return u128{lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := addr.As16()
	return u128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// address is the inverse of number.
func address(f Family, n u128) netip.Addr {
	if f == IPv4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n.lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], n.hi)
	binary.BigEndian.PutUint64(b[8:], n.lo)
	return netip.AddrFrom16(b)
}
