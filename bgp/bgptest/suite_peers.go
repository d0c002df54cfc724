package bgptest

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/heraldlb/herald/bgp"
)

func peerTests() map[string]func(*suite) {
	return map[string]func(*suite){
		"peers/negotiation":       negotiation,
		"peers/change of one":     changeOfPeer,
		"peers/removal":           removal,
		"peers/invalid":           invalidPeers,
		"peers/wrong AS":          wrongAS,
		"peers/dynamic AS":        dynamicAS,
		"peers/local AS":          localAS,
		"peers/held by password":  heldByPassword,
		"peers/replaced address":  replacedAddress,
		"peers/refused by router": refused,
	}
}

func negotiation(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513, HoldTime: 30, RouterID: netip.MustParseAddr("198.51.100.9")})
	p := router.Peer("router", LocalASN)
	p.HoldTime, p.RouterID = new(60*time.Second), netip.MustParseAddr("192.0.2.33")
	s.setPeers(p)
	got := s.session("router", "established", isEstablished)
	n := got.Negotiated
	if n.Hold != 30*time.Second || n.Keepalive != 10*time.Second {
		s.Errorf("hold %s keepalive %s", n.Hold, n.Keepalive)
	}
	if n.PeerASN != 64513 || n.PeerRouterID != netip.MustParseAddr("198.51.100.9") || !n.FourOctetASN || n.GracefulRestart {
		s.Errorf("negotiated %+v", n)
	}
	if got.Addr != router.Addr().Addr() || time.Since(got.Since) > Patience || got.Counters.Established != 1 {
		s.Errorf("session %+v", got)
	}
	if o := router.Open(); o.HoldTime != 60 || o.RouterID != p.RouterID || o.ASN != LocalASN {
		s.Errorf("OPEN %+v", o)
	}
	sent := s.session("router", "counted", func(got bgp.Session) bool { return got.Counters.Sent.Open > 0 }).Counters
	if sent.Sent.Keepalive == 0 || sent.Received.Keepalive == 0 {
		s.Errorf("counters %+v", sent)
	}
}

// changeOfPeer: a changed timer is applied by one reset of that session alone.
func changeOfPeer(s *suite) {
	a, b := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: 64514})
	pa, pb := a.Peer("a", LocalASN), b.Peer("b", LocalASN)
	s.setPeers(pa, pb)
	s.setRoutes(many(20)...)
	a.WaitCount(s.T, 20)
	b.WaitCount(s.T, 20)
	before := len(b.Events())
	pa.HoldTime = new(33 * time.Second)
	s.setPeers(pa, pb)
	s.session("a", "new hold time", func(got bgp.Session) bool { return got.Negotiated.Hold == 33*time.Second })
	a.Wait(s.T, "second session with routes", func(v View) bool { return v.Sessions() == 2 && v.Count() == 20 })
	if told := b.Events()[before:]; len(told) != 0 {
		s.Errorf("b was told %v", told)
	}
}

func removal(s *suite) {
	a, b := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: 64514})
	s.setPeers(a.Peer("a", LocalASN), b.Peer("b", LocalASN))
	s.setRoutes(many(20)...)
	a.WaitCount(s.T, 20)
	b.WaitCount(s.T, 20)
	before := len(b.Events())
	s.setPeers(b.Peer("b", LocalASN))
	a.Wait(s.T, "closed with a Cease", func(v View) bool { return !v.Established() && v.Count() == 0 && ceased(v.Events()) })
	if list := s.engine.Sessions(); len(list) != 1 || list[0].Peer != "b" {
		s.Errorf("sessions are %+v", list)
	}
	if told := b.Events()[before:]; len(told) != 0 {
		s.Errorf("b was told %v", told)
	}
}

// ceased reports whether the last notification is a Cease.
func ceased(events []Event) bool {
	for _, e := range slices.Backward(events) {
		if n := e.Notified; n.Code != 0 {
			return n.Code == 6
		}
	}
	return false
}

// invalidPeers: they are named, and all others are served; the last good version
// of a running one goes on.
func invalidPeers(s *suite) {
	a, b := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: 64514})
	pa := a.Peer("a", LocalASN)
	s.setPeers(pa)
	a.WaitEstablished(s.T)
	pa.HoldTime = new(2 * time.Second)
	err := s.engine.SetPeers([]bgp.Peer{pa, b.Peer("b", LocalASN), {Name: "c"}})
	var one *bgp.PeerError
	if !errors.As(err, &one) || !errors.Is(err, bgp.ErrInvalid) {
		s.Fatalf("error is %v", err)
	}
	named := make(map[string]string)
	for _, e := range bgp.PeerErrors(err) {
		named[e.Peer] = e.Field
	}
	if named["a"] != "HoldTime" || named["c"] == "" || named["b"] != "" {
		s.Errorf("errors are %v", err)
	}
	b.WaitEstablished(s.T)
	if n, up := a.Sessions(); n != 1 || !up {
		s.Errorf("the good version of a is gone: %d sessions, established %t", n, up)
	}
}

