package bgptest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/heraldlb/herald/bgp"
)

// PeerConfig configures a [Peer]. Everything but ASN may be zero.
type PeerConfig struct {
	ASN      uint32
	RouterID netip.Addr       // zero: 198.51.100.1
	HoldTime uint16           // seconds; zero: 90
	Families bgp.Families     // zero: IPv4 and IPv6
	Listener *net.TCPListener // where to accept; zero: a free port of 127.0.0.1

	TwoOctetASN       bool // do not offer AS numbers of four octets
	NoCapabilities    bool // offer nothing at all
	NoExtendedNextHop bool
	GracefulRestart   bool          // offer graceful restart, and keep the routes of a broken session until the next
	RestartTime       time.Duration // to offer; zero: 120 s

	Quiet bool // remember no events, for benchmarks
}

// Peer is a BGP speaker that accepts one session at a time. All methods may be
// called concurrently.
type Peer struct {
	cfg PeerConfig
	l   *net.TCPListener
	wg  sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	conn     net.Conn // nil: no session is established
	conns    map[net.Conn]bool
	closed   bool
	deaf     bool
	open     Open
	sessions int
	attempts int
	routes   map[netip.Prefix]Route
	stale    map[netip.Prefix]bool
	events   []Event
	problem  error
}

// Event is something that a [Peer] was told, in order.
type Event struct {
	Session  int // counted from 1
	Announce netip.Prefix
	Withdraw netip.Prefix
	EndOfRIB bgp.Families
	Up, Down bool
	Notified Notification
}

// NewPeer starts a peer that ends with the test. A message that is not as the
// RFCs want it fails the test.
func NewPeer(tb testing.TB, cfg PeerConfig) *Peer {
	tb.Helper()
	if !cfg.RouterID.IsValid() {
		cfg.RouterID = netip.MustParseAddr("198.51.100.1")
	}
	if cfg.HoldTime == 0 {
		cfg.HoldTime = 90
	}
	if cfg.Families == 0 {
		cfg.Families = bgp.IPv4 | bgp.IPv6
	}
	p := &Peer{cfg: cfg, l: cfg.Listener, conns: make(map[net.Conn]bool), routes: make(map[netip.Prefix]Route), stale: make(map[netip.Prefix]bool)}
	p.changed = sync.NewCond(&p.mu)
	if p.l == nil {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			tb.Fatalf("bgptest: %v", err)
		}
		p.l = l
	}
	p.wg.Go(p.accept)
	tb.Cleanup(func() {
		p.Close()
		if p.problem != nil {
			tb.Errorf("bgptest: peer at %s: %v", p.Addr(), p.problem)
		}
	})
	return p
}

// Addr is where the peer accepts sessions.
func (p *Peer) Addr() netip.AddrPort {
	a := p.l.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Peer describes this peer to a speaker in AS localASN. Attempts to connect follow
// each other as fast as the API allows.
func (p *Peer) Peer(name string, localASN uint32) bgp.Peer {
	retry := time.Second
	return bgp.Peer{
		Name: name, LocalASN: localASN, PeerASN: p.cfg.ASN, Addr: p.Addr().Addr(), Port: p.Addr().Port(),
		RouterID: netip.MustParseAddr("198.51.100.200"), ConnectRetry: &retry,
	}
}

// Close ends the peer without a word.
func (p *Peer) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.l.Close() // it only accepts
	p.Break()
	p.wg.Wait()
}

// Break closes the connection without a word, as a crash does.
func (p *Peer) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Deafen makes the peer stop reading, or read on.
func (p *Peer) Deafen(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
	p.changed.Broadcast()
}

// Notify sends a NOTIFICATION and closes the session.
func (p *Peer) Notify(tb testing.TB, code, subcode uint8) {
	tb.Helper()
	p.send(tb, message(msgNotification, []byte{code, subcode}))
	p.Break()
}

