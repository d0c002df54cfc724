package bfd

import (
	"context"
	"net/netip"
)

// The ports that systems listen on.
const (
	PortSingleHop = 3784 // RFC 5881 section 4
	PortMultihop  = 4784 // RFC 5883 section 5
)

// A Transport carries datagrams. A [Monitor] uses it from the goroutine that
// called Run, and what it returns from any. Package bfdtest has one in memory.
type Transport interface {
	// Listen receives the datagrams of one family for a port, on every address and
	// interface. The context is not for the life of the result.
	Listen(ctx context.Context, port uint16, ipv6 bool) (Receiver, error)

	// Dial makes the sending side of a session: TTL 255, and one source port from
	// 49152 to 65535 (RFC 5881 section 4).
	Dial(peer Peer) (Sender, error)
}

// A Receiver is an open port. Reading it is split in two, so that a monitor can
// look for mail before it calls a peer silent: a reader that gets no CPU must not
// look like a network that delivers nothing.
type Receiver interface {
	// Serve calls ready whenever datagrams may be waiting, one call at a time, and
	// blocks until Close, after which it returns nil.
	Serve(ready func()) error

	// Next copies a waiting datagram into buf. If there is none ok is false; it does
	// not block. The monitor does not make two calls at a time.
	Next(buf []byte) (n int, meta Meta, ok bool)

	// Close makes Serve return; what waits is lost.
	Close() error
}

// Meta is what is known of a received datagram.
type Meta struct {
	From, To  netip.Addr // without zone
	Interface int        // index of the link that it came in on
	TTL       int        // or hop limit, as it arrived; zero if it is not known
}

// A Sender sends to one peer. It must not block.
type Sender interface {
	Send(datagram []byte) error
	// Interface is the index of the peer's interface, zero if it names none.
	Interface() int
	Close() error
}
