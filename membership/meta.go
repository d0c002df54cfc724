package membership

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// The description of a member, carried as memberlist's node metadata:
//
//	magic(1) version(1) { type(1) length(2, big endian) value }*
//
// Fields of unknown type are skipped, so that a later Herald may add some. The
// version changes only if older members must not try to understand.
const (
	metaMagic   = 0xA7
	metaVersion = 1

	// metaMax is the space that memberlist gives; metaLinksMax is what the
	// links may fill of it, the rest is kept for fields to come.
	metaMax      = 512
	metaLinksMax = 460

	fieldFlags = 1 // one octet or more: bit 0 of the first is "eligible"
	fieldLinks = 2 // bits(1), then hashed names of that many bits each, ascending

	flagEligible = 1 << 0

	fieldHeader = 3
	metaHeader  = 2
)

// Link names are hashed to at most 32 bits, fewer if there are many. With
// fewer than 12 bits answers would be guesses, so a node with more links than
// fit says nothing about them. 18 bits are left with 200 links: the chance
// that HasLink is wrong about a link that is down is 200 in 262144.
const (
	maxLinkBits = 32
	minLinkBits = 12
)

// description is what a member says of itself.
type description struct {
	eligible bool
	links    *linkSet // nil: every link
}

// linkSet is an immutable set of hashed link names.
type linkSet struct {
	bits uint8
	ids  []uint32 // ascending, of so many bits
}

// newLinkSet hashes names. It returns nil if there are too many.
func newLinkSet(names []string) *linkSet {
	unique := slices.Clone(names)
	slices.Sort(unique)
	unique = slices.Compact(unique)
	bits := maxLinkBits
	if n := len(unique); n > 0 {
		bits = min(bits, (metaLinksMax-1)*8/n)
	}
	if bits < minLinkBits {
		return nil
	}
	set := &linkSet{bits: uint8(bits), ids: make([]uint32, 0, len(unique))}
	for _, name := range unique {
		set.ids = append(set.ids, linkID(name, set.bits))
	}
	slices.Sort(set.ids)
	set.ids = slices.Compact(set.ids)
	return set
}

func linkID(name string, bits uint8) uint32 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint32(sum[:]) >> (maxLinkBits - bits)
}

// has reports whether name is in the set; nil is the set of all names.
func (s *linkSet) has(name string) bool {
	if s == nil {
		return true
	}
	_, ok := slices.BinarySearch(s.ids, linkID(name, s.bits))
	return ok
}

func (s *linkSet) equal(o *linkSet) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.bits == o.bits && slices.Equal(s.ids, o.ids)
}

func (d description) equal(o description) bool {
	return d.eligible == o.eligible && d.links.equal(o.links)
}

// encode returns the metadata for d, at most metaMax octets.
func (d description) encode() []byte {
	out := []byte{metaMagic, metaVersion}
	var flags byte
	if d.eligible {
		flags |= flagEligible
	}
	out = appendField(out, fieldFlags, []byte{flags})
	if d.links != nil {
		out = appendField(out, fieldLinks, d.links.encode())
	}
	return out
}

func appendField(out []byte, kind byte, value []byte) []byte {
	out = append(out, kind)
	out = binary.BigEndian.AppendUint16(out, uint16(len(value)))
	return append(out, value...)
}

// encode packs the ids, most significant bit first.
func (s *linkSet) encode() []byte {
	out := make([]byte, 1, 1+(len(s.ids)*int(s.bits)+7)/8)
	out[0] = s.bits
	var acc uint64 // the low "fill" bits wait to be written
	fill := 0
	for _, id := range s.ids {
		acc = acc<<s.bits | uint64(id)
		fill += int(s.bits)
		for fill >= 8 {
			fill -= 8
			out = append(out, byte(acc>>fill))
		}
	}
	if fill > 0 {
		out = append(out, byte(acc<<(8-fill)))
	}
	return out
}

// decodeMeta reads the metadata of a member. It reports false for metadata that
// is not ours or damaged; such a member counts as one that says nothing.
func decodeMeta(meta []byte) (description, bool) {
	if len(meta) < metaHeader || meta[0] != metaMagic || meta[1] != metaVersion {
		return description{}, false
	}
	d := description{eligible: true}
	for rest := meta[metaHeader:]; len(rest) > 0; {
		if len(rest) < fieldHeader {
			return description{}, false
		}
		kind, length := rest[0], int(binary.BigEndian.Uint16(rest[1:]))
		rest = rest[fieldHeader:]
		if length > len(rest) {
			return description{}, false
		}
		value := rest[:length]
		rest = rest[length:]
		switch kind {
		case fieldFlags:
			if length < 1 {
				return description{}, false
			}
			d.eligible = value[0]&flagEligible != 0
		case fieldLinks:
			links, ok := decodeLinks(value)
			if !ok {
				return description{}, false
			}
			d.links = links
		}
	}
	return d, true
}

func decodeLinks(value []byte) (*linkSet, bool) {
	if len(value) < 1 || value[0] < minLinkBits || value[0] > maxLinkBits {
		return nil, false
	}
	set := &linkSet{bits: value[0]}
	set.ids = make([]uint32, 0, (len(value)-1)*8/int(set.bits))
	var acc uint64
	fill := 0
	for _, b := range value[1:] {
		acc = acc<<8 | uint64(b)
		fill += 8
		if fill < int(set.bits) {
			continue
		}
		fill -= int(set.bits)
		id := uint32(acc >> fill)
		acc &= 1<<fill - 1
		if n := len(set.ids); n > 0 && id <= set.ids[n-1] {
			return nil, false // not ascending
		}
		set.ids = append(set.ids, id)
	}
	if fill >= 8 || acc != 0 {
		return nil, false // padding must be short and zero
	}
	return set, true
}
