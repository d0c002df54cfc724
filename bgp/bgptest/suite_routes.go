package bgptest

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/heraldlb/herald/bgp"
)

func routeTests() map[string]func(*suite) {
	return map[string]func(*suite){
		"routes/external attributes":        externalAttributes,
		"routes/internal attributes":        internalAttributes,
		"routes/both families":              bothFamilies,
		"routes/family of the session only": oneFamily,
		"routes/old peer":                   oldPeer,
		"routes/selection by peer":          selection,
		"routes/change of one":              changeOfOne,
		"routes/merged":                     merged,
		"routes/equal input":                equalInput,
		"routes/invalid":                    invalidRoutes,
		"routes/update":                     updateOne,
		"routes/nothing is learned":         nothingLearned,
		"routes/many":                       manyRoutes,
		"routes/before peers":               routesFirst,
	}
}

func externalAttributes(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	local := s.session("router", "established", isEstablished).Negotiated.LocalAddr.String()
	s.setRoutes(
		route("203.0.113.1/32"),
		bgp.Route{
			Prefix: prefix("203.0.113.77/27"), LocalPref: new(uint32(200)), MED: new(uint32(7)), Prepend: 2,
			Communities:      []bgp.Community{64512<<16 | 9, 64512<<16 | 1, 64512<<16 | 9},
			LargeCommunities: []bgp.LargeCommunity{{Global: 64512, Local1: 2, Local2: 1}, {Global: 64512, Local1: 1, Local2: 4200000000}},
		},
		bgp.Route{Prefix: prefix("203.0.113.2/32"), NextHop: netip.MustParseAddr("192.0.2.77")},
		route("0.0.0.0/0"),
	)
	s.expect(router, "203.0.113.1/32", "via "+local+" path [64512]")
	s.expect(router, "203.0.113.64/27", "via "+local+" path [64512 64512 64512] med 7 64512:1 64512:9 large:64512:1:4200000000 large:64512:2:1")
	s.expect(router, "203.0.113.2/32", "via 192.0.2.77 path [64512]")
	s.expect(router, "0.0.0.0/0", "via "+local+" path [64512]")
}

func internalAttributes(s *suite) {
	router := s.peer(PeerConfig{ASN: LocalASN})
	s.setPeers(router.Peer("router", LocalASN))
	local := s.session("router", "established", isEstablished).Negotiated.LocalAddr.String()
	s.setRoutes(
		route("203.0.113.1/32"),
		bgp.Route{Prefix: prefix("203.0.113.2/32"), LocalPref: new(uint32(0)), MED: new(uint32(0))},
		bgp.Route{Prefix: prefix("203.0.113.3/32"), LocalPref: new(uint32(4294967295)), Prepend: 3},
	)
	s.expect(router, "203.0.113.1/32", "via "+local+" path [] pref 100")
	s.expect(router, "203.0.113.2/32", "via "+local+" path [] pref 0 med 0")
	s.expect(router, "203.0.113.3/32", "via "+local+" path [] pref 4294967295")
}

func bothFamilies(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	p := router.Peer("router", LocalASN)
	p.Families = bgp.IPv4 | bgp.IPv6
	p.Source = netip.MustParseAddr("2001:db8::5") // of the other family: the next hop there
	s.setPeers(p)
	got := s.session("router", "established", isEstablished)
	if got.Negotiated.Families != bgp.IPv4|bgp.IPv6 {
		s.Errorf("families %q", got.Negotiated.Families)
	}
	s.setRoutes(
		route("203.0.113.1/32"), route("2001:db8:77::7/128"),
		bgp.Route{
			Prefix: prefix("2001:db8:78::/48"), NextHop: netip.MustParseAddr("2001:db8::9"), Communities: []bgp.Community{1},
			LargeCommunities: []bgp.LargeCommunity{{Global: 1, Local1: 2, Local2: 3}}, Prepend: 1,
		},
		route("::/0"),
	)
	s.expect(router, "203.0.113.1/32", "via "+got.Negotiated.LocalAddr.String()+" path [64512]")
	s.expect(router, "2001:db8:77::7/128", "via 2001:db8::5 path [64512]")
	s.expect(router, "2001:db8:78::/48", "via 2001:db8::9 path [64512 64512] 0:1 large:1:2:3")
	s.expect(router, "::/0", "via 2001:db8::5 path [64512]")
	s.setRoutes(route("203.0.113.1/32"))
	router.WaitCount(s.T, 1)
}

