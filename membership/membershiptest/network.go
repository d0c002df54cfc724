package membershiptest

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/heraldlb/herald/membership"
)

// firstFreePort is where ports for port 0 and for outgoing connections begin.
const firstFreePort = 40000

// Network is a LAN in memory. Use [NewNetwork].
type Network struct {
	mu       sync.Mutex
	hosts    map[netip.Addr]*Host
	group    map[netip.Addr]int // while partitioned; 0 is nobody's group
	split    bool
	cuts     map[[2]netip.Addr]bool
	loss     float64
	delay    time.Duration
	rand     *rand.Rand
	nextPort uint16
	links    map[*link]struct{}
	packets  uint64
}

// NewNetwork returns a network without hosts, loss or delay. What is random in
// it is the same in every run.
func NewNetwork() *Network {
	return &Network{
		hosts:    make(map[netip.Addr]*Host),
		cuts:     make(map[[2]netip.Addr]bool),
		links:    make(map[*link]struct{}),
		rand:     rand.New(rand.NewPCG(1, 2)),
		nextPort: firstFreePort,
	}
}

// Host returns the host with that address, which it creates if need be. A host
// is the [membership.Transport] of the clusters that run on it.
func (n *Network) Host(addr netip.Addr) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, ok := n.hosts[addr]
	if !ok {
		h = &Host{net: n, addr: addr, sockets: make(map[uint16]*sockets)}
		n.hosts[addr] = h
	}
	return h
}

// Partition lets only hosts of one group talk to each other. A host in no group
// is alone. It replaces an earlier partition.
func (n *Network) Partition(groups ...[]netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.split = true
	n.group = make(map[netip.Addr]int)
	for i, group := range groups {
		for _, addr := range group {
			n.group[addr] = i + 1
		}
	}
	n.resetLinksLocked()
}

// Cut ends the contact between two hosts, in both directions.
func (n *Network) Cut(a, b netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]netip.Addr{a, b}] = true
	n.cuts[[2]netip.Addr{b, a}] = true
	n.resetLinksLocked()
}

// Heal ends partitions and cuts. It does not revive hosts that were killed.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.split = false
	clear(n.cuts)
}

// SetLoss makes the network lose that part (0 to 1) of all packets.
func (n *Network) SetLoss(part float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = part
}

// SetDelay makes every packet take that long. Connections are not slowed down.
func (n *Network) SetDelay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Packets returns how many packets were sent, lost ones included.
func (n *Network) Packets() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.packets
}

// reachableLocked reports whether what one host sends arrives at another.
func (n *Network) reachableLocked(from, to netip.Addr) bool {
	if n.cuts[[2]netip.Addr{from, to}] || n.unpluggedLocked(from) || n.unpluggedLocked(to) {
		return false
	}
	if !n.split || from == to {
		return true
	}
	return n.group[from] != 0 && n.group[from] == n.group[to]
}

func (n *Network) unpluggedLocked(addr netip.Addr) bool {
	h, ok := n.hosts[addr]
	return ok && h.unplugged
}

// resetLinksLocked ends the connections that can no longer exist.
func (n *Network) resetLinksLocked() {
	for l := range n.links {
		if !n.reachableLocked(l.from, l.to) {
			l.reset()
			delete(n.links, l)
		}
	}
}

// send carries one packet. Its loss is no error, unless the sender can tell.
func (n *Network) send(from, to netip.AddrPort, data []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.packets++
	if n.unpluggedLocked(from.Addr()) {
		return os.NewSyscallError("sendto", syscall.ENETUNREACH)
	}
	if !n.reachableLocked(from.Addr(), to.Addr()) || n.loss > 0 && n.rand.Float64() < n.loss {
		return nil
	}
	if n.delay > 0 {
		time.AfterFunc(n.delay, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.deliverLocked(from, to, data)
		})
		return nil
	}
	n.deliverLocked(from, to, data)
	return nil
}

func (n *Network) deliverLocked(from, to netip.AddrPort, data []byte) {
	h, ok := n.hosts[to.Addr()]
	if !ok {
		return
	}
	s, ok := h.sockets[to.Port()]
	if !ok {
		return
	}
	select {
	case s.packets.queue <- packet{from: from, data: data}:
	default: // the reader is too slow
	}
}

func (n *Network) freePortLocked() uint16 {
	n.nextPort++
	return n.nextPort
}

// Host is one host of a [Network], and the transport of the clusters on it.
type Host struct {
	net  *Network
	addr netip.Addr

	// Guarded by net.mu.
	sockets   map[uint16]*sockets
	unplugged bool
}

var _ membership.Transport = (*Host)(nil)

// sockets is what Listen returns.
type sockets struct {
	packets *packetConn
	streams *listener
}

// Kill is the death of the host: its sockets and connections are gone, and
// nobody is told. A later Listen brings the host back.
func (h *Host) Kill() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for port, s := range h.sockets {
		s.packets.markClosed()
		s.streams.markClosed()
		delete(h.sockets, port)
	}
	for l := range h.net.links {
		if l.from == h.addr || l.to == h.addr {
			l.reset()
			delete(h.net.links, l)
		}
	}
}

// Unplug takes the only link of the host down: unlike on the other side of a cut
// the host learns of it, because sending fails with ENETUNREACH.
func (h *Host) Unplug() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.unplugged = true
	h.net.resetLinksLocked()
}

// Plug brings the link up again.
func (h *Host) Plug() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.unplugged = false
}

// Listen opens a port of the host. The address must be the host's, or
// unspecified.
func (h *Host) Listen(ctx context.Context, addr netip.AddrPort) (membership.PacketConn, net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if addr.Addr() != h.addr && !addr.Addr().IsUnspecified() {
		return nil, nil, listenError(addr, syscall.EADDRNOTAVAIL)
	}
	port := addr.Port()
	if port == 0 {
		port = h.net.freePortLocked()
	}
	if _, ok := h.sockets[port]; ok {
		return nil, nil, listenError(addr, syscall.EADDRINUSE)
	}
	local := netip.AddrPortFrom(h.addr, port)
	s := &sockets{packets: newPacketConn(h, local), streams: newListener(h, local)}
	h.sockets[port] = s
	return s.packets, s.streams, nil
}

func listenError(addr netip.AddrPort, errno syscall.Errno) error {
	return &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(addr), Err: os.NewSyscallError("bind", errno)}
}

// Dial connects to another host.
func (h *Host) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	conn, err := h.connect(to)
	if conn == nil && err == nil {
		<-ctx.Done() // nobody answers
		err = ctx.Err()
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return conn, nil
}

// connect returns neither a connection nor an error if there is no answer.
func (h *Host) connect(to netip.AddrPort) (net.Conn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.unplugged {
		return nil, os.NewSyscallError("connect", syscall.ENETUNREACH)
	}
	peer, ok := h.net.hosts[to.Addr()]
	if !ok || len(peer.sockets) == 0 || !h.net.reachableLocked(h.addr, to.Addr()) {
		return nil, nil
	}
	s, ok := peer.sockets[to.Port()]
	if !ok {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	l := newLink(h.net, netip.AddrPortFrom(h.addr, h.net.freePortLocked()), to)
	select {
	case s.streams.backlog <- l.server:
		h.net.links[l] = struct{}{}
		return l.client, nil
	default:
		l.reset()
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
}
