// Package gobgp is an engine of package bgp in this process, on GoBGP v3.
//
//	speaker, err := gobgp.New(gobgp.Config{RouterID: netip.MustParseAddr("192.0.2.1")})
//
// Beside [bgp.Engine] an [Engine] is a [bgp.Updater], a [bgp.Keeper] and a
// [bgp.PathSetter].
//
// # Sessions
//
// Each session has a GoBGP server of its own, and a goroutine that alone talks
// to it. So AS numbers, router IDs and routes are exact for each peer, a change
// of one peer touches nobody else, and a peer that is slow, dead or full delays
// nobody else. A changed peer is closed and opened anew; that includes a changed
// password file, which is looked at every five seconds.
//
// Servers are taken from a pool of the process and given back, because the loop
// of a v3 server cannot end: one goroutine per server stays, so as many as there
// were sessions at one time, however often engines and peers come and go.
//
// A connection that fails is tried again after about six seconds, and an
// address that does not answer every [DefaultConnectRetry] to twice that, or as
// Peer.ConnectRetry says. Nothing listens unless a peer is passive. Each passive
// peer needs a local address and port that no other one has.
//
// # Routes
//
// The routes of a session are put into its server before the connection is made,
// so that a session starts with full UPDATEs. Later a change is sent on its own,
// since v3 has no call that takes several: one UPDATE for each prefix. Everything
// that a peer sends is rejected. A session that carries the family that is not
// its own takes the next hop for it as [bgp.Route.NextHop] says; IPv4 over an IPv6
// session without such an address uses RFC 8950 if the peer can do that.
//
// # Graceful restart
//
// Every connection with graceful restart says that this side restarted and kept
// its forwarding state, which holds for a node whose kernel forwards, so that the
// peer keeps what it has until the routes are there again. The routes go out when
// the peer has sent its End-of-RIB, or after ten seconds.
//
// # Limits
//
// A passive peer with a password needs a process with GODEBUG=multipathtcp=0 (in
// package main: //go:debug multipathtcp=0), since the listeners of Go are
// Multipath TCP, which knows no TCP MD5; the peer is held back otherwise.
//
// GoBGP v3 cannot switch the hold timer off: HoldTime 0 is refused. It signs
// nothing for link-local peers: a password with a zone or an interface is refused.
// It stores what peers send, although it uses nothing of it. A peer that is
// closed while it does not read holds its server until the write runs into the
// hold time. On IPv6 each prefix takes an UPDATE even at the start. A neighbour that
// is closed in the moment in which its OPEN arrives leaves a goroutine.
package gobgp