// Announce sends an IPv4 route of its own to the other side.
func (p *Peer) Announce(tb testing.TB, prefix netip.Prefix) {
	tb.Helper()
	asn := binary.BigEndian.AppendUint32([]byte{0x40, attrASPath, 6, 2, 1}, p.cfg.ASN)
	hop := p.Addr().Addr().As4()
	attrs := slices.Concat([]byte{0x40, attrOrigin, 1, 0}, asn, []byte{0x40, attrNextHop, 4}, hop[:])
	body := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attrs)))
	body = append(append(body, attrs...), byte(prefix.Bits()))
	body = append(body, prefix.Addr().AsSlice()[:(prefix.Bits()+7)/8]...)
	p.send(tb, message(msgUpdate, body))
}

func (p *Peer) send(tb testing.TB, data []byte) {
	tb.Helper()
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		tb.Fatalf("bgptest: peer at %s has no session", p.Addr())
	}
	if _, err := conn.Write(data); err != nil {
		tb.Fatalf("bgptest: %v", err)
	}
}

// Routes returns what the peer holds, routes that it keeps for a restart included.
func (p *Peer) Routes() map[netip.Prefix]Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.routes)
}

// Events returns everything that the peer was told.
func (p *Peer) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Open returns what the other side said last of itself.
func (p *Peer) Open() Open {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// Sessions returns how many sessions there have been, and whether one is there.
func (p *Peer) Sessions() (count int, established bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions, p.conn != nil
}

// Attempts returns how many connections there have been.
func (p *Peer) Attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts
}

func (p *Peer) accept() {
	for {
		conn, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.attempts++
		refuse := p.closed || len(p.conns) > 0
		if !refuse {
			p.conns[conn] = true
		}
		p.mu.Unlock()
		if refuse {
			conn.Close()
			continue
		}
		p.wg.Go(func() {
			err := p.serve(conn)
			conn.Close()
			p.ended(conn, err)
		})
	}
}

// badMessage is an error of the other side.
type badMessage struct{ error }

func (p *Peer) serve(conn net.Conn) error {
	if _, err := conn.Write(p.openMessage()); err != nil {
		return err
	}
	typ, body, err := readMessage(conn)
	if err != nil {
		return err
	}
	if typ != msgOpen {
		return badMessage{fmt.Errorf("message %d instead of OPEN", typ)}
	}
	open, err := parseOpen(body)
	if err != nil {
		return badMessage{err}
	}
	p.mu.Lock()
	p.open = open
	p.mu.Unlock()
	if _, err := conn.Write(message(msgKeepalive, nil)); err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	if hold := min(open.HoldTime, p.cfg.HoldTime); hold > 0 {
		p.wg.Go(func() { keepalive(conn, time.Duration(hold)*time.Second/3, stop) })
	}
	four := open.FourOctetASN && !p.cfg.TwoOctetASN && !p.cfg.NoCapabilities
	for {
		if err := p.receive(conn, four); err != nil {
			return err
		}
	}
}

func keepalive(conn net.Conn, every time.Duration, stop chan struct{}) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			if _, err := conn.Write(message(msgKeepalive, nil)); err != nil {
				return
			}
		}
	}
}

func (p *Peer) receive(conn net.Conn, four bool) error {
	p.mu.Lock()
	for p.deaf && !p.closed {
		p.changed.Wait()
	}
	p.mu.Unlock()
	typ, body, err := readMessage(conn)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	switch typ {
	case msgKeepalive:
		if p.conn == nil {
			p.conn = conn
			p.sessions++
			p.note(Event{Up: true})
			p.sendEndOfRIB(conn)
			p.resumed()
		}
	case msgNotification:
		if len(body) < 2 {
			return badMessage{errors.New("NOTIFICATION is short")}
		}
		p.note(Event{Notified: Notification{body[0], body[1]}})
		clear(p.routes)
		clear(p.stale)
		return errors.New("notified")
	case msgUpdate:
		u, err := parseUpdate(body, four)
		if err != nil {
			return badMessage{err}
		}
		p.update(u)
	default:
		return badMessage{fmt.Errorf("message of type %d", typ)}
	}
	return nil
}

