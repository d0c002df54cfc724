package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// What the errors of this package wrap, for errors.Is.
var (
	// ErrExhausted: a pool would serve the request, but has no free address.
	ErrExhausted = errors.New("no free address")
	// ErrNoPool: the named pool does not exist, or none serves the request.
	ErrNoPool = errors.New("no pool")
	// ErrOpaque: the named pool has no accepted version, so it gives nothing new.
	ErrOpaque = errors.New("pool without an accepted version")
	// ErrConflict: somebody else holds the address. See ConflictError.
	ErrConflict = errors.New("address in use")
	// ErrNotInPool: no pool, or not the named one, contains the address.
	ErrNotInPool = errors.New("address not in pool")
	// ErrScope: the pool does not serve that namespace or those labels.
	ErrScope = errors.New("out of the scope of the pool")
	// ErrFamily: the wanted families do not fit the pools or the addresses.
	ErrFamily = errors.New("address family not available")
	// ErrDrained: the pool is being drained and gives nothing new.
	ErrDrained = errors.New("pool is drained")
	// ErrLimit: the namespace would hold more than it may. See LimitError.
	ErrLimit = errors.New("limit of the namespace reached")
	// ErrSource: it is the pool's Source that must be asked. See SourceError.
	ErrSource = errors.New("address source")
	// ErrInvalid: the request contradicts itself or lacks something.
	ErrInvalid = errors.New("invalid request")
)

// What a PoolError wraps.
var (
	ErrPoolName     = errors.New("name is empty")
	ErrPoolTwice    = errors.New("name is used twice")
	ErrPoolEmpty    = errors.New("no addresses")
	ErrPoolRange    = errors.New("bad range")
	ErrPoolPriority = errors.New("priority is negative")
	ErrPoolScope    = errors.New("nil service selector")
	ErrPoolOverlap  = errors.New("ranges overlap")
	ErrPoolExclude  = errors.New("bad exclusion")
	ErrPoolReserve  = errors.New("bad reservation")
	ErrPoolSetting  = errors.New("bad setting")
)

// ParseError tells why a text is no range.
type ParseError struct {
	Text   string // as it was given
	Reason string
}

func (e *ParseError) Error() string { return fmt.Sprintf("address range %q: %s", e.Text, e.Reason) }

// PoolError is one fault of one pool.
type PoolError struct {
	// Pool is the pool at fault. Of two that overlap it is the later one in the
	// list, so a list in order of age blames the younger.
	Pool string
	// Range is the range at fault; zero when it is not about a range.
	Range Range
	// Other is the pool that Range overlaps, which may be Pool itself, and
	// OtherRange the range in it. Empty for other faults.
	Other      string
	OtherRange Range
	// Err wraps one of the ErrPool errors.
	Err error
}

func (e *PoolError) Error() string {
	switch {
	case e.Other == e.Pool && e.Other != "":
		return fmt.Sprintf("pool %q: its ranges %s and %s overlap", e.Pool, e.Range, e.OtherRange)
	case e.Other != "":
		return fmt.Sprintf("pool %q: range %s overlaps %s of pool %q", e.Pool, e.Range, e.OtherRange, e.Other)
	default:
		return fmt.Sprintf("pool %q: %v", e.Pool, e.Err)
	}
}

func (e *PoolError) Unwrap() error { return e.Err }

// Reason is a code for why a pool or an address did not serve a request.
type Reason string

// Reasons of a Verdict.
const (
	ReasonUsed          Reason = "used"          // the request is or would be served from here
	ReasonOutranked     Reason = "outranked"     // could serve; another pool comes first
	ReasonFull          Reason = "full"          // no free address of Verdict.Family
	ReasonMissingFamily Reason = "missingFamily" // no address of Verdict.Family at all
	ReasonManual        Reason = "manual"        // not for automatic choice
	ReasonScope         Reason = "scope"         // serves other namespaces or labels
	ReasonOpaque        Reason = "opaque"        // no accepted version
	ReasonNotNamed      Reason = "notNamed"      // the request names another pool
	ReasonNotInPool     Reason = "notInPool"     // does not contain the wanted addresses
	ReasonConflict      Reason = "conflict"      // a wanted address is in use, see Verdict.Err
	ReasonDrained       Reason = "drained"       // gives nothing new
	ReasonLimit         Reason = "limit"         // the namespace holds what it may, see Verdict.Err
	ReasonSource        Reason = "source"        // its source is to be asked, or has refused, see Verdict.Err
)