// wrongAS: the session does not come up, says why, and does not flood; the right
// number heals it.
func wrongAS(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	p := router.Peer("router", LocalASN)
	p.PeerASN = 64599
	s.setPeers(p)
	start := time.Now()
	s.session("router", "failed", func(got bgp.Session) bool { return got.LastError != "" && got.State != bgp.Established })
	router.Wait(s.T, "second attempt", func(v View) bool { return v.p.attempts >= 2 })
	if pause := time.Since(start); pause < time.Second {
		s.Errorf("two attempts within %s", pause)
	}
	p.PeerASN = 64513
	s.setPeers(p)
	router.WaitEstablished(s.T)
}

func dynamicAS(s *suite) {
	external, internal := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: LocalASN})
	var peers []bgp.Peer
	for name, router := range map[string]*Peer{"external": external, "internal": internal} {
		p := router.Peer(name, LocalASN)
		p.PeerASN, p.Dynamic = 0, bgp.DynamicASN(name)
		peers = append(peers, p)
	}
	wrong := s.peer(PeerConfig{ASN: LocalASN})
	p := wrong.Peer("wrong", LocalASN)
	p.PeerASN, p.Dynamic = 0, bgp.External
	s.setRoutes(route("203.0.113.1/32"))
	s.setPeers(append(peers, p)...)
	s.expect(external, "203.0.113.1/32", "via "+s.session("external", "established", isEstablished).Negotiated.LocalAddr.String()+" path [64512]")
	s.expect(internal, "203.0.113.1/32", "via "+s.session("internal", "established", isEstablished).Negotiated.LocalAddr.String()+" path [] pref 100")
	s.session("wrong", "refused", func(got bgp.Session) bool { return got.State != bgp.Established && got.LastError != "" })
	for _, e := range wrong.Events() {
		if e.Announce.IsValid() {
			s.Errorf("a peer of the wrong kind was told %v", e)
		}
	}
}

func localAS(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	p := router.Peer("router", LocalASN)
	p.LocalASNOverride = 64599
	s.setPeers(p)
	s.setRoutes(bgp.Route{Prefix: prefix("203.0.113.1/32"), Prepend: 1})
	s.expect(router, "203.0.113.1/32", "via "+s.session("router", "established", isEstablished).Negotiated.LocalAddr.String()+" path [64599 64599]")
	if o := router.Open(); o.ASN != 64599 {
		s.Errorf("OPEN has AS %d", o.ASN)
	}
}

// heldByPassword: without its password file a peer is not even connected to.
func heldByPassword(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	p := router.Peer("router", LocalASN)
	p.PasswordFile = filepath.Join(s.TempDir(), "password")
	s.setPeers(p)
	got := s.session("router", "held", func(got bgp.Session) bool { return got.State == bgp.Held })
	if got.LastError == "" || router.Attempts() != 0 {
		s.Errorf("%d attempts, session %+v", router.Attempts(), got)
	}
	p.PasswordFile = ""
	s.setPeers(p)
	router.WaitEstablished(s.T)
}

// replacedAddress: the old router is left, and the new one found.
func replacedAddress(s *suite) {
	a, b := s.peer(PeerConfig{ASN: 64513}), s.peer(PeerConfig{ASN: 64514})
	s.setPeers(a.Peer("router", LocalASN))
	s.setRoutes(many(5)...)
	a.WaitCount(s.T, 5)
	s.setPeers(b.Peer("router", LocalASN))
	a.Wait(s.T, "closed", func(v View) bool { return !v.Established() && ceased(v.Events()) })
	b.WaitCount(s.T, 5)
}

// refused: the reason that the router gives is in the status.
func refused(s *suite) {
	router := s.peer(PeerConfig{ASN: 64513})
	s.setPeers(router.Peer("router", LocalASN))
	router.WaitEstablished(s.T)
	s.session("router", "established", isEstablished)
	router.Notify(s.T, 6, 2) // administrative shutdown
	got := s.session("router", "down with a reason", func(got bgp.Session) bool { return got.LastError != "" })
	if got.LastErrorTime.IsZero() {
		s.Errorf("session %+v", got)
	}
	router.Wait(s.T, "back", func(v View) bool { return v.Sessions() == 2 && v.Established() })
}
