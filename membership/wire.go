package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	maxPacket = 64 << 10
	// acceptPause follows an error of the listener, such as no free descriptor.
	acceptPause = 100 * time.Millisecond
)

// wire is memberlist's transport on top of a [Transport]. Unlike memberlist's
// own it knows its connections, so that it can end them.
type wire struct {
	packets   PacketConn
	streams   net.Listener
	local     netip.AddrPort
	advertise netip.AddrPort
	log       *slog.Logger

	packetCh chan *memberlist.Packet
	streamCh chan net.Conn

	dial      func(to netip.AddrPort, timeout time.Duration) (net.Conn, error)
	stopDials context.CancelFunc

	closed     chan struct{}
	closeOnce  func()
	goroutines sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	draining bool // no connection may be added
}

var _ memberlist.NodeAwareTransport = (*wire)(nil)

// openWire opens the sockets and begins to read. The context bounds the opening
// only.
func openWire(ctx context.Context, cfg *Config) (*wire, error) {
	packets, streams, err := cfg.Transport.Listen(ctx, cfg.Bind)
	if err != nil {
		return nil, listenError(cfg.Bind, err)
	}
	local, err := localAddr(packets)
	if err != nil {
		return nil, errors.Join(err, packets.Close(), streams.Close())
	}
	w := &wire{
		packets:   packets,
		streams:   streams,
		local:     local,
		advertise: cfg.Advertise,
		log:       cfg.Logger,
		packetCh:  make(chan *memberlist.Packet),
		streamCh:  make(chan net.Conn),
		closed:    make(chan struct{}),
		conns:     make(map[net.Conn]struct{}),
	}
	w.closeOnce = sync.OnceFunc(func() { close(w.closed) })
	if w.advertise.Port() == 0 {
		w.advertise = netip.AddrPortFrom(w.advertise.Addr(), local.Port())
	}
	dials, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stopDials = stop
	w.dial = func(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(dials, timeout)
		defer cancel()
		return cfg.Transport.Dial(ctx, to)
	}
	w.goroutines.Go(w.readPackets)
	w.goroutines.Go(w.acceptStreams)
	return w, nil
}

func listenError(bind netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("membership: address %s is in use (is another speaker running on this node?): %w", bind, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("membership: this node has no address %s: %w", bind.Addr(), err)
	}
	return fmt.Errorf("membership: cannot listen on %s: %w", bind, err)
}

func localAddr(packets PacketConn) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(packets.LocalAddr().String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("membership: local address: %w", err)
	}
	return unmapPort(addr), nil
}

func (w *wire) readPackets() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := w.packets.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// For instance ECONNREFUSED, because a packet sent earlier met nobody.
			w.log.Debug("membership: cannot read packet", "error", err)
			if !w.pause() {
				return
			}
			continue
		}
		if n == 0 {
			continue
		}
		packet := &memberlist.Packet{
			Buf:       slices.Clone(buf[:n]),
			From:      net.UDPAddrFromAddrPort(unmapPort(from)),
			Timestamp: time.Now(),
		}
		select {
		case w.packetCh <- packet:
		case <-w.closed:
			return
		}
	}
}

func (w *wire) acceptStreams() {
	for {
		conn, err := w.streams.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			w.log.Warn("membership: cannot accept connection", "error", err)
			if !w.pause() {
				return
			}
			continue
		}
		tracked, err := w.track(conn)
		if err != nil {
			continue
		}
		select {
		case w.streamCh <- tracked:
		case <-w.closed:
			return
		}
	}
}

// pause keeps a failing socket from spinning. It reports false when the wire is
// closed.
func (w *wire) pause() bool {
	select {
	case <-time.After(acceptPause):
		return true
	case <-w.closed:
		return false
	}
}

// track makes conn end with the wire.
func (w *wire) track(conn net.Conn) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	w.conns[conn] = struct{}{}
	return &trackedConn{Conn: conn, wire: w}, nil
}

type trackedConn struct {
	net.Conn
	wire *wire
}

func (c *trackedConn) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c.Conn)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}

// stopStreams ends all connections and allows no new ones. Packets go on, so
// that the node can still say that it leaves.
func (w *wire) stopStreams() {
	w.stopDials()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	for conn := range w.conns {
		_ = conn.Close()
	}
	clear(w.conns)
}

// Shutdown closes everything and joins the goroutines. It may be called more
// than once.
func (w *wire) Shutdown() error {
	w.closeOnce()
	w.stopStreams()
	err := errors.Join(ignoreClosed(w.packets.Close()), ignoreClosed(w.streams.Close()))
	w.goroutines.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// FinalAdvertiseAddr tells memberlist the address that the configuration has
// settled.
func (w *wire) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return w.advertise.Addr().AsSlice(), int(w.advertise.Port()), nil
}

func (w *wire) PacketCh() <-chan *memberlist.Packet { return w.packetCh }

func (w *wire) StreamCh() <-chan net.Conn { return w.streamCh }

// WriteTo sends a packet. After Shutdown it fails at once.
func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = w.packets.WriteToUDPAddrPort(b, to)
	return time.Now(), err
}

func (w *wire) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return w.WriteTo(b, addr.Addr)
}

// DialTimeout connects to a member. After stopStreams it fails at once.
func (w *wire) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	conn, err := w.dial(to, timeout)
	if err != nil {
		return nil, err
	}
	return w.track(conn)
}

func (w *wire) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return w.DialTimeout(addr.Addr, timeout)
}
