package bgptest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/heraldlb/herald/bgp"
)

// Message types (RFC 4271 section 4.1).
const (
	msgOpen = 1 + iota
	msgUpdate
	msgNotification
	msgKeepalive
)

// Capabilities that a [Peer] knows.
const (
	capMultiprotocol   = 1
	capExtendedNextHop = 5
	capGracefulRestart = 64
	capFourOctetASN    = 65
)

// Path attributes.
const (
	attrOrigin      = 1
	attrASPath      = 2
	attrNextHop     = 3
	attrMED         = 4
	attrLocalPref   = 5
	attrCommunities = 8
	attrMPReach     = 14
	attrMPUnreach   = 15
	attrAS4Path     = 17
	attrLarge       = 32
)

const headerLen = 19

// Route is a route as it came over the wire.
type Route struct {
	NextHop   netip.Addr
	ASPath    []uint32 // with AS4_PATH put in
	LocalPref *uint32
	MED       *uint32

	Communities      []bgp.Community
	LargeCommunities []bgp.LargeCommunity
}

// Open is what the other side said of itself.
type Open struct {
	ASN             uint32 // four octets if it can do that
	TwoOctetASN     uint16 // the old field
	HoldTime        uint16
	RouterID        netip.Addr
	Families        bgp.Families
	FourOctetASN    bool
	ExtendedNextHop bool
	GracefulRestart bool
	RestartState    bool   // R bit
	RestartTime     uint16 // seconds
	Forwarding      bgp.Families
}

// Notification is an error message, or the Cease.
type Notification struct{ Code, Subcode uint8 }

func (n Notification) String() string { return fmt.Sprintf("notification %d/%d", n.Code, n.Subcode) }

// update is one UPDATE.
type update struct {
	announced []netip.Prefix
	withdrawn []netip.Prefix
	attrs     Route
	endOfRIB  bgp.Families
}

func readMessage(r io.Reader) (typ byte, body []byte, err error) {
	header := make([]byte, headerLen)
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	for _, b := range header[:16] {
		if b != 0xff {
			return 0, nil, errors.New("marker is not all ones")
		}
	}
	n := int(binary.BigEndian.Uint16(header[16:]))
	if n < headerLen || n > 4096 {
		return 0, nil, fmt.Errorf("message of %d octets", n)
	}
	body = make([]byte, n-headerLen)
	_, err = io.ReadFull(r, body)
	return header[18], body, err
}

func message(typ byte, body []byte) []byte {
	m := make([]byte, 16, headerLen+len(body))
	for i := range m {
		m[i] = 0xff
	}
	m = binary.BigEndian.AppendUint16(m, uint16(headerLen+len(body)))
	return append(append(m, typ), body...)
}

func parseOpen(b []byte) (Open, error) {
	if len(b) < 10 || b[0] != 4 {
		return Open{}, errors.New("OPEN is short, or not of version 4")
	}
	o := Open{TwoOctetASN: binary.BigEndian.Uint16(b[1:]), HoldTime: binary.BigEndian.Uint16(b[3:])}
	o.ASN = uint32(o.TwoOctetASN)
	o.RouterID, _ = netip.AddrFromSlice(b[5:9])
	params := b[10:]
	if len(params) != int(b[9]) {
		return o, errors.New("OPEN has wrong length of parameters")
	}
	for len(params) >= 2 {
		typ, n := params[0], int(params[1])
		if len(params) < 2+n || typ != 2 {
			return o, errors.New("OPEN has a bad parameter")
		}
		if err := o.capabilities(params[2 : 2+n]); err != nil {
			return o, err
		}
		params = params[2+n:]
	}
	return o, nil
}

func (o *Open) capabilities(b []byte) error {
	for len(b) >= 2 {
		code, n := b[0], int(b[1])
		if len(b) < 2+n {
			return errors.New("OPEN has a short capability")
		}
		o.capability(code, b[2:2+n])
		b = b[2+n:]
	}
	return nil
}

func (o *Open) capability(code byte, v []byte) {
	switch {
	case code == capMultiprotocol && len(v) == 4:
		o.Families |= family(v)
	case code == capFourOctetASN && len(v) == 4:
		o.ASN, o.FourOctetASN = binary.BigEndian.Uint32(v), true
	case code == capExtendedNextHop:
		o.ExtendedNextHop = true
	case code == capGracefulRestart && len(v) >= 2:
		o.GracefulRestart, o.RestartState = true, v[0]&0x80 != 0
		o.RestartTime = binary.BigEndian.Uint16(v) & 0xfff
		for v = v[2:]; len(v) >= 4; v = v[4:] {
			if v[3]&0x80 != 0 {
				o.Forwarding |= family([]byte{v[0], v[1], 0, v[2]})
			}
		}
	}
}

// family reads AFI, a reserved octet and SAFI.
func family(v []byte) bgp.Families {
	switch [2]byte{v[1], v[3]} {
	case [2]byte{1, 1}:
		return bgp.IPv4
	case [2]byte{2, 1}:
		return bgp.IPv6
	}
	return 0
}

