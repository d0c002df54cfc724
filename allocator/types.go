package allocator

import (
	"net/netip"
	"strconv"
)

// Owner names the holder of addresses. It is opaque to this package; the
// Kubernetes adapter uses "namespace/name".
type Owner string

// Family is an address family. The zero value is none.
type Family uint8

// The two families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family of addr, and none for the zero address. An
// IPv4-mapped IPv6 address is IPv6.
func FamilyOf(addr netip.Addr) Family {
	switch {
	case addr.Is4():
		return IPv4
	case addr.Is6():
		return IPv6
	default:
		return 0
	}
}

// String returns "IPv4" or "IPv6".
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	default:
		return "Family(" + strconv.Itoa(int(f)) + ")"
	}
}

// index is 0 for IPv4 and 1 for IPv6.
func (f Family) index() int { return int(f-IPv4) / 2 }

func (f Family) other() Family { return IPv4 + IPv6 - f }

func (f Family) valid() bool { return f == IPv4 || f == IPv6 }

// Selector decides by labels, such as those of a Service. It must be
// immutable and safe for concurrent use. String appears in explanations.
type Selector interface {
	Matches(labels map[string]string) bool
	String() string
}

// Scope says whom a pool serves. Namespace and labels must both fit.
type Scope struct {
	// Namespaces lists the namespaces that the pool serves. When it is empty
	// and AnyNamespace is false, the pool serves nobody: a selector that
	// matches no namespace is not an open door.
	Namespaces []string
	// AnyNamespace makes the pool serve every namespace.
	AnyNamespace bool
	// Services lists selectors of which one must match the labels of the
	// request. Empty: any labels do.
	Services []Selector
}

// Pool is a named set of addresses with rules about who may get them.
type Pool struct {
	// Name is required and unique.
	Name string
	// Ranges is required, except for an opaque pool. Its order is the order of
	// allocation: first range first, ascending inside a range. Ranges must not
	// overlap, neither in one pool nor between two.
	Ranges []Range
	// Manual keeps the pool out of automatic choice (autoAssign: false). It
	// serves requests that name the pool or an address in it, and requests that
	// join a sharing group which holds an address in it.
	Manual bool
	// AvoidBuggyIPs excludes every IPv4 address whose last octet is 0 or 255,
	// whatever the prefix length.
	AvoidBuggyIPs bool
	// Priority orders pools: lower positive numbers first, 0 after all of them,
	// equal ones by name. Negative numbers are rejected.
	Priority int
	// Scope restricts the pool. Pools with a scope are tried before those
	// without. Nil: the pool is open to everyone.
	Scope *Scope
	// Opaque marks a pool of which only the name is known, because its only
	// version is a rejected one. Adopt accepts addresses that are claimed under
	// its name, and nothing new is given from it. Ranges are ignored.
	Opaque bool
}

// Port is what two sharers of an address must not have in common.
type Port struct {
	Protocol string // "TCP", "UDP", "SCTP"; case does not matter, empty is TCP
	Number   uint16
}

// String returns a text such as "TCP/443".
func (p Port) String() string { return p.Protocol + "/" + strconv.Itoa(int(p.Number)) }

// Request is what an owner wants.
type Request struct {
	// Owner is required.
	Owner Owner
	// Namespace and Labels are compared with the Scope of pools.
	Namespace string
	Labels    map[string]string
	// Families lists the wanted families, one or two, preferred one first. May
	// be empty when Addresses says it.
	Families []Family
	// Partial makes one of two families acceptable (PreferDualStack). The
	// missing one is added by a later Assign when the pool can give it.
	Partial bool
	// Addresses is the explicit wish for one address of each wanted family.
	// There is no fall-back when it cannot be met. Empty: any.
	Addresses []netip.Addr
	// Pool is the explicit wish for a pool, again without fall-back; it must
	// contain Addresses when both are given. Empty: any.
	Pool string
	// Claim is used by Adopt alone: the pool that the record of the past names.
	// It matters when that pool is opaque. Empty: Pool.
	Claim string
	// Ports are the ports that the owner uses on its addresses. They matter
	// with a SharingKey only; an owner without ports may share as well.
	Ports []Port
	// SharingKey names the group whose members may hold one address together:
	// same non-empty SharingKey, same BackendKey, no port in common. Empty: the
	// address is not shared.
	SharingKey string
	// BackendKey separates owners with one SharingKey that must not share after
	// all, because traffic for them ends at different sets of nodes.
	BackendKey string
}

// Assignment is what an owner holds.
type Assignment struct {
	Owner Owner
	// Pool contains all of Addrs.
	Pool string
	// Addrs holds one address, or one of each family. IPv4 comes first when the
	// pair was chosen automatically; explicit and adopted pairs keep the order
	// in which they were given, and an address that completes a pair goes last.
	// The slice belongs to the caller.
	Addrs []netip.Addr
}

// Usage counts the addresses of one pool.
type Usage struct{ V4, V6 Count }

// Count counts distinct addresses of one family: one that is shared counts
// once. Every field is exact up to 2^63-1 and stays there above.
type Count struct{ Total, Used, Free int64 }
