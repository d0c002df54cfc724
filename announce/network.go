package announce

import (
	"fmt"
	"net"
	"net/netip"
)

// A Protocol is one of the two ways to ask for a link-layer address.
type Protocol uint8

// The protocols.
const (
	ARP Protocol = iota + 1 // IPv4, RFC 826
	NDP                     // IPv6, RFC 4861
)

// String returns "ARP" or "NDP".
func (p Protocol) String() string {
	switch p {
	case ARP:
		return "ARP"
	case NDP:
		return "NDP"
	default:
		return fmt.Sprintf("Protocol(%d)", uint8(p))
	}
}

// A Link is one network interface at one moment.
type Link struct {
	Index        int              // kernel index, unique at any moment
	Name         string           // such as "eth0"
	HardwareAddr net.HardwareAddr // MAC
	Type         uint16           // ARPHRD_* of Linux; 1 is Ethernet
	Up           bool             // administratively up and running (carrier)
	NoARP        bool             // IFF_NOARP
	Master       int              // index of the bridge, bond, team or VRF it is a port of; 0: none

	// Epoch changes whenever the link was down or without carrier in between,
	// even if it is up again. Then neighbours and switches may have forgotten us.
	Epoch uint64
}

// mac returns the hardware address as an array; only eligible links are asked.
func (l Link) mac() mac { return mac(l.HardwareAddr) }

// same reports whether sockets opened for l still serve o.
func (l Link) same(o Link) bool {
	return l.Index == o.Index && l.Name == o.Name && l.Epoch == o.Epoch &&
		string(l.HardwareAddr) == string(o.HardwareAddr)
}

// A Network gives an [Announcer] its links and sockets. The real one is the
// kernel's; package announcetest ships one in memory. Its methods are called
// from the goroutine of Run only.
type Network interface {
	// Links lists every link of the host, whether it can be used or not.
	Links() ([]Link, error)

	// Changed carries a token after links, or their addresses, may have changed.
	// It has a capacity of one and is never closed.
	Changed() <-chan struct{}

	// Listen opens the socket of one link and protocol.
	Listen(link Link, protocol Protocol) (Conn, error)

	// Groups opens what joins multicast groups on a link.
	Groups(link Link) (Groups, error)

	// Close ends the delivery of changes. Sockets are closed one by one before.
	Close() error
}

// A Conn carries whole Ethernet frames of one protocol on one link. It has one
// reader; WriteFrames may be called concurrently.
type Conn interface {
	// ReadFrames blocks until there is at least one frame, stores up to len(frames)
	// frames in the capacity of their elements, reslices these elements and returns
	// how many there are. After Close the error wraps net.ErrClosed; other errors do
	// not end the life of a Conn.
	ReadFrames(frames [][]byte) (int, error)

	// WriteFrames sends the frames in order and returns how many were sent before
	// the error, if any. It may wait for room in the send buffer, not for the wire.
	WriteFrames(frames [][]byte) (int, error)

	// Close unblocks both and is idempotent.
	Close() error
}

// Groups joins multicast groups on one link. It is used by one goroutine.
type Groups interface {
	Join(group netip.Addr) error
	Leave(group netip.Addr) error
	Close() error
}
