//go:build linux

package bfd_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp/bfd"
	"github.com/heraldlb/herald/internal/netnstest"
)

// with returns peers with other parameters.
func with(peers []bfd.Peer, transmit, receive time.Duration, multiplier int) []bfd.Peer {
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].Transmit, peers[i].Receive, peers[i].Multiplier = transmit, receive, multiplier
	}
	return peers
}

// remotes are the other implementations.
func remotes() map[string]func(testing.TB, *netnstest.NS) remote {
	return map[string]func(testing.TB, *netnstest.NS) remote{"FRR": newFRR, "BIRD": newBIRD}
}

// A pairing is a monitor and another implementation that watch each other.
type pairing struct {
	t            *testing.T
	lan          *lan
	m            *bfd.Monitor
	remote       remote
	ours, theirs []bfd.Peer
}

func newPairing(t *testing.T, newRemote func(testing.TB, *netnstest.NS) remote) *pairing {
	l := newLAN(t)
	p := &pairing{t: t, lan: l, remote: newRemote(t, l.b)}
	p.ours, p.theirs = with(kinds(true), 50*ms, 50*ms, 3), with(kinds(false), 50*ms, 50*ms, 3)
	for i := range p.ours {
		p.ours[i].MinTTL = min(p.remote.multihopTTL(), 254)
	}
	p.remote.configure(p.theirs)
	p.remote.start()
	p.m = startIn(t, l.a, p.ours...)
	return p
}

// agree waits until both sides are up and have come to the same intervals.
func (p *pairing) agree() {
	p.t.Helper()
	all(p.t, p.m, bfd.Up)
	for i, theirs := range p.theirs {
		want := view{
			up:     true,
			every:  max(theirs.Transmit, p.ours[i].Receive),
			detect: time.Duration(p.ours[i].Multiplier) * max(theirs.Receive, p.ours[i].Transmit),
		}
		var got view
		eventually(p.t, func() bool {
			got = p.remote.sees(theirs)
			return got == want
		}, "the remote sees %+v of %v, want %+v", &got, theirs, want)
	}
	eventually(p.t, func() bool {
		for _, s := range p.m.Sessions() {
			i := slices.IndexFunc(p.ours, func(o bfd.Peer) bool { return o.Addr == s.Peer.Addr })
			ours, theirs := p.ours[i], p.theirs[i]
			if s.Transmit != max(ours.Transmit, theirs.Receive) || s.Detect != time.Duration(theirs.Multiplier)*max(ours.Receive, theirs.Transmit) {
				return false
			}
		}
		return true
	}, "intervals are not as agreed: %v", sessions{p.m})
}

// each waits until every session satisfies ok.
func (p *pairing) each(what string, ok func(bfd.Status) bool) {
	p.t.Helper()
	eventually(p.t, func() bool {
		return !slices.ContainsFunc(p.m.Sessions(), func(s bfd.Status) bool { return !ok(s) })
	}, "not all %s: %v", what, sessions{p.m})
}

func (p *pairing) downs() (n uint64) {
	for _, s := range p.m.Sessions() {
		n += s.Downs
	}
	return n
}

// One session of each kind: IPv4 and IPv6, one hop and several, link-local.
func TestInterop(t *testing.T) {
	for name, newRemote := range remotes() {
		t.Run(name, func(t *testing.T) {
			p := newPairing(t, newRemote)
			p.agree()

			// New parameters on this side, then on the other: no session notices.
			p.ours = with(p.ours, 80*ms, 120*ms, 4)
			require.NoError(t, p.m.SetPeers(p.ours))
			p.agree()
			p.theirs = with(p.theirs, 150*ms, 100*ms, 5)
			p.remote.configure(p.theirs)
			p.agree()
			p.ours, p.theirs = with(p.ours, 50*ms, 50*ms, 3), with(p.theirs, 50*ms, 50*ms, 3)
			require.NoError(t, p.m.SetPeers(p.ours))
			p.remote.configure(p.theirs)
			p.agree()
			require.Zero(t, p.downs(), "sessions flapped: %v", sessions{p.m})

			// The path fails and comes back.
			for range 2 {
				p.lan.cut(t)
				p.each("failed", func(s bfd.Status) bool { return s.Failed && s.Diag == bfd.DiagTimeExpired })
				for _, theirs := range p.theirs {
					eventually(t, func() bool { return !p.remote.sees(theirs).up }, "the remote does not see the cut")
				}
				p.lan.join(t)
				p.agree()
			}

			// The other daemon dies and is started again.
			p.remote.kill()
			p.each("failed", func(s bfd.Status) bool { return s.Failed })
			p.remote.start()
			p.agree()
		})
	}
}

