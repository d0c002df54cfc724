// Package bfdtest is a network in memory for tests of programs that use package
// bfd: packets can be delayed, lost and counted. No privilege is needed, and it
// works inside a testing/synctest bubble.
//
//	nw := bfdtest.NewNetwork()
//	a, err := bfd.New(bfd.Config{Transport: nw.Host(netip.MustParseAddr("192.0.2.1"))})
//	b, err := bfd.New(bfd.Config{Transport: nw.Host(netip.MustParseAddr("192.0.2.2"))})
//	nw.SetLink(bfdtest.Cut) // and see both go down
package bfdtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/heraldlb/herald/bgp/bfd"
)

// A Datagram is on its way.
type Datagram struct {
	From, To netip.Addr
	Port     uint16
	Data     []byte
}

// A Link decides what becomes of a datagram: how long it is under way and whether
// it arrives. Calls may overlap. It must not call a bfd.Monitor.
type Link func(Datagram) (delay time.Duration, arrives bool)

// Perfect delivers everything at once.
func Perfect(Datagram) (time.Duration, bool) { return 0, true }

// Cut delivers nothing.
func Cut(Datagram) (time.Duration, bool) { return 0, false }

// A Network connects hosts. Its methods may be called concurrently.
type Network struct {
	mu        sync.Mutex
	link      Link
	receivers []*receiver
}

// NewNetwork returns a network with a perfect link.
func NewNetwork() *Network { return &Network{link: Perfect} }

// SetLink replaces the link for datagrams that are sent from now on.
func (n *Network) SetLink(l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link = l
}

// Open returns how many ports of hosts are open.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.receivers)
}

// Host returns the transport of a host that has the given addresses. It has one
// interface, with index 1 and any name.
func (n *Network) Host(addrs ...netip.Addr) bfd.Transport { return &host{n, addrs} }

type host struct {
	network *Network
	addrs   []netip.Addr
}

func (h *host) Listen(_ context.Context, port uint16, ipv6 bool) (bfd.Receiver, error) {
	r := &receiver{
		host: h, port: port, ipv6: ipv6,
		queue: make(chan arrival, 1024), ready: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	n := h.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.receivers {
		if other.host == h && other.port == port && other.ipv6 == ipv6 {
			return nil, fmt.Errorf("bfdtest: port %d is open already", port)
		}
	}
	n.receivers = append(n.receivers, r)
	return r, nil
}

func (h *host) Dial(peer bfd.Peer) (bfd.Sender, error) {
	s := &sender{host: h, from: peer.Local, to: peer.Addr, port: bfd.PortSingleHop}
	if peer.Multihop {
		s.port = bfd.PortMultihop
	}
	if peer.Interface != "" {
		s.iface = 1
	}
	for _, a := range h.addrs {
		if !s.from.IsValid() && a.Is4() == peer.Addr.Is4() {
			s.from = a
		}
	}
	if !slices.Contains(h.addrs, s.from) {
		return nil, fmt.Errorf("bfdtest: the host has no address to reach %v from", peer)
	}
	return s, nil
}

// arrival is a datagram that has arrived.
type arrival struct {
	data []byte
	meta bfd.Meta
}

type receiver struct {
	host   *host
	port   uint16
	ipv6   bool
	queue  chan arrival
	ready  chan struct{} // capacity 1: look into the queue
	once   sync.Once
	closed chan struct{}
}

func (r *receiver) Serve(ready func()) error {
	for {
		select {
		case <-r.closed:
			return nil
		case <-r.ready:
			ready()
		}
	}
}

func (r *receiver) Next(buf []byte) (int, bfd.Meta, bool) {
	select {
	case a := <-r.queue:
		return copy(buf, a.data), a.meta, true
	default:
		return 0, bfd.Meta{}, false
	}
}

func (r *receiver) Close() error {
	r.once.Do(func() {
		close(r.closed)
		n := r.host.network
		n.mu.Lock()
		defer n.mu.Unlock()
		n.receivers = slices.DeleteFunc(n.receivers, func(o *receiver) bool { return o == r })
	})
	return nil
}

type sender struct {
	host     *host
	from, to netip.Addr
	port     uint16
	iface    int
}

func (s *sender) Interface() int { return s.iface }

func (s *sender) Close() error { return nil }

func (s *sender) Send(data []byte) error {
	if len(data) == 0 {
		return errors.New("bfdtest: empty datagram")
	}
	n := s.host.network
	n.mu.Lock()
	link := n.link
	n.mu.Unlock()
	d := Datagram{From: s.from, To: s.to, Port: s.port, Data: slices.Clone(data)}
	switch delay, arrives := link(d); {
	case !arrives:
	case delay == 0:
		n.Deliver(d, 255)
	default:
		time.AfterFunc(delay, func() { n.Deliver(d, 255) })
	}
	return nil
}

// Deliver puts a datagram before the host that has its destination, with a TTL, by-
// passing the link. It is lost if nobody listens or the queue is full.
func (n *Network) Deliver(d Datagram, ttl int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.receivers {
		if r.port != d.Port || r.ipv6 != d.To.Is6() || !slices.Contains(r.host.addrs, d.To) {
			continue
		}
		select {
		case r.queue <- arrival{d.Data, bfd.Meta{From: d.From, To: d.To, Interface: 1, TTL: ttl}}:
		default:
		}
		select {
		case r.ready <- struct{}{}:
		default:
		}
	}
}
