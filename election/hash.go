package election

import (
	"bytes"
	"crypto/sha256"
	"net/netip"
	"slices"
	"strings"
)

const (
	// maxSuffix is the length of "#" and the longest text of an address.
	maxSuffix = 1 + len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
	// shortName is the longest node name that is hashed in one piece. It covers
	// every DNS name (253 octets); longer names are hashed piecewise.
	shortName = 256
)

// digest is the place of a node in the order for one address.
type digest [sha256.Size]byte

// hasher computes the digests of nodes for one address. It lives on the stack
// of the caller.
type hasher struct {
	suffix [maxSuffix]byte // "#" and the address
	length int             // of suffix
	buf    [shortName + maxSuffix]byte
}

// init prepares h for addr. It reports false for an address that cannot be
// elected for: the zero Addr, or one with a zone.
func (h *hasher) init(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	h.suffix[0] = '#'
	h.length = len(addr.Unmap().AppendTo(h.suffix[:1]))
	return true
}

// sum returns the digest of node.
func (h *hasher) sum(node string) digest {
	if len(node) > shortName {
		return longSum(node, h.suffix[:h.length])
	}
	n := copy(h.buf[:], node)
	n += copy(h.buf[n:], h.suffix[:h.length])
	return sha256.Sum256(h.buf[:n])
}

// longSum hashes a node name of any length through a small buffer.
func longSum(node string, suffix []byte) (sum digest) {
	var buf [shortName]byte
	h := sha256.New()
	for len(node) > 0 {
		n := copy(buf[:], node)
		h.Write(buf[:n])
		node = node[n:]
	}
	h.Write(suffix)
	h.Sum(sum[:0])
	return sum
}

// Winner returns the first node in the order of [Rank] without sorting and
// without allocating. It reports false if there is no node, or if addr is not
// usable (invalid, or with a zone).
func Winner(addr netip.Addr, nodes []string) (node string, ok bool) {
	var h hasher
	if !h.init(addr) {
		return "", false
	}
	var best digest
	for _, name := range nodes {
		if name == "" {
			continue
		}
		sum := h.sum(name)
		if !ok || before(sum, name, best, node) {
			best, node, ok = sum, name, true
		}
	}
	return node, ok
}

// Rank appends to dst the nodes in the order in which they may hold addr, the
// holder first, and returns the extended slice. Names that occur twice are
// appended once. It appends nothing if addr is not usable (invalid, or with a
// zone).
func Rank(dst []string, addr netip.Addr, nodes []string) []string {
	var h hasher
	if !h.init(addr) {
		return dst
	}
	ranked := make([]entry, 0, len(nodes))
	for _, name := range nodes {
		if name != "" {
			ranked = append(ranked, entry{sum: h.sum(name), node: name})
		}
	}
	ranked = order(ranked)
	dst = slices.Grow(dst, len(ranked))
	for _, e := range ranked {
		dst = append(dst, e.node)
	}
	return dst
}

// entry is a candidate while it is being ordered.
type entry struct {
	sum    digest
	node   string
	weight int
	holds  bool
}

// order sorts entries and drops all but the first of those with one name.
func order(entries []entry) []entry {
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case goesBefore(&a, &b):
			return -1
		case goesBefore(&b, &a):
			return 1
		}
		return 0
	})
	return slices.CompactFunc(entries, func(a, b entry) bool { return a.node == b.node })
}

// goesBefore orders by who holds the address (if that counts), weight (highest
// first), digest and name.
func goesBefore(a, b *entry) bool {
	switch {
	case a.holds != b.holds:
		return a.holds
	case a.weight != b.weight:
		return a.weight > b.weight
	default:
		return before(a.sum, a.node, b.sum, b.node)
	}
}

// before reports whether node a goes before node b. The names decide only if
// the digests are equal, which for different names would be a collision of
// SHA-256; the order is total all the same.
func before(sumA digest, a string, sumB digest, b string) bool {
	if c := bytes.Compare(sumA[:], sumB[:]); c != 0 {
		return c < 0
	}
	return strings.Compare(a, b) < 0
}
