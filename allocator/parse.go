package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"go4.org/netipx"
)

// Range is a closed interval of addresses of one family: both ends belong to
// it, neither has a zone, and neither is an IPv4 address in IPv6 clothes
// (::ffff:192.0.2.1). The zero value is invalid.
type Range struct{ From, To netip.Addr }

// ParseRange reads one entry of a pool: a CIDR ("192.0.2.0/24") or the first
// and last address with a dash between ("192.0.2.10-192.0.2.20"). White space
// at both ends and around the dash is ignored. masked reports that bits were
// set behind the prefix ("192.0.2.7/24") and dropped.
//
// An address alone is an error, as it is in MetalLB (write "/32" or "/128"),
// and so are ends of two families, a last address before the first, zones,
// IPv4-mapped IPv6 addresses and octets with leading zeros. The error is a
// *ParseError.
func ParseRange(text string) (r Range, masked bool, err error) {
	entry := strings.TrimSpace(text)
	fail := func(format string, args ...any) (Range, bool, error) {
		return Range{}, false, &ParseError{Text: text, Reason: fmt.Sprintf(format, args...)}
	}
	if entry == "" {
		return fail("it is empty; write a CIDR or first-last")
	}
	first, last, dash := strings.Cut(entry, "-")
	if !dash {
		return parseCIDR(entry, fail)
	}
	if r.From, err = parseAddr(strings.TrimSpace(first)); err != nil {
		return fail("first address: %v", err)
	}
	if r.To, err = parseAddr(strings.TrimSpace(last)); err != nil {
		return fail("last address: %v", err)
	}
	if err := r.check(); err != nil {
		return fail("%v", err)
	}
	return r, false, nil
}

func parseCIDR(entry string, fail func(string, ...any) (Range, bool, error)) (Range, bool, error) {
	if !strings.Contains(entry, "/") {
		addr, err := parseAddr(entry)
		if err != nil {
			return fail("neither a CIDR nor first-last: %v", err)
		}
		return fail("an address alone is no range; use /%d", addr.BitLen())
	}
	prefix, err := netip.ParsePrefix(entry)
	if err != nil {
		return fail("%s", cause(err))
	}
	if prefix.Addr().Is4In6() {
		return fail("IPv4-mapped IPv6 address; write it as IPv4")
	}
	r := netipx.RangeOfPrefix(prefix)
	return Range{r.From(), r.To()}, prefix != prefix.Masked(), nil
}

func parseAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, errors.New(cause(err))
	}
	return addr, checkAddr(addr)
}

// cause is what netip says of a text that it cannot parse, without the text,
// which can be of any length and is named by the ParseError already.
func cause(err error) string {
	const most = 80
	reason := err.Error()
	if at := strings.LastIndex(reason, "): "); at >= 0 {
		reason = reason[at+len("): "):]
	}
	if runes := []rune(reason); len(runes) > most {
		reason = string(runes[:most]) + "…"
	}
	return reason
}

// checkAddr rejects what no pool can hold.
func checkAddr(addr netip.Addr) error {
	switch {
	case !addr.IsValid():
		return errors.New("the zero address")
	case addr.Zone() != "":
		return fmt.Errorf("address %s has a zone", addr)
	case addr.Is4In6():
		return fmt.Errorf("%s is an IPv4-mapped IPv6 address; write it as IPv4", addr)
	}
	return nil
}

func (r Range) check() error {
	if err := checkAddr(r.From); err != nil {
		return err
	}
	if err := checkAddr(r.To); err != nil {
		return err
	}
	if FamilyOf(r.From) != FamilyOf(r.To) {
		return fmt.Errorf("%s and %s are of two families", r.From, r.To)
	}
	if r.To.Less(r.From) {
		return fmt.Errorf("last address %s is before the first, %s", r.To, r.From)
	}
	return nil
}

// Contains reports whether addr lies in r. It is false for every address of
// the other family.
func (r Range) Contains(addr netip.Addr) bool {
	return FamilyOf(addr) == FamilyOf(r.From) && !addr.Less(r.From) && !r.To.Less(addr)
}

// String returns a text that ParseRange reads back: a CIDR where r is one,
// else first-last.
func (r Range) String() string {
	if prefix, ok := netipx.IPRangeFrom(r.From, r.To).Prefix(); ok {
		return prefix.String()
	}
	return r.From.String() + "-" + r.To.String()
}
