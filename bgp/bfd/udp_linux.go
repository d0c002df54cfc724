package bfd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// Source ports (RFC 5881 section 4).
	firstSourcePort = 49152
	sourcePorts     = 65536 - firstSourcePort

	ttl = 255

	// trafficClass is CS6, network control, as FRR and BIRD have it.
	trafficClass = 0xc0

	// receiveBuffer lets over a thousand packets wait while the reader waits for a CPU.
	receiveBuffer = 1 << 20
)

// udp is the transport of the kernel.
type udp struct{}

func kernelUDP() Transport { return udp{} }

// Listen opens a port on every address.
func (udp) Listen(ctx context.Context, port uint16, ipv6 bool) (Receiver, error) {
	network, options := "udp4", receiveOptions4
	if ipv6 {
		network, options = "udp6", receiveOptions6
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = options(int(fd)) }), err)
	}}
	c, err := lc.ListenPacket(ctx, network, fmt.Sprintf(":%d", port))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is taken by another BFD daemon on this host: %w", port, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", port, err)
	}
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("port %d: %w", port, err)
	}
	return &udpReceiver{conn: c, raw: raw, oob: make([]byte, 128)}, nil
}

func receiveOptions4(fd int) error {
	enlarge(fd)
	return errors.Join(
		os.NewSyscallError("set IP_PKTINFO", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)),
		os.NewSyscallError("set IP_RECVTTL", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)),
	)
}

func receiveOptions6(fd int) error {
	enlarge(fd)
	return errors.Join(
		os.NewSyscallError("set IPV6_RECVPKTINFO", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)),
		os.NewSyscallError("set IPV6_RECVHOPLIMIT", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)),
	)
}

// enlarge asks for a receive buffer, beyond the limit of the host if it may.
func enlarge(fd int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
}

type udpReceiver struct {
	conn io.Closer
	raw  syscall.RawConn
	oob  []byte
}

func (r *udpReceiver) Close() error { return r.conn.Close() }

func (r *udpReceiver) Serve(ready func()) error {
	err := r.raw.Read(func(uintptr) bool {
		ready()
		return false // wait for more
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (r *udpReceiver) Next(buf []byte) (n int, meta Meta, ok bool) {
	err := r.raw.Control(func(fd uintptr) { n, meta, ok = r.next(int(fd), buf) })
	return n, meta, ok && err == nil
}

func (r *udpReceiver) next(fd int, buf []byte) (int, Meta, bool) {
	n, oobn, _, from, err := unix.Recvmsg(fd, buf, r.oob, unix.MSG_DONTWAIT)
	if err != nil {
		return 0, Meta{}, false // EAGAIN; of others a socket that is not connected has none that last
	}
	var meta Meta
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		meta.From = netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		meta.From = netip.AddrFrom16(from.Addr)
	}
	for rest := r.oob[:oobn]; len(rest) > 0; {
		var h unix.Cmsghdr
		var data []byte
		if h, data, rest, err = unix.ParseOneSocketControlMessage(rest); err != nil {
			break // the TTL stays unknown, and the packet will be dropped
		}
		meta.add(h, data)
	}
	return n, meta, true
}

// add reads a control message.
func (m *Meta) add(h unix.Cmsghdr, data []byte) {
	native := binary.NativeEndian
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TTL && len(data) >= 4,
		h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_HOPLIMIT && len(data) >= 4:
		m.TTL = int(native.Uint32(data))
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		m.Interface, m.To = int(native.Uint32(data)), netip.AddrFrom4([4]byte(data[8:]))
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		m.To, m.Interface = netip.AddrFrom16([16]byte(data)), int(native.Uint32(data[16:]))
	}
}

// udpSender is not connected: the kernel looks for the route anew with each packet,
// and the complaints of a host that does not listen are of no interest.
type udpSender struct {
	fd     int
	to     unix.Sockaddr
	iface  int
	closed atomic.Bool
}

// Dial opens a socket with a source port of its own.
func (udp) Dial(peer Peer) (Sender, error) {
	s := &udpSender{fd: -1}
	if peer.Interface != "" {
		i, err := net.InterfaceByName(peer.Interface)
		if err != nil {
			return nil, fmt.Errorf("interface %q: %w", peer.Interface, err)
		}
		s.iface = i.Index
	}
	family := unix.AF_INET
	if peer.Addr.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s.fd = fd
	if err := errors.Join(sendOptions(fd, family, peer.Interface), s.bind(peer)); err != nil {
		_ = s.Close()
		return nil, err
	}
	port := PortSingleHop
	if peer.Multihop {
		port = PortMultihop
	}
	s.to = s.sockaddr(peer.Addr, port)
	return s, nil
}

func sendOptions(fd, family int, iface string) error {
	level, hops, class := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	if family == unix.AF_INET6 {
		level, hops, class = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0) // nobody reads
	errs := []error{
		os.NewSyscallError("set TTL", unix.SetsockoptInt(fd, level, hops, ttl)),
		os.NewSyscallError("set traffic class", unix.SetsockoptInt(fd, level, class, trafficClass)),
	}
	if iface != "" {
		errs = append(errs, os.NewSyscallError("bind to "+iface, unix.BindToDevice(fd, iface)))
	}
	return errors.Join(errs...)
}

// bind takes a free source port, from a random one on.
func (s *udpSender) bind(peer Peer) error {
	local := peer.Local
	if !local.IsValid() {
		local = netip.IPv4Unspecified()
		if peer.Addr.Is6() {
			local = netip.IPv6Unspecified()
		}
	}
	first := rand.IntN(sourcePorts)
	for i := range sourcePorts {
		err := unix.Bind(s.fd, s.sockaddr(local, firstSourcePort+(first+i)%sourcePorts))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("bind to %v: %w", local, err)
		}
	}
	return fmt.Errorf("no source port from %d on is free", firstSourcePort)
}

func (s *udpSender) sockaddr(addr netip.Addr, port int) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	sa := &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
	if addr.IsLinkLocalUnicast() {
		sa.ZoneId = uint32(s.iface)
	}
	return sa
}

func (s *udpSender) Interface() int { return s.iface }

func (s *udpSender) Send(datagram []byte) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return os.NewSyscallError("send", unix.Sendto(s.fd, datagram, 0, s.to))
}

func (s *udpSender) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(s.fd))
}
