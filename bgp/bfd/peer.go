package bfd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// What unset fields of a [Peer] mean, and the limits of those that are set. Both
// are those of FRR, and so of MetalLB's BFDProfile.
const (
	DefaultInterval   = 300 * time.Millisecond
	DefaultMultiplier = 3
	DefaultMinTTL     = 254
	MinInterval       = 10 * time.Millisecond
	MaxInterval       = 60 * time.Second
	MaxMultiplier     = 255
)

// ErrPeer is wrapped by the errors about peers that cannot be served.
var ErrPeer = errors.New("bfd: bad peer")

// A PeerError says what is wrong with a peer. It wraps ErrPeer, and
// [errors.ErrUnsupported] where the peer asks for what this package does not do.
type PeerError struct {
	Peer Peer // as it was given
	Err  error
}

func (e *PeerError) Error() string   { return fmt.Sprintf("%v %v: %v", ErrPeer, e.Peer, e.Err) }
func (e *PeerError) Unwrap() []error { return []error{ErrPeer, e.Err} }

// A Peer is a remote system to watch. Addr is required, all else may be zero.
// Address, Local, Interface and Multihop together are the identity of a session;
// the other fields may change while it is up.
type Peer struct {
	// Addr is the address of the remote system. A link-local one needs Interface,
	// or has the name of the interface as its zone.
	Addr netip.Addr

	// Local is the address that packets are sent from and that they must be
	// addressed to. Invalid means what the kernel selects, and any.
	Local netip.Addr

	// Interface is the name of the link that packets must leave and arrive on. It
	// need not exist (yet). Empty means the one of the route, and any.
	Interface string

	// Multihop says that routers may stand between the systems (RFC 5883). Then
	// the port is 4784 instead of 3784 and MinTTL replaces the demand for a TTL of
	// 255 (RFC 5881 section 5).
	Multihop bool

	// MinTTL is the least TTL or hop limit of received packets if Multihop is set,
	// 1 to 254: packets start with 255 and each router takes one. Zero means 254,
	// one router, as in FRR. BIRD starts with the 64 of its host, so that a session
	// with it needs 64 less the number of routers. Without Multihop it is ignored.
	MinTTL int

	// Transmit is the shortest time between packets that are sent (Desired Min TX
	// Interval), Receive the shortest between packets that are received (Required
	// Min RX Interval): the slower wish of the two systems holds in each
	// direction. Whole microseconds from 10 ms to 60 s; zero means 300 ms. While a
	// session is not up, at most one packet is sent in a second.
	Transmit, Receive time.Duration

	// Multiplier is how many packets in a row the remote system must miss to take
	// the session for down, 1 to 255. Zero means 3.
	Multiplier int

	// Passive says not to send before the remote system has. One of the two must
	// be active (RFC 5880 section 6.1).
	Passive bool

	// Disabled holds the session in state AdminDown, and says so to the remote
	// system.
	Disabled bool

	// Echo asks for the echo function (RFC 5880 section 6.4). It is refused, with
	// an error that wraps errors.ErrUnsupported; see the package documentation.
	Echo bool

	// Auth authenticates the packets. The zero value means that they are not.
	Auth Auth
}

// String returns the identity, such as "192.0.2.1 on eth0" or
// "198.51.100.7 from 192.0.2.2 (multihop)".
func (p Peer) String() string {
	var b strings.Builder
	b.WriteString(p.Addr.String())
	if p.Interface != "" {
		b.WriteString(" on " + p.Interface)
	}
	if p.Local.IsValid() {
		b.WriteString(" from " + p.Local.String())
	}
	if p.Multihop {
		b.WriteString(" (multihop)")
	}
	return b.String()
}

