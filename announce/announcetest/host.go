// Package announcetest is a host in memory for tests of programs that use package
// announce: links come and go at will, frames are put in by hand, and what the
// host sends is kept. No privilege is needed, and it works inside a
// testing/synctest bubble.
//
//	host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
//	a, err := announce.New(announce.Config{Open: host.Open})
package announcetest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/heraldlb/herald/announce"
)

// A Frame is an Ethernet frame that the host has sent.
type Frame struct {
	Time     time.Time
	Link     string
	Protocol announce.Protocol
	Data     []byte
}

// Ethernet returns a link that is up, with a MAC made from its index.
func Ethernet(index int, name string) announce.Link {
	return announce.Link{
		Index: index, Name: name, Type: 1, Up: true,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, byte(index >> 8), byte(index)},
	}
}

// A Host is a computer in memory. Its methods may be called concurrently.
type Host struct {
	mu      sync.Mutex
	links   []announce.Link
	changed chan struct{}
	conns   map[key]*conn
	refused map[key]error
	groups  map[string]map[netip.Addr]struct{}
	noJoin  error
	sent    []Frame
}

type key struct {
	link     string
	protocol announce.Protocol
}

// NewHost returns a host with the given links.
func NewHost(links ...announce.Link) *Host {
	return &Host{
		links:   slices.Clone(links),
		changed: make(chan struct{}, 1),
		conns:   make(map[key]*conn),
		refused: make(map[key]error),
		groups:  make(map[string]map[netip.Addr]struct{}),
	}
}

// Open is for announce.Config.Open.
func (h *Host) Open() (announce.Network, error) { return network{h}, nil }

// SetLinks replaces the links and reports the change.
func (h *Host) SetLinks(links ...announce.Link) {
	h.mu.Lock()
	h.links = slices.Clone(links)
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Refuse makes opening a socket fail with err from now on; nil allows it again.
func (h *Host) Refuse(link string, p announce.Protocol, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused[key{link, p}] = err
}

// RefuseJoin makes joining a group fail with err from now on; nil allows it again.
func (h *Host) RefuseJoin(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noJoin = err
}

// Receive lets a frame arrive on a link. It reports whether a socket took it.
func (h *Host) Receive(link string, p announce.Protocol, frame []byte) bool {
	return h.deliver(link, p, arrival{frame: slices.Clone(frame)})
}

// FailRead makes one read from a link's socket fail.
func (h *Host) FailRead(link string, p announce.Protocol, err error) bool {
	return h.deliver(link, p, arrival{err: err})
}

func (h *Host) deliver(link string, p announce.Protocol, a arrival) bool {
	h.mu.Lock()
	c := h.conns[key{link, p}]
	h.mu.Unlock()
	if c == nil {
		return false
	}
	select {
	case c.arrivals <- a:
		return true
	case <-c.closed:
		return false
	}
}

// Sent returns what was sent since the last call, in order.
func (h *Host) Sent() []Frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := h.sent
	h.sent = nil
	return sent
}

// Groups returns the multicast groups joined on a link, sorted.
func (h *Host) Groups(link string) []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	var groups []netip.Addr
	for g := range h.groups[link] {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, netip.Addr.Compare)
	return groups
}

// Sockets returns how many sockets are open, of both protocols and all links.
func (h *Host) Sockets() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// A network is a Host as package announce sees it.
type network struct{ h *Host }

func (n network) Links() ([]announce.Link, error) {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	return slices.Clone(n.h.links), nil
}

func (n network) Changed() <-chan struct{} { return n.h.changed }

func (n network) Close() error { return nil }

func (n network) Listen(l announce.Link, p announce.Protocol) (announce.Conn, error) {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	k := key{l.Name, p}
	if err := n.h.refused[k]; err != nil {
		return nil, err
	}
	if n.h.conns[k] != nil {
		return nil, fmt.Errorf("announcetest: %v socket on %s is open already", p, l.Name)
	}
	c := &conn{h: n.h, key: k, arrivals: make(chan arrival, 1024), closed: make(chan struct{})}
	n.h.conns[k] = c
	return c, nil
}

func (n network) Groups(l announce.Link) (announce.Groups, error) {
	return groups{n.h, l.Name}, nil
}

type arrival struct {
	frame []byte
	err   error
}

type conn struct {
	h        *Host
	key      key
	arrivals chan arrival
	closed   chan struct{}
	once     sync.Once
}

func (c *conn) ReadFrames(frames [][]byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case a := <-c.arrivals:
		if a.err != nil {
			return 0, a.err
		}
		n := copy(frames[0][:cap(frames[0])], a.frame)
		frames[0] = frames[0][:n]
		return 1, nil
	}
}

func (c *conn) WriteFrames(frames [][]byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	for _, f := range frames {
		c.h.sent = append(c.h.sent, Frame{time.Now(), c.key.link, c.key.protocol, slices.Clone(f)})
	}
	return len(frames), nil
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.h.mu.Lock()
		delete(c.h.conns, c.key)
		c.h.mu.Unlock()
		close(c.closed)
	})
	return nil
}

type groups struct {
	h    *Host
	link string
}

func (g groups) Join(a netip.Addr) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.h.noJoin != nil {
		return g.h.noJoin
	}
	if _, ok := g.h.groups[g.link][a]; ok {
		return errors.New("announcetest: group is joined already")
	}
	if g.h.groups[g.link] == nil {
		g.h.groups[g.link] = make(map[netip.Addr]struct{})
	}
	g.h.groups[g.link][a] = struct{}{}
	return nil
}

func (g groups) Leave(a netip.Addr) error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if _, ok := g.h.groups[g.link][a]; !ok {
		return errors.New("announcetest: group is not joined")
	}
	delete(g.h.groups[g.link], a)
	return nil
}

func (g groups) Close() error {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	delete(g.h.groups, g.link)
	return nil
}