// resumed drops what must not be kept (RFC 4724 section 4.2).
func (p *Peer) resumed() {
	for prefix := range p.stale {
		if !p.open.GracefulRestart || !p.open.Forwarding.Has(bgp.FamilyOf(prefix.Addr())) {
			p.drop(prefix)
		}
	}
}

func (p *Peer) drop(prefix netip.Prefix) {
	delete(p.routes, prefix)
	delete(p.stale, prefix)
	p.note(Event{Withdraw: prefix})
}

func (p *Peer) note(e Event) {
	if !p.cfg.Quiet {
		e.Session = p.sessions
		p.events = append(p.events, e)
	}
}

func (p *Peer) update(u update) {
	for _, prefix := range u.withdrawn {
		p.drop(prefix)
	}
	for _, prefix := range u.announced {
		delete(p.stale, prefix)
		p.routes[prefix] = u.attrs
		p.note(Event{Announce: prefix})
	}
	if u.endOfRIB != 0 {
		p.note(Event{EndOfRIB: u.endOfRIB})
		for prefix := range p.stale {
			if bgp.FamilyOf(prefix.Addr()) == u.endOfRIB {
				p.drop(prefix)
			}
		}
	}
}

func (p *Peer) sendEndOfRIB(conn net.Conn) {
	if !p.cfg.GracefulRestart {
		return
	}
	both := p.cfg.Families & p.open.Families
	if both.Has(bgp.IPv4) {
		_, _ = conn.Write(message(msgUpdate, []byte{0, 0, 0, 0}))
	}
	if both.Has(bgp.IPv6) {
		_, _ = conn.Write(message(msgUpdate, []byte{0, 0, 0, 6, 0x80, attrMPUnreach, 3, 0, 2, 1}))
	}
}

func (p *Peer) ended(conn net.Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	var bad badMessage
	if errors.As(err, &bad) && p.problem == nil {
		p.problem = bad.error
	}
	delete(p.conns, conn)
	if p.conn != conn {
		return
	}
	p.conn = nil
	p.note(Event{Down: true})
	if !p.cfg.GracefulRestart || !p.open.GracefulRestart {
		clear(p.routes)
	}
	for prefix := range p.routes {
		p.stale[prefix] = true
	}
}

func (p *Peer) openMessage() []byte {
	var caps []byte
	add := func(code byte, value ...byte) { caps = append(append(caps, code, byte(len(value))), value...) }
	for afi, f := range map[byte]bgp.Families{1: bgp.IPv4, 2: bgp.IPv6} {
		if p.cfg.Families.Has(f) {
			add(capMultiprotocol, 0, afi, 0, 1)
		}
	}
	if !p.cfg.TwoOctetASN {
		add(capFourOctetASN, binary.BigEndian.AppendUint32(nil, p.cfg.ASN)...)
	}
	if !p.cfg.NoExtendedNextHop {
		add(capExtendedNextHop, 0, 1, 0, 1, 0, 2)
	}
	if p.cfg.GracefulRestart {
		restart := p.cfg.RestartTime
		if restart == 0 {
			restart = bgp.DefaultRestartTime
		}
		value := binary.BigEndian.AppendUint16(nil, uint16(restart/time.Second))
		for afi, f := range map[byte]bgp.Families{1: bgp.IPv4, 2: bgp.IPv6} {
			if p.cfg.Families.Has(f) {
				value = append(value, 0, afi, 1, 0)
			}
		}
		add(capGracefulRestart, value...)
	}
	asn := uint16(23456) // AS_TRANS
	if p.cfg.ASN <= 0xffff {
		asn = uint16(p.cfg.ASN)
	}
	body := binary.BigEndian.AppendUint16([]byte{4}, asn)
	body = binary.BigEndian.AppendUint16(body, p.cfg.HoldTime)
	body = append(body, p.cfg.RouterID.AsSlice()...)
	if p.cfg.NoCapabilities {
		return message(msgOpen, append(body, 0))
	}
	body = append(body, byte(2+len(caps)), 2, byte(len(caps)))
	return message(msgOpen, append(body, caps...))
}
