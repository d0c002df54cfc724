package bgp

import (
	"encoding"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// Timers and limits of the protocol, and what an unset field of a [Peer] means.
const (
	DefaultPort         = 179
	DefaultHoldTime     = 90 * time.Second  // RFC 4271 section 10
	DefaultRestartTime  = 120 * time.Second // of graceful restart, as FRR
	MinHoldTime         = 3 * time.Second   // RFC 4271 section 4.2; 0 is legal too
	MaxHoldTime         = 65535 * time.Second
	MaxRestartTime      = 4095 * time.Second // RFC 4724 section 3: 12 bits
	MaxPassword         = 80                 // bytes: TCP_MD5SIG_MAXKEYLEN of Linux
	maxInterfaceNameLen = 15                 // IFNAMSIZ-1 of Linux
)

// DynamicASN says which AS numbers a session accepts when the number of the
// peer is not fixed.
type DynamicASN string

const (
	Internal DynamicASN = "internal" // that of the session's own side
	External DynamicASN = "external" // every other
)

// Families is a set of address families (AFI/SAFI) of unicast routes.
type Families uint8

const (
	IPv4 Families = 1 << iota
	IPv6
)

// Has reports whether every family of f is in the set.
func (s Families) Has(f Families) bool { return s&f == f }

func (s Families) String() string {
	switch s {
	case IPv4:
		return "ipv4"
	case IPv6:
		return "ipv6"
	case IPv4 | IPv6:
		return "ipv4,ipv6"
	default:
		return ""
	}
}

// FamilyOf returns the family of an address; an IPv4-mapped one is IPv4.
func FamilyOf(addr netip.Addr) Families {
	if addr.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Secret is text that formats as "***", so that it is in no log, event or error.
type Secret string

const hidden = "***"

func (s Secret) String() string               { return hidden }
func (s Secret) GoString() string             { return hidden }
func (s Secret) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(hidden)) }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

var _ encoding.TextMarshaler = Secret("")

// Peer describes one session. Everything that is not required may be zero.
type Peer struct {
	// Name identifies the peer to the caller. Required, unique.
	Name string

	// LocalASN is the AS number of this side. Required.
	LocalASN uint32
	// LocalASNOverride is shown to this peer instead of LocalASN ("local-as ...
	// no-prepend replace-as" elsewhere): the peer sees this number only.
	LocalASNOverride uint32
	// PeerASN is the AS number of the other side. Either it or Dynamic is required.
	PeerASN uint32
	// Dynamic accepts any number of the kind; another kind never comes up.
	Dynamic DynamicASN

	// Addr is the address to peer with. Either it or Interface is required.
	// A link-local address carries its zone.
	Addr netip.Addr
	// Interface is the link on whose other end the peer is ("unnumbered"). It
	// must have exactly one BGP speaker there, whose link-local address is found
	// out. Routes of both families go over the session unless Families says less.
	Interface string
	// Port is the TCP port of the peer; 0 means 179.
	Port uint16
	// Source is an address of this node. If it is of Addr's family the session
	// comes from it; of the other family it is the next hop of the routes of that
	// family. Unset: the kernel chooses.
	Source netip.Addr
	// VRF is the device to bind the session to, a VRF or any other link.
	VRF string
	// Passive waits for the peer instead of connecting to it, on Source if it is
	// set, else on every address of the family.
	Passive bool
	// ListenPort is the port that a passive session listens on; 0 means 179.
	ListenPort uint16
	// EBGPMultihop allows an external peer to be more than one hop away.
	EBGPMultihop bool

	// Password is the key of TCP MD5 (RFC 2385), 1 to 80 bytes.
	Password Secret
	// PasswordFile holds the password instead: its content without one line end.
	// It is read before each connection and looked at again from time to time; a
	// new content resets this session. While it is missing or empty the peer is
	// held back: there is never a session without the password.
	PasswordFile string

	// HoldTime is 0 (never) or 3 s to 65535 s in whole seconds. Unset: three times
	// KeepaliveTime, or 90 s without it.
	HoldTime *time.Duration
	// KeepaliveTime is at most HoldTime, in whole seconds. Unset or 0: a third
	// of the hold time.
	KeepaliveTime *time.Duration
	// ConnectRetry is the pause between attempts to connect, 1 s to 65535 s in
	// whole seconds. Unset: the engine's choice.
	ConnectRetry *time.Duration

	// RouterID is the BGP identifier of this side, in the form of an IPv4 address.
	// Unset: that of the engine.
	RouterID netip.Addr
	// GracefulRestart asks the peer to keep the routes for RestartTime when the
	// session breaks without a notification (RFC 4724).
	GracefulRestart bool
	// RestartTime is at most 4095 s in whole seconds; 0 means 120 s.
	RestartTime time.Duration
	// Families are the families of routes that the session carries. Zero: that of
	// Addr, or both on an Interface.
	Families Families

	// BFDProfile is the name of the liveness profile of the peer. An engine that
	// neither runs BFD nor is told the result, see [PathSetter], refuses it.
	BFDProfile string
}

