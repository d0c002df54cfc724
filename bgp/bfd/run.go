package bfd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// retry is the time between attempts to open a socket.
	retry = time.Second

	// pause is the least time between two looks at the sessions, so that hundreds
	// of them do not wake the process thousands of times in a second.
	pause = 500 * time.Microsecond

	// batch is how many packets are taken before others may have the lock.
	batch = 64

	// bufferSize is that of the largest packet: a length of one byte.
	bufferSize = 256
)

// A port is one of the up to four ports that are listened on.
type port struct{ ipv6, multihop bool }

func (p port) number() uint16 {
	if p.multihop {
		return PortMultihop
	}
	return PortSingleHop
}

// A listener is an open port and the goroutine that reads it.
type listener struct {
	receiver Receiver
	done     chan struct{} // closed when the goroutine has ended
}

// Run holds the sessions until ctx is done, then tells the remote systems
// AdminDown, closes every socket, joins every goroutine and returns nil. It may be
// called once. Sockets that cannot be opened are no reason to end: Status.Err has
// the cause and they are tried again every second.
func (m *Monitor) Run(ctx context.Context) error {
	if m.started.Swap(true) {
		return errors.New("bfd: Run was called before; make a new Monitor")
	}
	m.loop(ctx)

	m.mu.Lock()
	now := time.Now()
	for _, e := range m.entries {
		m.goodbye(now, e)
		e.close()
	}
	listeners := m.listeners
	m.listeners = nil
	m.mu.Unlock()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("bfd: close sockets: %w", err)
	}
	return nil
}

func (l *listener) close() error {
	err := l.receiver.Close()
	<-l.done
	return err
}

// loop is the one timer of all sessions.
func (m *Monitor) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var again time.Time // when to look at the sockets
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			again = time.Time{}
		case <-timer.C:
		}
		if !time.Now().Before(again) {
			again = m.sync(ctx)
		}
		m.mu.Lock()
		m.planned = earlier(again, m.advance(time.Now()))
		timer.Reset(max(time.Until(m.planned), pause))
		m.mu.Unlock()
	}
}

// advance does what is due and returns when it wants to be called again. Before a
// session expires the ports are read: when the process got no CPU, the packets
// that keep sessions alive wait there.
func (m *Monitor) advance(now time.Time) (next time.Time) {
	overdue := func(e *entry) bool { return !e.expiry().After(now) }
	if slices.ContainsFunc(m.entries, overdue) {
		for p, l := range m.listeners {
			for m.take(l.receiver, p) == batch {
			}
		}
	}
	next = never()
	for _, e := range m.entries {
		if overdue(e) {
			m.update(e, func() { e.expire(now) })
		}
		m.flush(e, now)
		next = earlier(next, e.next())
	}
	return next
}

// next returns when something is due by the clock.
func (e *entry) next() time.Time {
	if e.sender == nil {
		return e.expiry()
	}
	return earlier(e.expiry(), e.nextSend())
}

// sync opens the sockets that are missing and closes those that nobody needs. It
// returns when it wants to be called again. Only the loop changes m.listeners.
func (m *Monitor) sync(ctx context.Context) (again time.Time) {
	again = never()
	needed, undialed := m.sockets()
	for p, l := range m.listeners {
		select {
		case <-l.done: // its socket has failed
		default:
			if needed[p] {
				continue
			}
		}
		m.setListener(p, nil)
		_ = l.close()
	}
	for p := range needed {
		if m.listeners[p] != nil {
			continue
		}
		l, err := m.listen(ctx, p)
		if err != nil {
			m.mute(p, err)
			again = time.Now().Add(retry)
			continue
		}
		m.setListener(p, l)
	}
	for _, e := range undialed {
		if m.listeners[e.port()] != nil {
			again = earlier(again, m.dial(e))
		}
	}
	return again
}

func (m *Monitor) setListener(p port, l *listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l == nil {
		delete(m.listeners, p)
	} else {
		m.listeners[p] = l
	}
}

func (e *entry) port() port { return port{e.peer.Addr.Is6(), e.peer.Multihop} }

// sockets returns which ports are needed, and the sessions that cannot send.
func (m *Monitor) sockets() (needed map[port]bool, undialed []*entry) {
	needed = make(map[port]bool, 4)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		needed[e.port()] = true
		if e.sender == nil {
			undialed = append(undialed, e)
		}
	}
	return needed, undialed
}

// mute stops the sessions of a port that cannot be opened. They must not send: if
// another daemon of this host has the port, the remote system would take their
// packets for that one's.
func (m *Monitor) mute(p port, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.port() == p {
			e.close()
			m.setErr(e, err)
		}
	}
}

