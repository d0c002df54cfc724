package gobgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/heraldlb/herald/bgp"
)

const (
	// lookEvery is how often a worker looks at what nobody tells it of: password
	// files, counters, addresses of links.
	lookEvery = 5 * time.Second
	// settleTime is more than the exchange of two messages takes.
	settleTime = 200 * time.Millisecond
	// minPause and maxPause bound the pause after a session could not be started.
	minPause, maxPause = time.Second, 30 * time.Second
)

// worker runs one session. Only its goroutine uses it, and only it calls the
// session's server.
type worker struct {
	*session
	log *slog.Logger

	inst     *instance // nil: none is started
	peer     bgp.Peer  // as it was started
	addr     netip.Addr
	password bgp.Secret
	up       bool // established, as far as the worker has taken notice
	graceful bool // graceful restart was agreed when it was up last
	proven   bool // the peer is of the kind that Dynamic wants, or it does not matter
	negot    bgp.Negotiated

	base  bgp.Counters // of neighbours that are gone
	retry time.Time    // not to be started before
	pause time.Duration

	routes
}

func newWorker(s *session) *worker {
	p, _ := s.desired()
	return &worker{session: s, log: s.engine.log.With("peer", p.Name), pause: minPause}
}

// run serves the session until ctx is done or the peer is gone. The error says
// that the peer could not be told of the end.
func (w *worker) run(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for due := false; ; {
		more := w.step(ctx, due)
		due = false
		var wait <-chan time.Time
		switch {
		case more:
			wait = closedTime()
		case w.inst == nil && !w.retry.IsZero():
			wait = time.After(time.Until(w.retry))
		}
		select { // the end first
		case <-ctx.Done():
			return w.leave(ctx)
		case <-w.gone:
			return w.leave(ctx)
		default:
		}
		select {
		case <-ctx.Done():
		case <-w.gone:
		case <-w.wake:
		case <-look.C:
			due = true
		case <-wait:
		}
	}
}

func closedTime() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

// leave ends the session, unless it is to be kept for the next process.
func (w *worker) leave(ctx context.Context) error {
	select {
	case <-w.gone: // the peer was removed, which is no upgrade
	default:
		if w.engine.keep.Load() {
			return nil
		}
	}
	if err := w.close(ctx, errors.New("stopped")); err != nil {
		return fmt.Errorf("gobgp: peer %q: %w", w.peer.Name, err)
	}
	return nil
}

// step does what is to be done now; more says that there is more of it.
func (w *worker) step(ctx context.Context, due bool) (more bool) {
	want, path := w.desired()
	secret, err := w.password, error(nil)
	if due || w.inst == nil || !w.peer.Equal(&want) {
		secret, err = password(&want)
	}
	if path.State == bgp.PathDown && (!w.graceful || path.ControlPlaneIndependent) {
		err = errors.New("the path to the peer is down")
	}
	if err != nil {
		w.hold(ctx, err)
		return false
	}
	if w.inst != nil && (!w.peer.Equal(&want) || w.password != secret) {
		w.warn(w.close(ctx, errors.New("the peer was changed")))
		w.retry = time.Time{}
	}
	if w.inst == nil {
		if time.Now().Before(w.retry) && w.peer.Equal(&want) {
			return false
		}
		if err := w.open(ctx, want, secret); err != nil {
			w.fail(ctx, err)
			return false
		}
	}
	if err := w.look(ctx, due); err != nil {
		w.fail(ctx, err)
		return false
	}
	more, err = w.push(ctx)
	if err != nil && ctx.Err() == nil {
		w.fail(ctx, err)
		return false
	}
	return more
}

