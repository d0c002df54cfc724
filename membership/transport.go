package membership

import (
	"context"
	"net"
	"net/netip"
)

// Transport opens the sockets through which a cluster talks. nil in [Config]
// means the real network; package membershiptest has one in memory. Methods may
// be called concurrently.
type Transport interface {
	// Listen opens a packet socket and a stream listener on one address and one
	// port. With port 0 it chooses a port that is free for both.
	Listen(ctx context.Context, addr netip.AddrPort) (PacketConn, net.Listener, error)
	// Dial connects to the listener of a member. It returns when ctx ends.
	Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// PacketConn is the part of *[net.UDPConn] that gossip needs. Close unblocks
// ReadFromUDPAddrPort, which then returns an error wrapping [net.ErrClosed].
type PacketConn interface {
	ReadFromUDPAddrPort(b []byte) (n int, from netip.AddrPort, err error)
	WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error)
	LocalAddr() net.Addr
	Close() error
}

const (
	// readBuffer is the receive buffer that is asked of the kernel, which may
	// give less.
	readBuffer = 2 << 20
	// portAttempts is how often a port that is free for TCP is tried for UDP.
	portAttempts = 10
)

// realNetwork is the transport over UDP and TCP.
type realNetwork struct{}

func (realNetwork) Listen(ctx context.Context, addr netip.AddrPort) (PacketConn, net.Listener, error) {
	attempts := 1
	if addr.Port() == 0 {
		attempts = portAttempts
	}
	for {
		packets, streams, err := listen(ctx, addr)
		attempts--
		if err == nil || attempts == 0 {
			return packets, streams, err
		}
	}
}

func listen(ctx context.Context, addr netip.AddrPort) (PacketConn, net.Listener, error) {
	var lc net.ListenConfig
	streams, err := lc.Listen(ctx, "tcp", addr.String())
	if err != nil {
		return nil, nil, err
	}
	if addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), streams.Addr().(*net.TCPAddr).AddrPort().Port())
	}
	conn, err := lc.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		_ = streams.Close()
		return nil, nil, err
	}
	packets := conn.(*net.UDPConn)
	_ = packets.SetReadBuffer(readBuffer) // the kernel's own size will do
	return packets, streams, nil
}

func (realNetwork) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}
