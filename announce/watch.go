package announce

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Bounds of what claims can cost, however many there are.
const (
	claimPause  = 100 * time.Millisecond // between two claims of one address on one link that are looked at
	claimRest   = 20 * time.Millisecond  // between two looks at the claims that have come
	claimBuffer = 256                    // claims that wait for a look; the others only count
	maxDisputes = 256                    // addresses on links whose claims are followed
)

// A claim is what the packet path has heard.
type claim struct {
	spot spot
	by   mac
	kind ClaimKind
	at   time.Duration // on the announcer's clock
}

// A spot is an address on a link.
type spot struct {
	addr netip.Addr
	lane *lane
}

// A dispute is a spot that another host has claimed. It is pending until it is
// certain that this is no move, then open.
type dispute struct {
	spot     spot
	cell     *cell // of the tenure in which it began
	by       mac
	kind     ClaimKind
	since    time.Duration // the first claim
	last     time.Duration // the last claim
	spoke    time.Duration // the last claim by the host in by
	began    time.Time     // since, on the wall
	open     bool
	yielded  bool
	defended time.Duration // zero: never
	asked    int           // probes sent since it is quiet
	due      time.Duration // when to look at it
}

// A watcher turns claims into conflicts. It has a goroutine of its own, so that a
// flood of claims cannot hold up the care for the links.
type watcher struct {
	a        *Announcer
	disputes map[spot]*dispute
}

// clock is the time since the announcer was made. Unlike the time of day it does
// not jump, and it fits an atomic integer.
func (a *Announcer) clock() time.Duration { return time.Since(a.start) }

// run watches until ctx is done.
func (w *watcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	rest := time.NewTimer(0)
	defer timer.Stop()
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			clear(w.disputes)
			w.publish()
			return
		case c := <-w.a.claims:
			w.take(c)
			for n := len(w.a.claims); n > 0; n-- {
				w.take(<-w.a.claims)
			}
		case <-w.a.heldChanged:
		case <-timer.C:
		}
		if next, ok := w.step(w.a.clock()); ok {
			timer.Reset(next)
		}
		rest.Reset(claimRest)
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
	}
}

// take looks at one claim.
func (w *watcher) take(c claim) {
	if w.a.cfg.Known != nil && w.a.cfg.Known(net.HardwareAddr(c.by[:])) {
		return
	}
	d := w.disputes[c.spot]
	if d == nil {
		if d = w.begin(c); d != nil {
			w.disputes[c.spot] = d
		}
		return
	}
	switch {
	case c.by == d.by:
		d.spoke = c.at
	case c.kind > d.kind || c.at-d.spoke > ConflictQuiet:
		d.by, d.spoke = c.by, c.at
	}
	d.kind = max(d.kind, c.kind)
	d.last, d.asked = c.at, 0
	if d.open {
		d.due = c.at + ConflictQuiet
		w.act(d, c)
	}
}

// begin returns a pending dispute, unless the claim is that of the holder before
// us or too much is disputed already.
func (w *watcher) begin(c claim) *dispute {
	var d *dispute
	w.a.on(c.spot, func(_ *responder, e *entry) {
		cell := e.cell(c.spot.lane.slot)
		if c.at-time.Duration(cell.announced.Load()) < w.a.cfg.ClaimGrace || len(w.disputes) >= maxDisputes {
			return
		}
		d = &dispute{
			spot: c.spot, cell: cell, by: c.by, kind: c.kind,
			since: c.at, last: c.at, spoke: c.at, began: w.a.start.Add(c.at), due: c.at + w.a.cfg.ClaimGrace,
		}
	})
	return d
}

// step does what is due and returns the time until more is.
func (w *watcher) step(now time.Duration) (wait time.Duration, ok bool) {
	for s, d := range w.disputes {
		if !w.alive(d) {
			delete(w.disputes, s)
			continue
		}
		if d.due <= now {
			w.due(d, now)
		}
		if d = w.disputes[s]; d != nil && (!ok || d.due-now < wait) {
			wait, ok = max(0, d.due-now), true
		}
	}
	w.publish()
	return wait, ok
}

// alive reports whether the address is still held where it is disputed.
func (w *watcher) alive(d *dispute) bool {
	same := false
	w.a.on(d.spot, func(_ *responder, e *entry) { same = e.find(d.spot.lane.slot) == d.cell })
	if !same {
		d.cell.yielded.Store(false) // the same tenure may announce it there again
	}
	return same
}

