package bgptest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/heraldlb/herald/bgp"
)

// Harness says how to test an engine.
type Harness struct {
	// New returns an engine that does not run. Every peer that the suite sets has
	// a router ID of its own. Required.
	New func(t *testing.T) bgp.Engine
	// Listen returns where a peer of the engine accepts sessions; nil: on a free
	// port of 127.0.0.1.
	Listen func(t *testing.T) *net.TCPListener
	// Many is the number of routes of the test with many; zero: 10,000.
	Many int
}

// LocalASN is the AS of the engine in the suite.
const LocalASN = 64512

// Run runs the conformance suite. The tests run in parallel; powers that the
// engine does not have ([bgp.Updater], [bgp.PathSetter]) are not tested.
func Run(t *testing.T, h Harness) {
	if h.Many == 0 {
		h.Many = 10_000
	}
	for _, group := range []map[string]func(*suite){routeTests(), peerTests(), lifeTests()} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(newSuite(t, h))
			})
		}
	}
}

// suite is one test with an engine that runs.
type suite struct {
	*testing.T
	h      Harness
	engine bgp.Engine
	stop   func() error // ends Run, and returns what it does
}

func newSuite(t *testing.T, h Harness) *suite {
	s := &suite{T: t, h: h, engine: h.New(t)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.engine.Run(ctx) }()
	var result error
	ended := false
	s.stop = func() error {
		cancel()
		if !ended {
			result, ended = <-done, true
		}
		return result
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

// peer starts a peer where the harness wants it.
func (s *suite) peer(cfg PeerConfig) *Peer {
	s.Helper()
	if s.h.Listen != nil && cfg.Listener == nil {
		cfg.Listener = s.h.Listen(s.T)
	}
	return NewPeer(s.T, cfg)
}

func (s *suite) setPeers(peers ...bgp.Peer) {
	s.Helper()
	if err := s.engine.SetPeers(peers); err != nil {
		s.Fatalf("SetPeers: %v", err)
	}
}

func (s *suite) setRoutes(routes ...bgp.Route) {
	s.Helper()
	if err := s.engine.SetRoutes(routes); err != nil {
		s.Fatalf("SetRoutes: %v", err)
	}
}

// session waits until the session of a peer is as wanted.
func (s *suite) session(peer, what string, condition func(bgp.Session) bool) bgp.Session {
	s.Helper()
	return WaitSession(s.T, s.engine, peer, what, condition)
}

// WaitSession waits until the session of a peer is as wanted, and returns it.
func WaitSession(tb testing.TB, speaker bgp.Speaker, peer, what string, condition func(bgp.Session) bool) bgp.Session {
	tb.Helper()
	deadline := time.After(Patience)
	for {
		for _, got := range speaker.Sessions() {
			if got.Peer == peer && condition(got) {
				return got
			}
		}
		select {
		case <-speaker.Changed():
		case <-time.After(100 * time.Millisecond): // counters are not notified
		case <-deadline:
			tb.Fatalf("bgptest: session %q after %s still not %s: %+v", peer, Patience, what, speaker.Sessions())
		}
	}
}

func isEstablished(s bgp.Session) bool { return s.State == bgp.Established }

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func route(text string) bgp.Route { return bgp.Route{Prefix: prefix(text)} }

// many returns n host routes.
func many(n int) []bgp.Route {
	routes := make([]bgp.Route, n)
	for i := range routes {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		routes[i] = bgp.Route{Prefix: netip.PrefixFrom(addr, 32), Communities: []bgp.Community{LocalASN<<16 | 1}}
	}
	return routes
}

// describe writes what the other side sees of a route.
func describe(r Route) string {
	var b strings.Builder
	fmt.Fprintf(&b, "via %s path %v", r.NextHop, r.ASPath)
	if r.LocalPref != nil {
		fmt.Fprintf(&b, " pref %d", *r.LocalPref)
	}
	if r.MED != nil {
		fmt.Fprintf(&b, " med %d", *r.MED)
	}
	for _, c := range r.Communities {
		fmt.Fprintf(&b, " %s", c)
	}
	for _, c := range r.LargeCommunities {
		fmt.Fprintf(&b, " %s", c)
	}
	return b.String()
}

// expect waits for a route that looks as described.
func (s *suite) expect(p *Peer, text, want string) {
	s.Helper()
	p.Wait(s.T, text+" "+want, func(v View) bool {
		r, ok := v.Route(prefix(text))
		return ok && describe(r) == want
	})
}

// eventsAfter returns what a peer is told by a change, given that the change ends
// with a route for marker.
func (s *suite) eventsAfter(p *Peer, marker netip.Prefix, change func()) []Event {
	s.Helper()
	before := len(p.Events())
	change()
	p.WaitRoute(s.T, marker)
	return p.Events()[before:]
}