// parseUpdate reads an UPDATE; four says that AS numbers have four octets.
func parseUpdate(b []byte, four bool) (update, error) {
	var u update
	withdrawn, b, ok := cut16(b)
	if !ok {
		return u, errors.New("UPDATE is short")
	}
	attrs, nlri, ok := cut16(b)
	if !ok {
		return u, errors.New("UPDATE is short in its attributes")
	}
	var err error
	if u.withdrawn, err = prefixes(withdrawn, 4); err != nil {
		return u, err
	}
	if u.announced, err = prefixes(nlri, 4); err != nil {
		return u, err
	}
	if len(withdrawn)+len(attrs)+len(nlri) == 0 {
		u.endOfRIB = bgp.IPv4
	}
	var as4 []uint32
	for len(attrs) > 0 {
		var typ byte
		var v []byte
		if typ, v, attrs, err = cutAttribute(attrs); err != nil {
			return u, err
		}
		if typ == attrAS4Path {
			as4, err = path(v, 4)
		} else {
			err = u.attribute(typ, v, four)
		}
		if err != nil {
			return u, err
		}
	}
	if n := len(u.attrs.ASPath) - len(as4); len(as4) > 0 && n >= 0 { // RFC 6793 section 4.2.3
		u.attrs.ASPath = append(u.attrs.ASPath[:n:n], as4...)
	}
	return u, nil
}

func cut16(b []byte) (head, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+n {
		return nil, nil, false
	}
	return b[2 : 2+n], b[2+n:], true
}

func cutAttribute(b []byte) (typ byte, value, rest []byte, err error) {
	if len(b) < 3 {
		return 0, nil, nil, errors.New("attribute is short")
	}
	start, n := 3, int(b[2])
	if b[0]&0x10 != 0 { // extended length
		if len(b) < 4 {
			return 0, nil, nil, errors.New("attribute is short")
		}
		start, n = 4, int(binary.BigEndian.Uint16(b[2:]))
	}
	if len(b) < start+n {
		return 0, nil, nil, fmt.Errorf("attribute %d is short", b[1])
	}
	return b[1], b[start : start+n], b[start+n:], nil
}

func (u *update) attribute(typ byte, v []byte, four bool) (err error) {
	a := &u.attrs
	switch typ {
	case attrASPath:
		size := 2
		if four {
			size = 4
		}
		a.ASPath, err = path(v, size)
	case attrNextHop:
		a.NextHop, _ = netip.AddrFromSlice(v)
	case attrMED:
		a.MED, err = number(v)
	case attrLocalPref:
		a.LocalPref, err = number(v)
	case attrCommunities:
		for ; len(v) >= 4; v = v[4:] {
			a.Communities = append(a.Communities, bgp.Community(binary.BigEndian.Uint32(v)))
		}
	case attrLarge:
		for ; len(v) >= 12; v = v[12:] {
			a.LargeCommunities = append(a.LargeCommunities, bgp.LargeCommunity{
				Global: binary.BigEndian.Uint32(v), Local1: binary.BigEndian.Uint32(v[4:]), Local2: binary.BigEndian.Uint32(v[8:]),
			})
		}
	case attrMPReach:
		err = u.reach(v)
	case attrMPUnreach:
		err = u.unreach(v)
	}
	return err
}

func (u *update) reach(v []byte) error {
	if len(v) < 5 || len(v) < 5+int(v[3]) {
		return errors.New("MP_REACH_NLRI is short")
	}
	hop := v[4 : 4+int(v[3])]
	if len(hop) == 32 { // global and link-local
		hop = hop[:16]
	}
	u.attrs.NextHop, _ = netip.AddrFromSlice(hop)
	list, err := prefixes(v[5+int(v[3]):], addrLen(v))
	u.announced = append(u.announced, list...)
	return err
}

func (u *update) unreach(v []byte) error {
	if len(v) < 3 {
		return errors.New("MP_UNREACH_NLRI is short")
	}
	list, err := prefixes(v[3:], addrLen(v))
	u.withdrawn = append(u.withdrawn, list...)
	if len(v) == 3 {
		u.endOfRIB = family([]byte{v[0], v[1], 0, v[2]})
	}
	return err
}

func addrLen(afi []byte) int {
	if afi[1] == 2 {
		return 16
	}
	return 4
}

func number(v []byte) (*uint32, error) {
	if len(v) != 4 {
		return nil, errors.New("attribute is not of four octets")
	}
	n := binary.BigEndian.Uint32(v)
	return &n, nil
}

func path(v []byte, size int) ([]uint32, error) {
	var list []uint32
	for len(v) > 0 {
		if len(v) < 2 || v[0] != 2 || len(v) < 2+size*int(v[1]) {
			return nil, fmt.Errorf("AS path is no sequence of %d octets each: %x", size, v)
		}
		n := int(v[1])
		for v = v[2:]; n > 0; n-- {
			if size == 4 {
				list = append(list, binary.BigEndian.Uint32(v))
			} else {
				list = append(list, uint32(binary.BigEndian.Uint16(v)))
			}
			v = v[size:]
		}
	}
	return list, nil
}

func prefixes(b []byte, addrLen int) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for len(b) > 0 {
		bits := int(b[0])
		octets := (bits + 7) / 8
		if octets > addrLen || len(b) < 1+octets {
			return nil, errors.New("prefix is short or long")
		}
		full := make([]byte, addrLen)
		copy(full, b[1:1+octets])
		addr, _ := netip.AddrFromSlice(full)
		list = append(list, netip.PrefixFrom(addr, bits))
		b = b[1+octets:]
	}
	return list, nil
}
