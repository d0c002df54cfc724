package membershiptest

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

const (
	// packetQueue and streamQueue are how many packets and connections wait for
	// a reader.
	packetQueue = 1024
	streamQueue = 128
)

type packet struct {
	from netip.AddrPort
	data []byte
}

// packetConn is a packet socket.
type packetConn struct {
	host      *Host
	local     netip.AddrPort
	queue     chan packet
	closed    chan struct{}
	closeOnce func()
}

func newPacketConn(h *Host, local netip.AddrPort) *packetConn {
	c := &packetConn{host: h, local: local, queue: make(chan packet, packetQueue), closed: make(chan struct{})}
	c.closeOnce = sync.OnceFunc(func() { close(c.closed) })
	return c
}

func (c *packetConn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	select {
	case <-c.closed:
		return 0, netip.AddrPort{}, c.errClosed("read")
	case p := <-c.queue:
		return copy(b, p.data), p.from, nil
	}
}

func (c *packetConn) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	select {
	case <-c.closed:
		return 0, c.errClosed("write")
	default:
	}
	if err := c.host.net.send(c.local, to, slices.Clone(b)); err != nil {
		return 0, &net.OpError{Op: "write", Net: "udp", Source: c.LocalAddr(), Addr: net.UDPAddrFromAddrPort(to), Err: err}
	}
	return len(b), nil
}

func (c *packetConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.local) }

func (c *packetConn) Close() error {
	c.host.release(c.local.Port(), func(s *sockets) bool { return s.packets == c })
	c.markClosed()
	return nil
}

func (c *packetConn) markClosed() { c.closeOnce() }

func (c *packetConn) errClosed(op string) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.LocalAddr(), Err: net.ErrClosed}
}

// listener accepts connections.
type listener struct {
	host      *Host
	local     netip.AddrPort
	backlog   chan net.Conn
	closed    chan struct{}
	closeOnce func()
}

func newListener(h *Host, local netip.AddrPort) *listener {
	l := &listener{host: h, local: local, backlog: make(chan net.Conn, streamQueue), closed: make(chan struct{})}
	l.closeOnce = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	case conn := <-l.backlog:
		return conn, nil
	}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.local) }

// Close closes the listener and resets the connections that nobody accepted.
func (l *listener) Close() error {
	l.host.release(l.local.Port(), func(s *sockets) bool { return s.streams == l })
	l.markClosed()
	for {
		select {
		case conn := <-l.backlog:
			_ = conn.Close()
		default:
			return nil
		}
	}
}

func (l *listener) markClosed() { l.closeOnce() }

// release frees the port, unless somebody else has it by now. Both sockets of a
// port go together: membership never closes one alone.
func (h *Host) release(port uint16, mine func(*sockets) bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if s, ok := h.sockets[port]; ok && mine(s) {
		delete(h.sockets, port)
	}
}

// link is a connection.
type link struct {
	net            *Network
	from, to       netip.Addr
	client, server *streamConn
}

func newLink(n *Network, from, to netip.AddrPort) *link {
	a, b := net.Pipe()
	l := &link{net: n, from: from.Addr(), to: to.Addr()}
	l.client = &streamConn{Conn: a, link: l, local: from, remote: to}
	l.server = &streamConn{Conn: b, link: l, local: to, remote: from}
	return l
}

// reset ends both sides at once. The caller removes the link.
func (l *link) reset() {
	_ = l.client.Conn.Close()
	_ = l.server.Conn.Close()
}

// streamConn is one side of a link.
type streamConn struct {
	net.Conn
	link          *link
	local, remote netip.AddrPort
}

func (c *streamConn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

func (c *streamConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// Close closes this side. The other one reads what was written before, then
// io.EOF.
func (c *streamConn) Close() error {
	n := c.link.net
	n.mu.Lock()
	delete(n.links, c.link)
	n.mu.Unlock()
	return c.Conn.Close()
}