// oneFamily: a session without the second family gets none of its routes.
func oneFamily(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	s.setRoutes(route("2001:db8:77::7/128"), route("203.0.113.1/32"))
	router.WaitRoute(s.T, prefix("203.0.113.1/32"))
	s.session("router", "announced", func(got bgp.Session) bool { return got.Announced == 1 && got.Withheld == 0 })
	if n := len(router.Routes()); n != 1 {
		s.Errorf("%d routes on a session of IPv4", n)
	}
	if f := router.Open().Families; f != bgp.IPv4 {
		s.Errorf("families offered: %q", f)
	}
}

// oldPeer: without four octet AS numbers (RFC 6793), and then without anything.
func oldPeer(s *suite) {
	for _, cfg := range []PeerConfig{{ASN: 64513, TwoOctetASN: true}, {ASN: 64513, NoCapabilities: true}} {
		router := s.peer(cfg)
		s.setPeers(router.Peer("router", 4200000001))
		s.setRoutes(route("203.0.113.1/32"), bgp.Route{Prefix: prefix("203.0.113.2/32"), Prepend: 1})
		if r := router.WaitRoute(s.T, prefix("203.0.113.1/32")); !slices.Equal(r.ASPath, []uint32{4200000001}) {
			s.Errorf("path %v", r.ASPath)
		}
		if r := router.WaitRoute(s.T, prefix("203.0.113.2/32")); !slices.Equal(r.ASPath, []uint32{4200000001, 4200000001}) {
			s.Errorf("path %v", r.ASPath)
		}
		if o := router.Open(); o.TwoOctetASN != 23456 || o.ASN != 4200000001 {
			s.Errorf("OPEN has AS %d and %d", o.TwoOctetASN, o.ASN)
		}
	}
}

// selection: who is not selected any more gets a withdrawal, and nobody else
// notices anything.
func selection(s *suite) {
	a, b := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: 64514})
	s.setPeers(a.Peer("a", LocalASN), b.Peer("b", LocalASN))
	one := route("203.0.113.1/32")
	s.setRoutes(one)
	a.WaitRoute(s.T, one.Prefix)
	b.WaitRoute(s.T, one.Prefix)

	marker := route("203.0.113.99/32")
	told := s.eventsAfter(b, marker.Prefix, func() {
		only := one
		only.Peers = []string{"b", "nobody"}
		s.setRoutes(only, marker)
		a.WaitNoRoute(s.T, one.Prefix)
	})
	if len(told) != 1 {
		s.Errorf("b was told %v", told)
	}
	one.Peers = []string{"a"}
	s.setRoutes(one, marker)
	a.WaitRoute(s.T, one.Prefix)
	b.WaitNoRoute(s.T, one.Prefix)
	for _, p := range []*Peer{a, b} {
		if n, up := p.Sessions(); n != 1 || !up {
			s.Errorf("%d sessions, established %t", n, up)
		}
	}
}

func changeOfOne(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	s.setRoutes(many(200)...)
	router.WaitCount(s.T, 200)
	since := s.session("router", "established", isEstablished).Since

	changed := many(200)
	changed[77].Communities = []bgp.Community{5}
	told := s.eventsAfter(router, prefix("203.0.113.99/32"), func() {
		s.setRoutes(append(changed, route("203.0.113.99/32"))...)
		router.Wait(s.T, "community", func(v View) bool {
			r, _ := v.Route(changed[77].Prefix)
			return slices.Equal(r.Communities, []bgp.Community{5})
		})
	})
	if len(told) != 2 {
		s.Errorf("told %v for one change and the marker", told)
	}
	s.setRoutes(changed[:100]...)
	router.WaitCount(s.T, 100)
	if got := s.session("router", "established", isEstablished); got.Since != since || got.Announced != 100 {
		s.Errorf("session is %+v", got)
	}
}

// merged: several routes for one prefix, in whatever order.
func merged(s *suite) {
	router := s.peer(PeerConfig{ASN: LocalASN})
	s.setPeers(router.Peer("router", LocalASN))
	local := s.session("router", "established", isEstablished).Negotiated.LocalAddr.String()
	a := bgp.Route{Prefix: prefix("203.0.113.0/24"), Communities: []bgp.Community{2}, LocalPref: new(uint32(100))}
	b := bgp.Route{Prefix: prefix("203.0.113.9/24"), Communities: []bgp.Community{1}, LocalPref: new(uint32(300)), Peers: []string{"router"}}
	c := bgp.Route{Prefix: prefix("203.0.113.0/24"), Communities: []bgp.Community{3}, Peers: []string{"other"}}
	s.setRoutes(a, b, c)
	s.expect(router, "203.0.113.0/24", "via "+local+" path [] pref 300 0:1 0:2")
	marker := route("192.0.2.0/24")
	if told := s.eventsAfter(router, marker.Prefix, func() { s.setRoutes(c, b, marker, a) }); len(told) != 1 {
		s.Errorf("another order was told: %v", told)
	}
	s.setRoutes(a, c)
	s.expect(router, "203.0.113.0/24", "via "+local+" path [] pref 100 0:2")
	s.setRoutes(c)
	router.WaitNoRoute(s.T, a.Prefix)
}

