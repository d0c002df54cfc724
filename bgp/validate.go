package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// PeerError says what is wrong with one field of one peer.
type PeerError struct {
	Peer   string // name
	Field  string // of [Peer], such as "HoldTime"
	Value  string // what it is; empty where it is nothing, or secret
	Reason string // what it would have to be, and how to get there
}

func (e *PeerError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("bgp: peer %q: %s: %s", e.Peer, e.Field, e.Reason)
	}
	return fmt.Sprintf("bgp: peer %q: %s %s: %s", e.Peer, e.Field, e.Value, e.Reason)
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *PeerError) Is(target error) bool { return target == ErrInvalid }

// PeerErrors returns every [*PeerError] that err joins.
func PeerErrors(err error) []*PeerError {
	var list []*PeerError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, PeerErrors(e)...)
		}
		return list
	}
	if one, ok := errors.AsType[*PeerError](err); ok {
		list = append(list, one)
	}
	return list
}

// peerCheck collects the faults of one peer.
type peerCheck struct {
	peer *Peer
	errs []error
}

func (c *peerCheck) fail(field string, value any, format string, args ...any) {
	text := ""
	if value != nil {
		text = fmt.Sprint(value)
	}
	c.errs = append(c.errs, &PeerError{Peer: c.peer.Name, Field: field, Value: text, Reason: fmt.Sprintf(format, args...)})
}

// Validate finds what no engine can do. The error joins one [*PeerError] for
// each fault.
func (p *Peer) Validate() error {
	c := &peerCheck{peer: p}
	if p.Name == "" {
		c.fail("Name", nil, "is required")
	}
	c.asn()
	c.endpoint()
	c.timers()
	c.password()
	c.routerID()
	if p.Families&^(IPv4|IPv6) != 0 {
		c.fail("Families", uint8(p.Families), "has unknown bits; use IPv4, IPv6 or both")
	}
	return errors.Join(c.errs...)
}

func (c *peerCheck) asn() {
	p := c.peer
	if p.LocalASN == 0 {
		c.fail("LocalASN", nil, "is required, 1 to 4294967295")
	}
	switch p.Dynamic {
	case "":
		if p.PeerASN == 0 {
			c.fail("PeerASN", nil, "either it or Dynamic is required")
		}
	case Internal, External:
		if p.PeerASN != 0 {
			c.fail("PeerASN", p.PeerASN, "excludes Dynamic (%s): set one", p.Dynamic)
		}
	default:
		c.fail("Dynamic", string(p.Dynamic), "must be %q or %q", Internal, External)
	}
	if p.EBGPMultihop && p.LocalASN != 0 && p.Dynamic == "" && p.PeerASN == p.ASN() {
		c.fail("EBGPMultihop", nil, "is for peers of another AS, and both sides are %d", p.PeerASN)
	}
}

func (c *peerCheck) endpoint() {
	p := c.peer
	switch {
	case p.Addr.IsValid() && p.Interface != "":
		c.fail("Interface", p.Interface, "excludes Addr (%s): set one", p.Addr)
	case p.Addr.IsValid():
		c.unicast("Addr", p.Addr)
	case p.Interface == "":
		c.fail("Addr", nil, "either it or Interface is required")
	}
	if p.Source.IsValid() {
		c.unicast("Source", p.Source)
	}
	c.link("Interface", p.Interface)
	c.link("VRF", p.VRF)
}

func (c *peerCheck) unicast(field string, addr netip.Addr) {
	switch {
	case addr.Is4In6():
		c.fail(field, addr, "is an IPv4-mapped address: write %s", addr.Unmap())
	case addr.IsUnspecified():
		c.fail(field, addr, "is not the address of a host")
	case addr.IsMulticast():
		c.fail(field, addr, "is a multicast address")
	case addr.Zone() != "" && !addr.IsLinkLocalUnicast():
		c.fail(field, addr, "has a zone, which only link-local addresses have")
	}
}

// link checks a name as Linux does (dev_valid_name).
func (c *peerCheck) link(field, name string) {
	switch {
	case len(name) > maxInterfaceNameLen:
		c.fail(field, name, "is longer than the %d bytes of the name of a link", maxInterfaceNameLen)
	case name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n\v\f\r"):
		c.fail(field, fmt.Sprintf("%q", name), "is not the name of a link")
	}
}