// close takes from a session the means to send.
func (e *entry) close() {
	if e.sender != nil {
		_ = e.sender.Close()
		e.sender = nil
	}
}

func (m *Monitor) listen(ctx context.Context, p port) (*listener, error) {
	r, err := m.transport.Listen(ctx, p.number(), p.ipv6)
	if err != nil {
		return nil, err
	}
	l := &listener{receiver: r, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if err := r.Serve(func() { m.drain(r, p) }); err != nil {
			m.log.Warn("cannot receive, will open the port again", "port", p.number(), "err", err)
			notify(m.wake)
		}
	}()
	return l, nil
}

// dial lets a session send, if it is time to try. It returns when to try again.
func (m *Monitor) dial(e *entry) (again time.Time) {
	m.mu.Lock()
	peer, at := e.peer, e.redial
	m.mu.Unlock()
	if time.Now().Before(at) {
		return at
	}
	sender, err := m.transport.Dial(peer) // takes its time
	m.mu.Lock()
	defer m.mu.Unlock()
	e.redial = time.Now().Add(retry)
	switch {
	case err != nil:
		m.setErr(e, err)
		return e.redial
	case m.byDiscr[e.local] != e: // the peer is gone meanwhile
		_ = sender.Close()
	default:
		e.sender = sender
	}
	return never()
}

// drain takes all that waits at a port.
func (m *Monitor) drain(r Receiver, p port) {
	for more := true; more; {
		m.mu.Lock()
		more = m.take(r, p) == batch
		m.mu.Unlock()
	}
}

// take handles up to batch packets and returns how many there were. A packet is
// read and handled under one hold of the lock, so that none is in between while
// the loop judges a session.
func (m *Monitor) take(r Receiver, p port) (n int) {
	for ; n < batch; n++ {
		size, meta, ok := r.Next(m.in[:])
		if !ok {
			break
		}
		m.handle(m.in[:size], meta, p.multihop)
	}
	return n
}

// handle gives a datagram to the session that it belongs to.
func (m *Monitor) handle(data []byte, meta Meta, multihop bool) {
	p, section, err := ParsePacket(data)
	if err != nil {
		m.stats.Malformed++
		return
	}
	e := m.find(p, meta, multihop)
	if e == nil {
		m.stats.UnknownSession++
		return
	}
	now := time.Now()
	switch {
	case meta.TTL < e.peer.MinTTL:
		m.stats.TTL++
		e.discarded++
		return
	case !e.auth.accept(now, e.peer, e.detection(), data, section):
		m.stats.Unauthenticated++
		e.discarded++
		return
	}
	e.received++
	m.update(e, func() { e.receive(now, p) })
	m.flush(e, now)
	if e.next().Before(m.planned) {
		notify(m.wake)
	}
}

// find returns the session of a packet: by discriminator, else by where it came
// from (RFC 5880 section 6.8.6, RFC 5881 section 3, RFC 5883 section 4). A packet
// that knows the discriminator must still have come the right way.
func (m *Monitor) find(p Packet, meta Meta, multihop bool) *entry {
	right := func(e *entry) bool {
		return e.peer.Addr == meta.From && e.peer.Multihop == multihop &&
			(!e.peer.Local.IsValid() || e.peer.Local == meta.To) &&
			(e.peer.Interface == "" || e.sender != nil && e.sender.Interface() == meta.Interface)
	}
	if p.YourDiscriminator != 0 {
		if e := m.byDiscr[p.YourDiscriminator]; e != nil && right(e) {
			return e
		}
		return nil
	}
	for _, e := range m.byAddr[meta.From] {
		if right(e) {
			return e
		}
	}
	return nil
}

// flush sends what a session has to send now.
func (m *Monitor) flush(e *entry, now time.Time) {
	if e.sender == nil {
		return
	}
	for {
		p, ok := e.emit(now)
		if !ok || !m.send(e, p) {
			return
		}
	}
}

// send puts a packet on the wire and says whether the session can go on sending.
func (m *Monitor) send(e *entry, p Packet) (ok bool) {
	if e.sender == nil {
		return false
	}
	auth := e.peer.Auth
	p.Authenticated = auth.Type != AuthNone
	data, err := p.AppendBinary(m.out[:0])
	if err == nil {
		m.out = data
		if p.Authenticated {
			e.auth.sent++
			data = auth.sign(data, e.auth.sent)
		}
		err = e.sender.Send(data)
	}
	m.setErr(e, err)
	if err == nil {
		e.sent++
		return true
	}
	m.stats.SendErrors++
	if e.peer.Interface != "" && !time.Now().Before(e.redial) {
		// The interface may have been replaced by another of its name.
		e.close()
		notify(m.wake)
	}
	return false
}