// ASN returns the AS number that this side shows to the peer.
func (p *Peer) ASN() uint32 {
	if p.LocalASNOverride != 0 {
		return p.LocalASNOverride
	}
	return p.LocalASN
}

// IsInternal reports whether the peer is in the AS of this side (iBGP).
func (p *Peer) IsInternal() bool {
	return p.Dynamic == Internal || p.Dynamic == "" && p.PeerASN == p.ASN()
}

// EffectiveFamilies returns Families, or what zero means.
func (p *Peer) EffectiveFamilies() Families {
	switch {
	case p.Families != 0:
		return p.Families
	case p.Interface != "":
		return IPv4 | IPv6
	default:
		return FamilyOf(p.Addr)
	}
}

// EffectiveTimers returns the hold and keepalive time that this side proposes.
func (p *Peer) EffectiveTimers() (hold, keepalive time.Duration) {
	switch {
	case p.HoldTime != nil:
		hold = *p.HoldTime
	case p.KeepaliveTime != nil && *p.KeepaliveTime != 0:
		hold = 3 * *p.KeepaliveTime
	case p.KeepaliveTime != nil:
		hold = 0
	default:
		hold = DefaultHoldTime
	}
	if p.KeepaliveTime != nil && *p.KeepaliveTime != 0 {
		return hold, *p.KeepaliveTime
	}
	return hold, hold / 3
}

// EffectivePort returns Port, or 179.
func (p *Peer) EffectivePort() uint16 { return orDefault(p.Port) }

// EffectiveListenPort returns ListenPort, or 179.
func (p *Peer) EffectiveListenPort() uint16 { return orDefault(p.ListenPort) }

func orDefault(port uint16) uint16 {
	if port == 0 {
		return DefaultPort
	}
	return port
}

// EffectiveRestartTime returns RestartTime, or 120 s.
func (p *Peer) EffectiveRestartTime() time.Duration {
	if p.RestartTime == 0 {
		return DefaultRestartTime
	}
	return p.RestartTime
}

// Endpoint names the other side for messages: an address, or an interface.
func (p *Peer) Endpoint() string {
	var b strings.Builder
	if p.Interface != "" {
		b.WriteString(p.Interface)
	} else {
		b.WriteString(netip.AddrPortFrom(p.Addr, p.EffectivePort()).String())
	}
	if p.VRF != "" {
		b.WriteString(" in " + p.VRF)
	}
	return b.String()
}

// Equal reports whether both describe the same session in the same way.
func (p *Peer) Equal(o *Peer) bool {
	a, b := *p, *o
	for _, t := range []struct{ a, b **time.Duration }{
		{&a.HoldTime, &b.HoldTime},
		{&a.KeepaliveTime, &b.KeepaliveTime},
		{&a.ConnectRetry, &b.ConnectRetry},
	} {
		if (*t.a == nil) != (*t.b == nil) || *t.a != nil && **t.a != **t.b {
			return false
		}
		*t.a, *t.b = nil, nil
	}
	return a == b
}

// LogValue names the peer without its secrets.
func (p Peer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.Name), slog.String("endpoint", p.Endpoint()),
		slog.Uint64("localASN", uint64(p.ASN())), slog.Uint64("peerASN", uint64(p.PeerASN)))
}