// open starts a server for the peer, with the routes in it.
func (w *worker) open(ctx context.Context, p bgp.Peer, secret bgp.Secret) error {
	w.peer, w.password, w.addr = p, secret, p.Addr
	if p.Interface != "" {
		addr, err := findNeighbour(ctx, p.Interface)
		if err != nil {
			return err
		}
		w.addr = addr
	}
	w.edit(func(s *bgp.Session) { s.State, s.Addr = bgp.Connecting, w.addr })
	id := p.RouterID
	if !id.IsValid() {
		id = w.engine.cfg.RouterID
	}
	w.up, w.negot, w.proven = false, bgp.Negotiated{}, p.Dynamic != bgp.External
	w.graceful = w.graceful && p.GracefulRestart
	w.forget()
	w.inst = shared.take()
	w.inst.bridge.quiet.Store(false)
	w.inst.bridge.sink.Store(w.session)
	if err := w.inst.start(ctx, &p, id); err != nil {
		return err
	}
	w.reset(&p, findNextHops(&p, w.addr, w.negot))
	w.lookAtAll()
	for {
		more, err := w.push(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return w.inst.addPeer(ctx, &p, w.addr, secret)
}

// close sends the Cease and gives the server back. The error says that the peer
// did not take it.
func (w *worker) close(ctx context.Context, why error) error {
	if w.inst == nil {
		return nil
	}
	// The end of ctx is what the session is closed for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout+time.Second)
	defer cancel()
	w.settle(ctx)
	w.collect(ctx)
	inst := w.inst
	w.inst = nil
	err := inst.deletePeer(ctx)
	if err == nil {
		// What cannot be cleaned now is cleaned before it is used again.
		_ = inst.clean(ctx)
	}
	if errors.Is(why, errHung) {
		w.log.Warn("gobgp: a server hangs and is given up", "err", why)
	} else {
		shared.put(inst)
	}
	w.base = w.counters()
	if w.up {
		w.log.Info("gobgp: session closed", "addr", w.addr, "reason", why)
	}
	w.up, w.negot = false, bgp.Negotiated{}
	w.routes.clear()
	w.lookAtAll() // and not queue what changes meanwhile
	w.edit(func(s *bgp.Session) {
		s.State, s.Negotiated, s.Announced, s.Withheld, s.WithheldReason = bgp.Connecting, bgp.Negotiated{}, 0, 0, ""
	})
	return err
}

// settle waits a moment for a session that is just being opened: GoBGP leaves a
// goroutine behind when it deletes a neighbour whose OPEN it has not read yet.
func (w *worker) settle(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	defer signal(w.wake)
	for w.opening() {
		select {
		case <-w.wake:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hold closes the session and says why it is not tried.
func (w *worker) hold(ctx context.Context, why error) {
	w.warn(w.close(ctx, why))
	w.retry = time.Time{}
	if w.snapshot().State != bgp.Held || w.snapshot().LastError != why.Error() {
		w.log.Warn("gobgp: session held back", "reason", why)
	}
	w.edit(func(s *bgp.Session) { s.State, s.LastError = bgp.Held, why.Error() })
}

// fail closes a session that cannot go on, to be tried again later.
func (w *worker) fail(ctx context.Context, why error) {
	w.warn(w.close(ctx, why))
	w.retry = time.Now().Add(w.pause)
	w.pause = min(2*w.pause, maxPause)
	w.edit(func(s *bgp.Session) { s.State, s.LastError = bgp.Connecting, why.Error() })
	if ctx.Err() == nil {
		w.log.Warn("gobgp: session cannot be started", "err", why)
	}
}

func (w *worker) warn(err error) {
	if err != nil {
		w.log.Warn("gobgp: session not closed cleanly", "err", err)
	}
}

// look takes notice of what GoBGP has said, and of what is due. The error says
// that the session must not go on.
func (w *worker) look(ctx context.Context, due bool) error {
	ev := w.events()
	if ev.failure != "" && ev.failure != w.snapshot().LastError {
		w.log.Info("gobgp: session failed", "addr", w.addr, "reason", ev.failure)
		w.edit(func(s *bgp.Session) { s.LastError = ev.failure })
	}
	w.base.Established += ev.ups
	if ev.fatal != "" {
		return errors.New(ev.fatal)
	}
	wasUp := w.up
	w.up = ev.state == bgp.Established
	switch {
	case w.up && (ev.ups > 0 || !wasUp):
		if err := w.cameUp(ctx); err != nil {
			return err
		}
	case wasUp && !w.up:
		w.negot = bgp.Negotiated{}
		if err := w.wentDown(ctx); err != nil {
			return err
		}
	}
	if due {
		w.collect(ctx)
		if w.rehop(findNextHops(&w.peer, w.addr, w.negot)) {
			w.lookAtAll()
		}
		if err := w.lookForNeighbour(ctx); err != nil {
			return err
		}
	}
	w.report(ev.state)
	return nil
}

// cameUp reads what was negotiated.
func (w *worker) cameUp(ctx context.Context) error {
	p, err := w.inst.peer(ctx)
	if err != nil {
		return err
	}
	w.negot = negotiated(&w.peer, p)
	w.graceful = w.negot.GracefulRestart
	if w.peer.Dynamic == bgp.External && w.negot.PeerASN == w.peer.ASN() {
		return fmt.Errorf("the peer is in AS %d as this side is, and an external one is wanted", w.negot.PeerASN)
	}
	w.pause = minPause
	proven := w.proven
	w.proven = true
	if w.rehop(findNextHops(&w.peer, w.addr, w.negot)) || !proven {
		w.lookAtAll()
	}
	w.sent, w.received = messages(p)
	w.log.Info("gobgp: session established", "addr", w.addr, "peerASN", w.negot.PeerASN, "hold", w.negot.Hold, "families", w.negot.Families.String())
	return nil
}

// wentDown makes the neighbour anew where graceful restart is wanted: GoBGP says
// that forwarding went on in the first connection of a neighbour only, and peers
// would drop what they have kept.
func (w *worker) wentDown(ctx context.Context) error {
	w.proven = w.peer.Dynamic != bgp.External
	if !w.proven {
		w.lookAtAll()
	}
	if !w.peer.GracefulRestart {
		return nil
	}
	w.collect(ctx)
	if err := w.inst.deletePeer(ctx); err != nil {
		return err
	}
	w.base = w.counters()
	w.sent, w.received = bgp.Messages{}, bgp.Messages{}
	return w.inst.addPeer(ctx, &w.peer, w.addr, w.password)
}

// lookForNeighbour has a session on an interface start anew when another
// neighbour is there now.
func (w *worker) lookForNeighbour(ctx context.Context) error {
	if w.peer.Interface == "" || w.up {
		return nil
	}
	addr, err := findNeighbour(ctx, w.peer.Interface)
	if err != nil {
		return err
	}
	if addr != w.addr {
		return fmt.Errorf("interface %s: the neighbour is %s now, and was %s", w.peer.Interface, addr, w.addr)
	}
	return nil
}

// collect reads the counters of the neighbour.
func (w *worker) collect(ctx context.Context) {
	if w.inst == nil || w.inst.address == "" {
		return
	}
	if p, err := w.inst.peer(ctx); err == nil {
		w.sent, w.received = messages(p)
	}
}

func (w *worker) counters() bgp.Counters {
	c := w.base
	c.Announced, c.Withdrawn = w.announced, w.withdrawn
	c.Sent, c.Received = c.Sent.Add(w.sent), c.Received.Add(w.received)
	return c
}