func (c *peerCheck) timers() {
	p := c.peer
	for _, t := range []struct {
		field string
		value *time.Duration
	}{{"HoldTime", p.HoldTime}, {"KeepaliveTime", p.KeepaliveTime}, {"ConnectRetry", p.ConnectRetry}, {"RestartTime", &p.RestartTime}} {
		if t.value != nil && *t.value%time.Second != 0 {
			c.fail(t.field, *t.value, "must be whole seconds")
			return
		}
	}
	hold, keepalive := p.EffectiveTimers()
	field := "HoldTime"
	if p.HoldTime == nil {
		field = "KeepaliveTime"
	}
	switch {
	case hold != 0 && (hold < MinHoldTime || hold > MaxHoldTime):
		c.fail(field, hold, "must be a hold time of 0 or of %d to %d seconds", int(MinHoldTime.Seconds()), int(MaxHoldTime.Seconds()))
	case keepalive < 0:
		c.fail("KeepaliveTime", keepalive, "must not be negative")
	case keepalive > hold:
		c.fail("KeepaliveTime", keepalive, "must not be longer than the hold time %s", hold)
	}
	if r := p.ConnectRetry; r != nil && (*r < time.Second || *r > MaxHoldTime) {
		c.fail("ConnectRetry", *r, "must be 1 to %d seconds", int(MaxHoldTime.Seconds()))
	}
	if p.RestartTime < 0 || p.RestartTime > MaxRestartTime {
		c.fail("RestartTime", p.RestartTime, "must be 1 to %d seconds, or 0 for the default", int(MaxRestartTime.Seconds()))
	}
}

func (c *peerCheck) password() {
	p := c.peer
	if p.Password != "" && p.PasswordFile != "" {
		c.fail("PasswordFile", p.PasswordFile, "excludes Password: set one")
	}
	if err := CheckPassword(p.Password); p.Password != "" && err != nil {
		c.fail("Password", nil, "%v", err)
	}
}

// CheckPassword returns an error unless the password is one that TCP MD5 can
// use: 1 to 80 bytes. The error does not hold the password.
func CheckPassword(password Secret) error {
	switch n := len(password); {
	case n == 0:
		return errors.New("the password is empty")
	case n > MaxPassword:
		return fmt.Errorf("the password has %d bytes, and TCP MD5 allows %d", n, MaxPassword)
	}
	return nil
}

func (c *peerCheck) routerID() {
	if id := c.peer.RouterID; id.IsValid() {
		if err := CheckRouterID(id); err != nil {
			c.fail("RouterID", id, "%v", err)
		}
	}
}

// ValidatePeers validates each peer and the set: names are unique, and so are
// the endpoints (address or interface, port, VRF, and the source address). Of
// two with one endpoint the one whose name sorts first is good. The result has
// the peers that are good, in order of their names, and the faults of the others.
func ValidatePeers(peers []Peer) (good []Peer, faults []*PeerError) {
	sorted := slices.Clone(peers)
	slices.SortStableFunc(sorted, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	type endpoint struct {
		addr, source netip.Addr
		link, vrf    string
		port         uint16
	}
	names := make(map[string]bool)
	holders := make(map[endpoint]string)
	for _, p := range sorted {
		if err := p.Validate(); err != nil {
			faults = append(faults, PeerErrors(err)...)
			continue
		}
		if names[p.Name] {
			faults = append(faults, &PeerError{Peer: p.Name, Field: "Name", Reason: "is taken: two peers have it"})
			continue
		}
		key := endpoint{addr: p.Addr, source: p.Source, link: p.Interface, vrf: p.VRF, port: p.EffectivePort()}
		if first, taken := holders[key]; taken {
			faults = append(faults, &PeerError{
				Peer: p.Name, Field: "Addr", Value: p.Endpoint(),
				Reason: fmt.Sprintf("is the endpoint of peer %q too; remove one, or give them different source addresses", first),
			})
			continue
		}
		names[p.Name], holders[key] = true, p.Name
		good = append(good, p)
	}
	return good, faults
}