// LogValue shows the identity in logs.
func (p Peer) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Normalize returns the peer with defaults filled in, addresses unmapped and a
// zone turned into the interface: what [Status] shows. The error is a
// *[PeerError] that names every fault.
func (p Peer) Normalize() (Peer, error) {
	given := p
	var errs []error
	if zone := p.Addr.Zone(); zone != "" {
		if p.Interface != "" && p.Interface != zone {
			errs = append(errs, fmt.Errorf("interface %q contradicts the zone of the address", p.Interface))
		}
		p.Interface = zone
	}
	p.Addr, p.Local = p.Addr.Unmap().WithZone(""), p.Local.Unmap().WithZone("")
	errs = append(errs, p.checkPath())

	p.Transmit = cmp.Or(p.Transmit, DefaultInterval)
	p.Receive = cmp.Or(p.Receive, DefaultInterval)
	p.Multiplier = cmp.Or(p.Multiplier, DefaultMultiplier)
	errs = append(
		errs,
		checkInterval("Transmit", p.Transmit),
		checkInterval("Receive", p.Receive),
		checkRange("Multiplier", p.Multiplier, MaxMultiplier),
		p.Auth.validate(),
	)
	if p.Multihop {
		p.MinTTL = cmp.Or(p.MinTTL, DefaultMinTTL)
		errs = append(errs, checkRange("MinTTL", p.MinTTL, 254))
	} else {
		p.MinTTL = 255
	}
	if p.Echo {
		errs = append(errs, p.echoError())
	}
	if err := errors.Join(errs...); err != nil {
		return given, &PeerError{Peer: given, Err: err}
	}
	return p, nil
}

// checkPath checks the identity.
func (p Peer) checkPath() error {
	switch {
	case !p.Addr.IsValid():
		return errors.New("no Addr")
	case p.Addr.IsUnspecified() || p.Addr.IsMulticast():
		return errors.New("unusable Addr: not a unicast address")
	case p.Local.IsValid() && p.Local.Is4() != p.Addr.Is4():
		return fmt.Errorf("unusable Local %v: of another family than Addr", p.Local)
	case p.Local.IsValid() && (p.Local.IsUnspecified() || p.Local.IsMulticast()):
		return fmt.Errorf("unusable Local %v: not a unicast address", p.Local)
	case p.Multihop && (p.Interface != "" || p.Addr.IsLinkLocalUnicast() && p.Addr.Is6()):
		return errors.New("an interface or a link-local address is for a single hop: unset Multihop or give a routed address")
	case p.Addr.Is6() && p.Addr.IsLinkLocalUnicast() && p.Interface == "":
		return errors.New("a link-local address needs Interface")
	}
	return nil
}

func checkInterval(name string, d time.Duration) error {
	if d < MinInterval || d > MaxInterval || d%time.Microsecond != 0 {
		return fmt.Errorf("%s is %v, must be whole microseconds from %v to %v", name, d, MinInterval, MaxInterval)
	}
	return nil
}

func checkRange(name string, n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("%s is %d, must be 1 to %d", name, n, most)
	}
	return nil
}

func (p Peer) echoError() error {
	if p.Multihop {
		return fmt.Errorf("echo over multiple hops does not exist (RFC 5883): %w", errors.ErrUnsupported)
	}
	return fmt.Errorf("the echo function is not implemented, unset Echo and set Transmit and Receive: %w", errors.ErrUnsupported)
}

// A key is the identity of a session.
type key struct {
	addr, local netip.Addr
	iface       string
	multihop    bool
}

func (k key) hops() int {
	if k.multihop {
		return 2
	}
	return 1
}

func (p Peer) key() key { return key{p.Addr, p.Local, p.Interface, p.Multihop} }

// compare orders sessions; of those with one address the more specific are first.
func (k key) compare(o key) int {
	return cmp.Or(k.addr.Compare(o.addr), cmp.Compare(o.iface, k.iface), o.local.Compare(k.local), k.hops()-o.hops())
}

// normalizeAll checks a set of peers.
func normalizeAll(peers []Peer) (map[key]Peer, error) {
	var errs []error
	all := make(map[key]Peer, len(peers))
	for _, given := range peers {
		p, err := given.Normalize()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, twice := all[p.key()]; twice {
			errs = append(errs, &PeerError{Peer: given, Err: errors.New("given twice")})
		}
		all[p.key()] = p
	}
	return all, errors.Join(errs...)
}
