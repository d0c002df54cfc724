package allocator

import (
	"net/netip"
	"strconv"
	"time"
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

	// Exclude lists addresses of Ranges that the pool does not have after all.
	// Parts outside of Ranges mean nothing. A holder of an address that becomes
	// excluded is displaced, as if the pool had shrunk.
	Exclude []Range
	// Reserve keeps addresses for owners that may not exist yet.
	Reserve []Reservation
	// Order is how the pool chooses among its free addresses.
	Order Order
	// Drain closes the pool: those who hold an address of it keep it, and
	// nobody gets one, not even by name, by reservation or by sharing.
	Drain bool
	// Quarantine is how long an address rests after its last holder let it go.
	// Until then only that holder can have it again. Zero: not at all.
	Quarantine time.Duration
	// LimitPerNamespace is how many addresses of the pool the owners of one
	// namespace may hold together; one that several of them share counts once.
	// A request beyond it fails with a LimitError. Who holds more when the limit
	// comes or sinks keeps them. Zero: no limit. See also Limits.
	LimitPerNamespace int
	// Displaced says what becomes of holders when an edit takes the address out
	// of the pool, or when the pool is removed.
	Displaced Policy
	// Source gives the addresses of the pool in place of Ranges, which must be
	// empty then, as must Exclude and Reserve. See the interface.
	Source Source
}

// Reservation keeps an address of a pool for an owner, whether that exists yet
// or not. Nobody else gets it, though one who holds it already keeps it until
// release. The owner gets it with the first request that it fits, before any
// other address and even from a Manual pool; scope, drain and limits bind as
// ever. Several owners of one address are several reservations: if they share a
// SharingKey, they hold it together.
type Reservation struct {
	Addr  netip.Addr
	Owner Owner
}

// Order is how a pool chooses among its free addresses.
type Order uint8

const (
	// OrderLowest takes the first free address in the order of Ranges. The default.
	OrderLowest Order = iota
	// OrderSpread takes the first free address from a place on that depends on
	// the name of the owner alone, so that an owner that is made again, or
	// served by another process, tends to get the same address again.
	OrderSpread
)

// String returns "lowest" or "spread".
func (o Order) String() string {
	switch o {
	case OrderLowest:
		return "lowest"
	case OrderSpread:
		return "spread"
	default:
		return "Order(" + strconv.Itoa(int(o)) + ")"
	}
}

// Policy is what becomes of the holders that a change of pools displaces.
type Policy uint8

const (
	// PolicyReassign ends the holding; the next Assign finds another address. The default.
	PolicyReassign Policy = iota
	// PolicyKeep lets the holder keep its addresses under the name of the pool
	// until it releases them, unless one of them is in another pool now. Nobody
	// can join it there. The policy is that of the pool as edited, and for a
	// pool that was removed the one it had. Adopt honours it as well, for a pool
	// that exists: a record that claims the pool is believed.
	PolicyKeep
)

// String returns "reassign" or "keep".
func (p Policy) String() string {
	switch p {
	case PolicyReassign:
		return "reassign"
	case PolicyKeep:
		return "keep"
	default:
		return "Policy(" + strconv.Itoa(int(p)) + ")"
	}
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
	// It matters when that pool is opaque, has a Source, or keeps displaced
	// holders. Empty: Pool.
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
	// The slice belongs to the caller, but for what Allocator.All yields.
	Addrs []netip.Addr
}

// Usage counts the addresses of one pool.
type Usage struct{ V4, V6 Count }

// Count counts distinct addresses of one family: one that is shared counts
// once. Every field is exact up to 2^63-1 and stays there above.
//
// Kept are the addresses that nobody holds and that are not free either: they
// are reserved or rest in quarantine. Total is Used and Free and Kept. Drain
// changes none of them. Addresses that are held under the name of the pool
// outside of its ranges, see Pool.Opaque, Policy and Source, are Total and Used.
type Count struct{ Total, Used, Free, Kept int64 }
