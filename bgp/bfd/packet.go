package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrPacket is wrapped by the errors about datagrams that are not valid control
// packets.
var ErrPacket = errors.New("bfd: bad control packet")

// A State is the state of a session (RFC 5880 section 4.1).
type State uint8

const (
	AdminDown State = iota // held down on purpose, which says nothing of the path
	Down
	Init // the remote system is heard, and does not know yet that it is
	Up
)

func (s State) String() string {
	switch s {
	case AdminDown:
		return "admin-down"
	case Down:
		return "down"
	case Init:
		return "init"
	case Up:
		return "up"
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// A Diag is why a session last went down (RFC 5880 section 4.1).
type Diag uint8

// The codes that this package sends. Others may be received.
const (
	DiagNone         Diag = 0
	DiagTimeExpired  Diag = 1 // nothing was heard for the detection time
	DiagNeighborDown Diag = 3 // the remote system said that the session is down
	DiagAdminDown    Diag = 7
)

func (d Diag) String() string {
	names := [...]string{
		"none", "control detection time expired", "echo function failed",
		"neighbor signaled session down", "forwarding plane reset", "path down",
		"concatenated path down", "administratively down", "reverse concatenated path down",
	}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

// A Packet is the mandatory section of a control packet (RFC 5880 section 4.1).
// Intervals travel as whole microseconds of 32 bits.
type Packet struct {
	Diag  Diag
	State State

	Poll          bool // wants a Final
	Final         bool // answers a Poll
	Independent   bool // C: BFD of the sender outlives its control plane
	Authenticated bool // A: an authentication section follows
	Demand        bool // D: the sender wants no periodic packets

	Multiplier        uint8  // detection multiplier, not zero
	MyDiscriminator   uint32 // not zero
	YourDiscriminator uint32 // zero while the sender has heard nothing

	DesiredMinTx      time.Duration
	RequiredMinRx     time.Duration // zero: send nothing periodically
	RequiredMinEchoRx time.Duration // zero: echo is not supported
}

const (
	version    = 1
	headerSize = 24

	flagPoll        = 1 << 5
	flagFinal       = 1 << 4
	flagIndependent = 1 << 3
	flagAuth        = 1 << 2
	flagDemand      = 1 << 1
	flagMultipoint  = 1 << 0
)

// AppendBinary appends the 24 bytes of the mandatory section. If Authenticated
// is set the caller appends the authentication section and corrects the length,
// which is the fourth byte.
func (p Packet) AppendBinary(b []byte) ([]byte, error) {
	if p.State > Up || p.Diag > 31 {
		return b, fmt.Errorf("%w: %v, %v", ErrPacket, p.State, p.Diag)
	}
	flags := byte(p.State) << 6
	for _, f := range [...]struct {
		set bool
		bit byte
	}{
		{p.Poll, flagPoll},
		{p.Final, flagFinal},
		{p.Independent, flagIndependent},
		{p.Authenticated, flagAuth},
		{p.Demand, flagDemand},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	out := append(b, version<<5|byte(p.Diag), flags, p.Multiplier, headerSize)
	out = binary.BigEndian.AppendUint32(out, p.MyDiscriminator)
	out = binary.BigEndian.AppendUint32(out, p.YourDiscriminator)
	for _, d := range [...]time.Duration{p.DesiredMinTx, p.RequiredMinRx, p.RequiredMinEchoRx} {
		us := d.Microseconds()
		if us < 0 || us > math.MaxUint32 {
			return b, fmt.Errorf("%w: interval %v is outside of 0 to %v", ErrPacket, d, microseconds(math.MaxUint32))
		}
		out = binary.BigEndian.AppendUint32(out, uint32(us))
	}
	return out, nil
}

// ParsePacket reads a datagram and returns the mandatory section and what stands
// behind it, the authentication section, if there is one; it aliases b. All is
// checked that RFC 5880 section 6.8.6 wants to be checked before a session is
// looked for. Every error wraps ErrPacket.
func ParsePacket(b []byte) (p Packet, auth []byte, err error) {
	if len(b) < headerSize {
		return p, nil, fmt.Errorf("%w: %d bytes, %d are the least", ErrPacket, len(b), headerSize)
	}
	if v := b[0] >> 5; v != version {
		return p, nil, fmt.Errorf("%w: version %d", ErrPacket, v)
	}
	flags := b[1]
	p = Packet{
		Diag:              Diag(b[0] & 0x1f),
		State:             State(flags >> 6),
		Poll:              flags&flagPoll != 0,
		Final:             flags&flagFinal != 0,
		Independent:       flags&flagIndependent != 0,
		Authenticated:     flags&flagAuth != 0,
		Demand:            flags&flagDemand != 0,
		Multiplier:        b[2],
		MyDiscriminator:   binary.BigEndian.Uint32(b[4:]),
		YourDiscriminator: binary.BigEndian.Uint32(b[8:]),
		DesiredMinTx:      microseconds(binary.BigEndian.Uint32(b[12:])),
		RequiredMinRx:     microseconds(binary.BigEndian.Uint32(b[16:])),
		RequiredMinEchoRx: microseconds(binary.BigEndian.Uint32(b[20:])),
	}
	length, least := int(b[3]), headerSize
	if p.Authenticated {
		least += 2
	}
	switch {
	case length < least || length > len(b):
		return p, nil, fmt.Errorf("%w: length field %d in %d bytes", ErrPacket, length, len(b))
	case p.Multiplier == 0:
		return p, nil, fmt.Errorf("%w: detection multiplier is zero", ErrPacket)
	case flags&flagMultipoint != 0:
		return p, nil, fmt.Errorf("%w: multipoint bit is set", ErrPacket)
	case p.MyDiscriminator == 0:
		return p, nil, fmt.Errorf("%w: my discriminator is zero", ErrPacket)
	case p.YourDiscriminator == 0 && p.State != Down && p.State != AdminDown:
		return p, nil, fmt.Errorf("%w: your discriminator is zero in state %v", ErrPacket, p.State)
	}
	if p.Authenticated {
		auth = b[headerSize:length]
	}
	return p, auth, nil
}

func microseconds(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
