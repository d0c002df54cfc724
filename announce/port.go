package announce

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"time"
)

// Back-off of what could not be opened or joined.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// A port is an eligible link with all that serves it. Run's goroutine owns it;
// what Stats and SetAddrs read (arp, ndp, groups, missing) changes under
// Announcer.mu.
type port struct {
	a           *Announcer
	link        Link
	lane        *lane
	arp, ndp    *responder // nil while the socket could not be opened
	groups      int
	missing     int
	memberships *memberships

	opened bool      // the first attempt was made
	retry  time.Time // when to try again what failed; zero: nothing failed
	delay  time.Duration
	step   time.Time // when to go on joining; zero: nothing to join
	warned map[string]bool
}

func newPort(a *Announcer, l Link) *port {
	return &port{a: a, link: l, lane: a.lane(l.Name), memberships: newMemberships(), warned: make(map[string]bool)}
}

// open opens what is not open. Failures are independent of each other: they are
// counted, logged once and retried with back-off.
func (p *port) open(nw Network) {
	p.listen(nw, ARP, &p.arp)
	p.listen(nw, NDP, &p.ndp)
	if p.memberships.conn == nil {
		g, err := nw.Groups(p.link)
		if err != nil {
			p.a.counters.listen.Add(1)
			p.warn("multicast groups", err)
		} else {
			p.memberships.conn = g
		}
	}
	p.backOff()
}

// listen puts a responder that has everything queued into the slot, unless there
// is one already or its socket cannot be opened.
func (p *port) listen(nw Network, protocol Protocol, slot **responder) {
	if *slot != nil {
		return
	}
	conn, err := nw.Listen(p.link, protocol)
	if err != nil {
		p.a.counters.listen.Add(1)
		p.warn(protocol.String()+" socket", err)
		return
	}
	r := startResponder(p.a, p.link, p.lane, protocol, conn)
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	*slot = r
	r.burst(p.a.table.Load().all)
}

// backOff plans the next attempt if something is broken, later each time.
func (p *port) backOff() {
	m := p.memberships
	switch {
	case p.arp != nil && p.ndp != nil && m.conn != nil && m.failed == 0:
		p.retry, p.delay = time.Time{}, 0
	case p.retry.IsZero():
		p.delay = min(max(2*p.delay, firstRetry), lastRetry)
		p.retry = time.Now().Add(p.delay)
	}
}

// hurry makes what failed be tried soon: something has changed on the host.
func (p *port) hurry() {
	if soon := time.Now().Add(firstRetry); p.retry.After(soon) {
		p.retry = soon
	}
}

// responder returns what serves the family of an address; nil if its socket is not
// open. The caller holds Announcer.mu.
func (p *port) responder(addr netip.Addr) *responder {
	if addr.Is4() {
		return p.arp
	}
	return p.ndp
}

// work does what is due: filters, retries, and the next batch of joins.
func (p *port) work(nw Network) {
	for _, r := range []*responder{p.arp, p.ndp} {
		if r != nil {
			r.narrow()
		}
	}
	now := time.Now()
	if !p.retry.IsZero() && !now.Before(p.retry) {
		p.retry = time.Time{}
		p.memberships.stale = true
		p.open(nw)
	}
	m := p.memberships
	if m.conn == nil {
		return
	}
	if m.stale {
		if err := m.want(wantedGroups(p.a.table.Load(), p.link.Name)); err != nil {
			p.joinFailed(1, err)
		}
		p.step = now
	}
	if !p.step.IsZero() && !now.Before(p.step) {
		if n, err := m.step(joinBatch); err != nil {
			p.joinFailed(n, err)
		}
		p.step = time.Time{}
		if len(m.pending) > 0 {
			p.step = now.Add(joinPause)
		} else {
			p.backOff()
		}
	}
	p.a.mu.Lock()
	p.groups, p.missing = len(m.joined), len(m.pending)+m.failed
	p.a.mu.Unlock()
}

func (p *port) joinFailed(n int, err error) {
	p.a.counters.join.Add(uint64(n))
	p.warn("solicited-node groups: switches that snoop MLD may not forward to us", err)
}

// next returns when work is due again, or the zero time.
func (p *port) next() time.Time {
	if p.step.IsZero() || (!p.retry.IsZero() && p.retry.Before(p.step)) {
		return p.retry
	}
	return p.step
}

// announce queues a burst for entries. The caller holds Announcer.mu.
func (p *port) announce(entries iter.Seq[*entry]) {
	for _, r := range []*responder{p.arp, p.ndp} {
		if r != nil {
			r.burst(entries)
		}
	}
}

// refresh queues one more round for everything that is not in a burst. The
// caller holds Announcer.mu.
func (p *port) refresh(t *table) {
	for _, r := range []*responder{p.arp, p.ndp} {
		if r != nil {
			r.queue.add(r.queue.idle(r.mine(t.all)), 1)
		}
	}
}

// warn logs each kind of failure once in the life of a port.
func (p *port) warn(what string, err error) {
	if p.warned[what] {
		return
	}
	p.warned[what] = true
	p.a.log.Warn("link is not fully served, will retry", linkAttrs(p.link), slog.String("what", what), slog.Any("err", err))
}

func (p *port) stats() LinkStats {
	return LinkStats{
		Name: p.link.Name, ARP: p.arp != nil, NDP: p.ndp != nil,
		Groups: p.groups, GroupsMissing: p.missing, Drops: dropStats(&p.lane.drops),
	}
}

// close joins the goroutines and closes the sockets.
func (p *port) close() error {
	var errs []error
	for _, r := range []*responder{p.arp, p.ndp} {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	if err := errors.Join(append(errs, p.memberships.close())...); err != nil {
		return fmt.Errorf("announce: close sockets of %s: %w", p.link.Name, err)
	}
	return nil
}
