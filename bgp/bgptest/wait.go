package bgptest

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// Patience is how long waiting methods wait before they fail the test.
const Patience = time.Minute

// Wait waits until a condition holds, which is looked at whenever the peer was told
// something. It is called with the lock of the peer: use the argument.
func (p *Peer) Wait(tb testing.TB, what string, condition func(v View) bool) {
	tb.Helper()
	timer := time.AfterFunc(Patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer timer.Stop()
	deadline := time.Now().Add(Patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for !condition(View{p}) {
		if time.Now().After(deadline) {
			tb.Fatalf("bgptest: peer at %s: after %s still not: %s (session %d, established %t, %d routes, last events %v, problem %v)",
				p.Addr(), Patience, what, p.sessions, p.conn != nil, len(p.routes), p.events[max(0, len(p.events)-5):], p.problem)
		}
		p.changed.Wait()
	}
}

// View is a peer while a condition of Wait looks at it.
type View struct{ p *Peer }

// Established reports whether a session is there.
func (v View) Established() bool { return v.p.conn != nil }

// Sessions returns how many there have been.
func (v View) Sessions() int { return v.p.sessions }

// Route returns what the peer holds for a prefix.
func (v View) Route(prefix netip.Prefix) (Route, bool) {
	r, ok := v.p.routes[prefix]
	return r, ok
}

// Count returns the number of routes that the peer holds.
func (v View) Count() int { return len(v.p.routes) }

// Events returns what it was told.
func (v View) Events() []Event { return v.p.events }

// WaitEstablished waits for a session.
func (p *Peer) WaitEstablished(tb testing.TB) {
	tb.Helper()
	p.Wait(tb, "established", View.Established)
}

// WaitRoute waits for a route, and returns it.
func (p *Peer) WaitRoute(tb testing.TB, prefix netip.Prefix) Route {
	tb.Helper()
	var r Route
	p.Wait(tb, "route "+prefix.String(), func(v View) (ok bool) {
		r, ok = v.Route(prefix)
		return ok
	})
	return r
}

// WaitNoRoute waits until there is none for a prefix.
func (p *Peer) WaitNoRoute(tb testing.TB, prefix netip.Prefix) {
	tb.Helper()
	p.Wait(tb, "no route "+prefix.String(), func(v View) bool {
		_, ok := v.Route(prefix)
		return !ok
	})
}

// WaitCount waits until the peer holds n routes.
func (p *Peer) WaitCount(tb testing.TB, n int) {
	tb.Helper()
	p.Wait(tb, fmt.Sprintf("%d routes", n), func(v View) bool { return v.Count() == n })
}
