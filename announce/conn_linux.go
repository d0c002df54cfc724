package announce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"
)

// recvBuffer is the receive buffer asked for: about a thousand questions may
// arrive while the reader waits for a CPU. The kernel grants what it allows.
const recvBuffer = 1 << 20

// Listen opens a packet socket. Its filter is set before it is bound, so that
// not even the first frame can be one that nobody asked for.
func (k *kernel) Listen(l Link, p Protocol) (Conn, error) {
	etherType := typeARP
	if p == NDP {
		etherType = typeIPv6
	}
	filter, err := kernelFilter(p, nil)
	if err != nil {
		return nil, fmt.Errorf("assemble filter: %w", err)
	}
	pc, err := packet.Listen(&net.Interface{Index: l.Index, Name: l.Name, HardwareAddr: l.HardwareAddr},
		packet.Raw, etherType, &packet.Config{Filter: filter})
	if err != nil {
		return nil, err
	}
	rc, err := pc.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	if err := tune(rc, l.Index, p); err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	return newPacketConn(pc, rc, p), nil
}

// tune enlarges the receive buffer and, for NDP, takes all multicast from the
// link: a socket can join only a few thousand groups, and solicitations must be
// heard before any group is joined.
func tune(rc syscall.RawConn, index int, p Protocol) error {
	var err error
	ctlErr := rc.Control(func(fd uintptr) {
		// Forcing needs CAP_NET_ADMIN; either failing leaves the default, which works.
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, recvBuffer) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, recvBuffer)
		}
		if p == NDP {
			err = unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
				&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_ALLMULTI})
		}
	})
	if err != nil {
		err = fmt.Errorf("receive all multicast: %w", err)
	}
	return errors.Join(ctlErr, err)
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// A mmsgBatch is the argument of recvmmsg and sendmmsg, kept between calls. The
// callback exists once, since a closure for each call would be an allocation.
type mmsgBatch struct {
	trap uintptr
	msgs []mmsghdr
	iovs []unix.Iovec
	want int

	callback func(fd uintptr) bool
	got      int
	errno    syscall.Errno
}

func newMmsgBatch(trap uintptr) *mmsgBatch {
	b := &mmsgBatch{trap: trap, msgs: make([]mmsghdr, batchSize), iovs: make([]unix.Iovec, batchSize)}
	for i := range b.msgs {
		b.msgs[i].hdr.Iov = &b.iovs[i]
		b.msgs[i].hdr.SetIovlen(1)
	}
	b.callback = b.call
	return b
}

// call is one non-blocking attempt; false asks to wait until the socket is ready.
func (b *mmsgBatch) call(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall6(b.trap, fd, uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(b.want), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		b.errno, b.got = errno, int(n)
		return true
	}
}

// run fills the vector from the first frames, full capacity or length as asked,
// and performs the call through rw, the Read or Write of a RawConn.
func (b *mmsgBatch) run(frames [][]byte, whole bool, rw func(func(uintptr) bool) error) (int, error) {
	b.want = min(len(frames), batchSize)
	for i, f := range frames[:b.want] {
		if whole {
			f = f[:cap(f)]
		}
		b.iovs[i].Base = unsafe.SliceData(f)
		b.iovs[i].SetLen(len(f))
	}
	if err := rw(b.callback); err != nil {
		return 0, err
	}
	if b.errno != 0 {
		return 0, b.errno
	}
	return b.got, nil
}

// A packetConn reads and writes frames in batches.
type packetConn struct {
	pc       *packet.Conn
	rc       syscall.RawConn
	protocol Protocol
	closed   atomic.Bool
	recv     *mmsgBatch
	mu       sync.Mutex // serializes writers
	send     *mmsgBatch
}

func newPacketConn(pc *packet.Conn, rc syscall.RawConn, p Protocol) *packetConn {
	return &packetConn{
		pc: pc, rc: rc, protocol: p,
		recv: newMmsgBatch(unix.SYS_RECVMMSG), send: newMmsgBatch(unix.SYS_SENDMMSG),
	}
}

func (c *packetConn) ReadFrames(frames [][]byte) (int, error) {
	if len(frames) == 0 {
		return 0, nil
	}
	n, err := c.recv.run(frames, true, c.rc.Read)
	if err != nil {
		return 0, c.failed("read", err)
	}
	for i := range n {
		frames[i] = frames[i][:c.recv.msgs[i].n]
	}
	return n, nil
}

func (c *packetConn) WriteFrames(frames [][]byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := 0
	for sent < len(frames) {
		n, err := c.send.run(frames[sent:], false, c.rc.Write)
		sent += n
		if err != nil {
			return sent, c.failed("write", err)
		}
	}
	return sent, nil
}

// LetClaims replaces the filter; see claimFilter.
func (c *packetConn) LetClaims(of []netip.Prefix) error {
	filter, err := kernelFilter(c.protocol, of)
	if err != nil {
		return fmt.Errorf("assemble filter: %w", err)
	}
	if err := c.pc.SetBPF(filter); err != nil {
		return c.failed("set filter", err)
	}
	return nil
}

func (c *packetConn) failed(op string, err error) error {
	if c.closed.Load() {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "packet", Addr: c.pc.LocalAddr(), Err: err}
}

func (c *packetConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.pc.Close()
}

// isQueueFull reports errors after which the same frame may pass a moment later.
func isQueueFull(err error) bool {
	return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM)
}