// due opens a pending dispute or drops it, and closes an open one that is quiet or
// asks whether it is.
func (w *watcher) due(d *dispute, now time.Duration) {
	switch {
	case !d.open:
		if time.Duration(d.cell.announced.Load()) >= d.since { // it was disputed, and decided, in the meantime
			delete(w.disputes, d.spot)
			return
		}
		d.open, d.due = true, d.last+ConflictQuiet
		d.cell.conflicts.Add(1)
		w.log(d, "address conflict: another host claims an announced address")
		w.act(d, claim{kind: d.kind, at: now})
	case d.asked < probeCount:
		d.asked++
		d.due = now + probePause
		w.a.on(d.spot, func(r *responder, _ *entry) { r.ask(ask{addr: d.spot.addr}) })
	default:
		delete(w.disputes, d.spot)
		w.a.log.Info("address conflict is over", "addr", d.spot.addr, "link", d.spot.lane.name)
		if d.yielded {
			w.resume(d)
		}
	}
}

// act defends or yields.
func (w *watcher) act(d *dispute, c claim) {
	if c.kind == ClaimProbe {
		return
	}
	switch policy := w.a.cfg.ConflictPolicy; {
	case policy == Defend && (d.defended == 0 || c.at-d.defended >= DefendInterval):
		d.defended = c.at
		w.a.on(d.spot, func(r *responder, e *entry) {
			r.queue.add(r.queue.idle(slices.Values([]*entry{e})), 1)
		})
	case policy == Yield && !d.yielded:
		d.yielded = true
		d.cell.yielded.Store(true)
		w.log(d, "address is left to the other host until it falls silent")
	}
}

// resume announces again what was yielded.
func (w *watcher) resume(d *dispute) {
	d.cell.yielded.Store(false)
	w.a.on(d.spot, func(r *responder, e *entry) {
		r.burst(slices.Values([]*entry{e}))
	})
}

func (w *watcher) log(d *dispute, text string) {
	w.a.log.Warn("address conflict", "what", text, "addr", d.spot.addr, "link", d.spot.lane.name,
		"mac", net.HardwareAddr(d.by[:]).String(), "kind", d.kind.String())
}

// publish makes the open disputes the result of Conflicts.
func (w *watcher) publish() {
	var open []Conflict
	for _, d := range w.disputes {
		if d.open {
			open = append(open, Conflict{
				Addr: d.spot.addr, Link: d.spot.lane.name, MAC: slices.Clone(d.by[:]),
				Kind: d.kind, At: d.began, Yielded: d.yielded,
			})
		}
	}
	slices.SortFunc(open, func(a, b Conflict) int {
		if c := a.Addr.Compare(b.Addr); c != 0 {
			return c
		}
		return strings.Compare(a.Link, b.Link)
	})
	equal := func(a, b Conflict) bool {
		return a.Addr == b.Addr && a.Link == b.Link && string(a.MAC) == string(b.MAC) &&
			a.Kind == b.Kind && a.At.Equal(b.At) && a.Yielded == b.Yielded
	}
	if !slices.EqualFunc(*w.a.conflicts.Load(), open, equal) {
		w.a.conflicts.Store(&open)
		notify(w.a.conflictsChanged)
	}
}

// on calls f, which must not block, if the address is held and announced on the
// link at present, and if the link is served.
func (a *Announcer) on(s spot, f func(r *responder, e *entry)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.table.Load().lookup(s.addr)
	if e == nil || !e.allows(s.lane.name) {
		return
	}
	for _, p := range a.ports {
		if r := p.responder(s.addr); p.lane == s.lane && r != nil {
			f(r, e)
		}
	}
}

// claimed is told by the packet path of a foreign claim of an address that is
// announced on the link. It never waits.
func (a *Announcer) claimed(e *entry, c claim) {
	cell := e.cell(c.spot.lane.slot)
	cell.claims.Add(1)
	c.at = a.clock()
	if last := cell.noted.Load(); last != 0 && c.at-time.Duration(last) < claimPause {
		return
	}
	select {
	case a.claims <- c:
		cell.noted.Store(int64(c.at))
	default:
	}
}

// own reports whether a MAC is that of a link of this host.
func (a *Announcer) own(m mac) bool {
	_, ok := (*a.macs.Load())[m]
	return ok
}

// setMACs publishes the MACs of all links of the host, in use or not.
func (a *Announcer) setMACs(links []Link) {
	macs := make(map[mac]struct{}, len(links))
	for _, l := range links {
		if len(l.HardwareAddr) == len(mac{}) {
			macs[l.mac()] = struct{}{}
		}
	}
	a.macs.Store(&macs)
}