// Sessions that are shut down on purpose, on either side, have not failed, if only
// it is said.
func TestInteropAdminDown(t *testing.T) {
	for name, newRemote := range remotes() {
		t.Run(name, func(t *testing.T) {
			p := newPairing(t, newRemote)
			p.agree()
			set := func(peers []bfd.Peer, disabled bool) []bfd.Peer {
				peers = slices.Clone(peers)
				for i := range peers {
					peers[i].Disabled = disabled
				}
				return peers
			}
			p.remote.configure(set(p.theirs, true))
			p.each("shut down by the remote", func(s bfd.Status) bool {
				if name == "BIRD" { // says nothing when a session is removed, and cannot disable one
					return s.State == bfd.Down && s.Failed
				}
				return s.State == bfd.Down && s.RemoteState == bfd.AdminDown && !s.Failed
			})
			p.remote.configure(p.theirs)
			p.agree()

			require.NoError(t, p.m.SetPeers(set(p.ours, true)))
			for _, theirs := range p.theirs {
				eventually(t, func() bool { return !p.remote.sees(theirs).up }, "the remote is still up")
			}
			require.NoError(t, p.m.SetPeers(p.ours))
			p.agree()
		})
	}
}

func TestInteropPassive(t *testing.T) {
	for name, newRemote := range remotes() {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			r := newRemote(t, l.b)
			theirs, ours := with(kinds(false)[:1], 50*ms, 50*ms, 3), with(kinds(true)[:1], 50*ms, 50*ms, 3)
			theirs[0].Passive = true
			r.configure(theirs)
			r.start()
			m := startIn(t, l.a, ours...)
			all(t, m, bfd.Up)

			theirs[0].Passive, ours[0].Passive = false, true
			other := newLAN(t)
			r = newRemote(t, other.b)
			r.configure(theirs)
			r.start()
			all(t, startIn(t, other.a, ours...), bfd.Up)
		})
	}
}

// FRR has no authentication.
func TestInteropAuth(t *testing.T) {
	for name, typ := range map[string]bfd.AuthType{
		"MD5": bfd.AuthMD5, "meticulous MD5": bfd.AuthMeticulousMD5, "SHA1": bfd.AuthSHA1, "meticulous SHA1": bfd.AuthMeticulousSHA1,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			r := newBIRD(t, l.b)
			theirs, ours := with(kinds(false)[:1], 50*ms, 50*ms, 3), with(kinds(true)[:1], 50*ms, 50*ms, 3)
			theirs[0].Auth = bfd.Auth{Type: typ, KeyID: 7, Key: "not a secret"}
			ours[0].Auth = theirs[0].Auth
			r.configure(theirs)
			r.start()
			m := startIn(t, l.a, ours...)
			all(t, m, bfd.Up)
			received := only(t, m).Received
			eventually(t, func() bool { return only(t, m).Received > received+20 }, "no packets")
			require.Equal(t, []uint64{0, 0}, []uint64{only(t, m).Downs, m.Stats().Unauthenticated})

			ours[0].Auth.Key = "another"
			require.NoError(t, m.SetPeers(ours))
			eventually(t, func() bool { return m.Stats().Unauthenticated > 0 && only(t, m).State == bfd.Down }, "still up")
		})
	}
}