func equalInput(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	p := router.Peer("router", LocalASN)
	s.setPeers(p)
	s.setRoutes(many(50)...)
	router.WaitCount(s.T, 50)
	marker := route("203.0.113.99/32")
	told := s.eventsAfter(router, marker.Prefix, func() {
		for range 3 {
			s.setRoutes(many(50)...)
			again := p
			again.ConnectRetry = new(*p.ConnectRetry) // equal, not the same
			s.setPeers(again)
		}
		s.setRoutes(append(many(50), marker)...)
	})
	if len(told) != 1 {
		s.Errorf("told %v for equal input", told)
	}
}

func invalidRoutes(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	kept := route("203.0.113.1/32")
	s.setRoutes(kept)
	router.WaitRoute(s.T, kept.Prefix)
	bad := kept
	bad.Prepend = bgp.MaxPrepend + 1
	err := s.engine.SetRoutes([]bgp.Route{bad, route("203.0.113.2/32"), {}, route("224.0.0.1/32")})
	var one *bgp.RouteError
	if !errors.As(err, &one) || !errors.Is(err, bgp.ErrInvalid) {
		s.Fatalf("error is %v", err)
	}
	router.WaitRoute(s.T, prefix("203.0.113.2/32"))
	if got := router.Routes(); len(got) != 2 {
		s.Errorf("the last good version of a route is gone: %v", got)
	}
}

func updateOne(s *suite) {
	u, ok := s.engine.(bgp.Updater)
	if !ok {
		s.Skip("the engine is no bgp.Updater")
	}
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	s.setRoutes(many(100)...)
	router.WaitCount(s.T, 100)
	gone, more := many(100)[7].Prefix, route("203.0.113.1/32")
	told := s.eventsAfter(router, more.Prefix, func() {
		if err := u.UpdateRoutes([]bgp.Change{{Prefix: gone}, {Prefix: more.Prefix, Routes: []bgp.Route{more}}}); err != nil {
			s.Error(err)
		}
		router.WaitNoRoute(s.T, gone)
	})
	if len(told) != 2 {
		s.Errorf("told %v", told)
	}
	if err := u.UpdateRoutes([]bgp.Change{{Prefix: gone, Routes: []bgp.Route{more}}}); !errors.Is(err, bgp.ErrInvalid) {
		s.Errorf("a route of another prefix: %v", err)
	}
	// The whole state of the same content is no change.
	state := append(slices.DeleteFunc(many(100), func(r bgp.Route) bool { return r.Prefix == gone }), more)
	marker := route("203.0.113.99/32")
	if told := s.eventsAfter(router, marker.Prefix, func() { s.setRoutes(append(state, marker)...) }); len(told) != 1 {
		s.Errorf("told %v", told)
	}
}

// nothingLearned: what a peer announces goes nowhere, and does not stand in the
// way of a withdrawal when it is our own route, as from a reflector.
func nothingLearned(s *suite) {
	a, b := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: 64514})
	s.setPeers(a.Peer("a", LocalASN), b.Peer("b", LocalASN))
	own := route("203.0.113.1/32")
	s.setRoutes(own)
	a.WaitRoute(s.T, own.Prefix)
	b.WaitRoute(s.T, own.Prefix)
	a.Announce(s.T, prefix("198.51.100.0/24"))
	a.Announce(s.T, own.Prefix)
	s.session("a", "has received", func(got bgp.Session) bool { return got.Counters.Received.Update >= 2 })
	s.setRoutes(route("203.0.113.2/32"))
	for _, p := range []*Peer{a, b} {
		p.WaitNoRoute(s.T, own.Prefix)
		p.WaitRoute(s.T, prefix("203.0.113.2/32"))
		if got := p.Routes(); len(got) != 1 {
			s.Errorf("routes are %v", got)
		}
	}
}

// manyRoutes: all at once there and away, with the session staying.
func manyRoutes(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	router.WaitEstablished(s.T)
	for range 2 {
		s.setRoutes(many(s.h.Many)...)
		router.WaitCount(s.T, s.h.Many)
		s.session("router", "all announced", func(got bgp.Session) bool { return got.Announced == s.h.Many && got.Pending == 0 })
		s.setRoutes()
		router.WaitCount(s.T, 0)
	}
	if n, up := router.Sessions(); n != 1 || !up {
		s.Errorf("%d sessions, established %t", n, up)
	}
}

// routesFirst: routes that are there before the session come with it.
func routesFirst(s *suite) {
	s.setRoutes(many(300)...)
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	router.WaitCount(s.T, 300)
}