// Reasons of a ConflictError.
const (
	ReasonBusy        Reason = "busy"        // held, and nobody wants to share
	ReasonHolderAlone Reason = "holderAlone" // the holder has no sharing key
	ReasonGroup       Reason = "group"       // held by a group; the request has no sharing key
	ReasonSharingKey  Reason = "sharingKey"  // held by another group
	ReasonBackendKey  Reason = "backendKey"  // same sharing key, other backend key
	ReasonPort        Reason = "port"        // a member of the group uses the port
	ReasonReserved    Reason = "reserved"    // nobody holds it, and it is reserved for Holder
	ReasonQuarantine  Reason = "quarantine"  // nobody holds it, and it rests for Holder until Until
)

// ConflictError tells who is in the way. It is an ErrConflict.
type ConflictError struct {
	Addr   netip.Addr
	Holder Owner // of several, the one that has the port, else the first by name
	Port   Port  // with ReasonPort
	Reason Reason
	// Key is the holder's sharing key, empty if it has none.
	Key   string
	Until time.Time // with ReasonQuarantine: when that is over
}

func (e *ConflictError) Error() string {
	switch e.Reason {
	case ReasonHolderAlone:
		return fmt.Sprintf("%s is in use by %s, which has no sharing key", e.Addr, e.Holder)
	case ReasonGroup:
		return fmt.Sprintf("%s is in use by %s, which shares it with group %q only", e.Addr, e.Holder, e.Key)
	case ReasonSharingKey:
		return fmt.Sprintf("%s is in use by %s with another sharing key, %q", e.Addr, e.Holder, e.Key)
	case ReasonBackendKey:
		return fmt.Sprintf("%s is in use by %s, which has sharing key %q too, but another backend key", e.Addr, e.Holder, e.Key)
	case ReasonPort:
		return fmt.Sprintf("port %s of %s is in use by %s", e.Port, e.Addr, e.Holder)
	case ReasonReserved:
		return fmt.Sprintf("%s is reserved for %s", e.Addr, e.Holder)
	case ReasonQuarantine:
		return fmt.Sprintf("%s was released by %s and rests until %s", e.Addr, e.Holder, e.Until.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("%s is in use by %s", e.Addr, e.Holder)
	}
}

// Is makes every ConflictError an ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnmetError tells why no pool serves a request that names no address. It
// wraps ErrLimit, ErrExhausted, ErrSource, ErrFamily or ErrNoPool: of several
// causes the first in this order.
type UnmetError struct {
	// Families are those that were wanted.
	Families []Family
	// Verdicts holds the answer of every pool that was asked, in the order of
	// choice: of the named pool alone when the request names one.
	Verdicts []Verdict
	Err      error
}

func (e *UnmetError) Unwrap() error { return e.Err }

// Error gives the cause first and then what the pools say, those that come
// closest first, with at most three names a reason.
func (e *UnmetError) Error() string {
	var b strings.Builder
	switch {
	case errors.Is(e.Err, ErrLimit):
		b.WriteString(ErrLimit.Error())
	case errors.Is(e.Err, ErrSource):
		b.WriteString("no address from a source")
	case errors.Is(e.Err, ErrFamily) && len(e.Families) == 2:
		b.WriteString("no single pool has both families")
	case errors.Is(e.Err, ErrNoPool) && len(e.Verdicts) == 0:
		b.WriteString("no pool is configured")
	case errors.Is(e.Err, ErrNoPool):
		b.WriteString("no pool serves the request")
	default:
		b.WriteString(e.Err.Error())
	}
	sep := ": "
	for _, reason := range []Reason{
		ReasonLimit, ReasonFull, ReasonMissingFamily, ReasonSource, ReasonScope, ReasonManual, ReasonDrained, ReasonOpaque,
	} {
		for _, text := range textsOf(e.Verdicts, reason) {
			b.WriteString(sep + text)
			sep = "; "
		}
	}
	return b.String()
}

// textsOf joins the verdicts of one reason that say the same, IPv4 first. Of
// what is said in many ways it gives the first three.
func textsOf(verdicts []Verdict, reason Reason) []string {
	const most = 3
	var texts []string
	names := map[string][]string{}
	for _, family := range []Family{0, IPv4, IPv6} {
		for _, v := range verdicts {
			if v.Reason != reason || v.Family != family {
				continue
			}
			text := v.text()
			if names[text] == nil && len(texts) < most {
				texts = append(texts, text)
			}
			names[text] = append(names[text], fmt.Sprintf("%q", v.Pool))
		}
	}
	for i, text := range texts {
		texts[i] = poolList(names[text]) + ": " + text
	}
	return texts
}

// poolList names at most three.
func poolList(names []string) string {
	const most = 3
	switch n := len(names); {
	case n == 1:
		return "pool " + names[0]
	case n > most:
		return fmt.Sprintf("pools %s and %d more", strings.Join(names[:most], ", "), n-most)
	default:
		return "pools " + strings.Join(names, ", ")
	}
}
