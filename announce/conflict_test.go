package announce_test

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

// The other host that claims what is ours.
func squatter() net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 9, 9} }

// arpFrame is a broadcast ARP frame of another host.
func arpFrame(op byte, by net.HardwareAddr, sender, target string) []byte {
	f := request(sender, target)
	f[21] = op
	copy(f[6:], by)
	copy(f[22:], by)
	return f
}

func garp(by net.HardwareAddr, addr string) []byte { return arpFrame(1, by, addr, addr) }

// ndpFrame is a neighbour message of another host, with the right checksum.
func ndpFrame(t testing.TB, by net.HardwareAddr, m ndp.Message, source, to string) []byte {
	t.Helper()
	src, dst := netip.MustParseAddr(source), netip.MustParseAddr(to)
	body, err := ndp.MarshalMessageChecksum(m, src, dst)
	require.NoError(t, err)
	d, s := dst.As16(), src.As16()
	f := append([]byte{0x33, 0x33, d[12], d[13], d[14], d[15]}, by...)
	f = append(f, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(body)), 58, 255)
	return append(append(append(f, s[:]...), d[:]...), body...)
}

func unsolicited(t testing.TB, by net.HardwareAddr, addr string) []byte {
	t.Helper()
	return ndpFrame(t, by, &ndp.NeighborAdvertisement{
		Override: true, TargetAddress: netip.MustParseAddr(addr),
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: by}},
	}, addr, "ff02::1")
}

func solicitation(t testing.TB, by net.HardwareAddr, source, target string) []byte {
	t.Helper()
	a := netip.MustParseAddr(target).As16()
	group := netip.AddrFrom16([16]byte{0xff, 2, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]})
	m := &ndp.NeighborSolicitation{TargetAddress: netip.MustParseAddr(target)}
	if source != "::" {
		m.Options = []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: by}}
	}
	return ndpFrame(t, by, m, source, group.String())
}

// A settled bubble holds vip4 and vip6 for so long that no claim can be a move's.
func settledBubble(t *testing.T, cfg announce.Config, test func(t *testing.T, a *announce.Announcer, host *announcetest.Host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		inBubble(t, host, cfg, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip4, vip6+"@eth0")))
			time.Sleep(announce.DefaultClaimGrace)
			heard(t, host)
			test(t, a, host)
		})
	})
}

func hear(t *testing.T, host *announcetest.Host, link string, frame []byte) {
	t.Helper()
	p := announce.ARP
	if frame[12] == 0x86 {
		p = announce.NDP
	}
	require.True(t, host.Receive(link, p, frame))
}

// changed reports whether there is a token.
func changed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const (
	grace   = announce.DefaultClaimGrace
	instant = 300 * time.Millisecond // more than the watcher rests and the probes take
)

func TestConflictKinds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		frame []byte
		addr  string
		kind  announce.ClaimKind
	}{
		{"gratuitous request", garp(squatter(), vip4), vip4, announce.ClaimAnnouncement},
		{"gratuitous reply", arpFrame(2, squatter(), vip4, vip4), vip4, announce.ClaimAnnouncement},
		{"reply", arpFrame(2, squatter(), vip4, "192.0.2.7"), vip4, announce.ClaimReply},
		{"asks from our address", arpFrame(1, squatter(), vip4, "192.0.2.7"), vip4, announce.ClaimRequest},
		{"ARP probe", arpFrame(1, squatter(), "0.0.0.0", vip4), vip4, announce.ClaimProbe},
		{"unsolicited advertisement", unsolicited(t, squatter(), vip6), vip6, announce.ClaimAnnouncement},
		{"duplicate address detection", solicitation(t, squatter(), "::", vip6), vip6, announce.ClaimProbe},
		{"solicits from our address", solicitation(t, squatter(), vip6, "2001:db8::7"), vip6, announce.ClaimRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
				at := time.Now()
				hear(t, host, "eth0", tc.frame)
				time.Sleep(grace - time.Millisecond)
				require.False(t, changed(a.ConflictsChanged()))
				require.Empty(t, a.Conflicts(), "it may be a move")
				time.Sleep(instant)
				require.True(t, changed(a.ConflictsChanged()))
				require.Equal(t, []announce.Conflict{{
					Addr: netip.MustParseAddr(tc.addr), Link: "eth0", MAC: squatter(), Kind: tc.kind, At: at,
				}}, a.Conflicts())
				for _, s := range a.Stats().Addresses {
					want := map[bool]uint64{true: 1}[s.Addr.String() == tc.addr]
					require.Equal(t, want, s.Claims, s.Addr)
					require.Equal(t, want, s.Conflicts, s.Addr)
					require.Equal(t, "eth0", s.OnLinks[0].Link)
					require.Equal(t, want, s.OnLinks[0].Conflicts, s.Addr)
				}
			})
		})
	}
}

// A conflict lasts until nobody claims the address and nobody answers for it.
func TestConflictEnds(t *testing.T) {
	settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		hear(t, host, "eth0", garp(squatter(), vip4))
		time.Sleep(grace + instant)
		require.True(t, changed(a.ConflictsChanged()))
		heard(t, host)

		// It is silent, but there: it answers a probe.
		time.Sleep(announce.ConflictQuiet - grace - instant + 60*time.Millisecond)
		require.Contains(t, heard(t, host), "eth0 request 0.0.0.0", "who has it?")
		hear(t, host, "eth0", arpFrame(2, squatter(), vip4, "0.0.0.0"))
		time.Sleep(instant)
		require.Len(t, a.Conflicts(), 1)
		require.False(t, changed(a.ConflictsChanged()), "nothing new")

		// It is gone.
		time.Sleep(announce.ConflictQuiet + instant)
		require.Equal(t, []string{"eth0 request 0.0.0.0", "eth0 request 0.0.0.0", "eth0 request 0.0.0.0"}, heard(t, host)[0:3])
		require.Empty(t, a.Conflicts())
		require.True(t, changed(a.ConflictsChanged()))
		require.Equal(t, uint64(1), a.Stats().Addresses[0].Conflicts)

		// It is back: a new conflict, which ends with the address.
		hear(t, host, "eth0", garp(squatter(), vip4))
		time.Sleep(grace + instant)
		require.Len(t, a.Conflicts(), 1)
		require.True(t, changed(a.ConflictsChanged()))
		require.Equal(t, uint64(2), a.Stats().Addresses[0].Conflicts)
		require.NoError(t, a.SetAddrs(ads(vip6)))
		time.Sleep(instant)
		require.Empty(t, a.Conflicts())
		require.True(t, changed(a.ConflictsChanged()))
	})
}

// Nothing of what happens when an address moves is a conflict.
func TestMovesAreNoConflicts(t *testing.T) {
	never := func(t *testing.T, a *announce.Announcer) {
		t.Helper()
		time.Sleep(2 * announce.ConflictQuiet)
		require.False(t, changed(a.ConflictsChanged()))
	}
	t.Run("the last holder ends its burst", func(t *testing.T) {
		settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			require.NoError(t, a.SetAddrs(ads(vip4, "192.0.2.60")))
			for range 5 {
				hear(t, host, "eth0", garp(squatter(), "192.0.2.60"))
				time.Sleep(900 * time.Millisecond)
			}
			never(t, a)
		})
	})
	t.Run("the next holder is ahead of us", func(t *testing.T) {
		settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			hear(t, host, "eth0", garp(squatter(), vip4))
			hear(t, host, "eth0", unsolicited(t, squatter(), vip6))
			time.Sleep(4 * time.Second)
			require.NoError(t, a.SetAddrs(nil))
			time.Sleep(10 * time.Second)
			require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
			never(t, a)
		})
	})
	t.Run("both claim it after a partition, and we win", func(t *testing.T) {
		settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			hear(t, host, "eth0", garp(squatter(), vip4))
			time.Sleep(time.Second)
			a.Reannounce()
			hear(t, host, "eth0", garp(squatter(), vip4))
			never(t, a)
		})
	})
	t.Run("the link was away", func(t *testing.T) {
		settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			hear(t, host, "eth0", garp(squatter(), vip4))
			host.SetLinks(announcetest.Ethernet(2, "eth1"))
			time.Sleep(time.Second)
			host.SetLinks(announcetest.Ethernet(1, "eth0"))
			time.Sleep(time.Second)
			hear(t, host, "eth0", garp(squatter(), vip4))
			never(t, a)
		})
	})
	t.Run("the MAC is known", func(t *testing.T) {
		var asked atomic.Uint32
		cfg := announce.Config{Known: func(m net.HardwareAddr) bool {
			asked.Add(1)
			return m.String() == squatter().String()
		}}
		settledBubble(t, cfg, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			for range 20 {
				hear(t, host, "eth0", garp(squatter(), vip4))
				time.Sleep(time.Second)
			}
			require.EqualValues(t, 20, asked.Load())
			never(t, a)
			hear(t, host, "eth0", garp(net.HardwareAddr{2, 0, 0, 0, 9, 8}, vip4))
			time.Sleep(grace + instant)
			require.True(t, changed(a.ConflictsChanged()))
		})
	})
	t.Run("our own MACs, of any link", func(t *testing.T) {
		settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			bridge := announcetest.Ethernet(7, "cni0") // excluded by its name
			host.SetLinks(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"), bridge)
			time.Sleep(grace)
			for _, m := range []net.HardwareAddr{bridge.HardwareAddr, announcetest.Ethernet(2, "").HardwareAddr} {
				hear(t, host, "eth0", garp(m, vip4))
				hear(t, host, "eth0", unsolicited(t, m, vip6))
			}
			never(t, a)
			require.Zero(t, a.Stats().Addresses[0].Claims)
		})
	})
	t.Run("not announced on this link", func(t *testing.T) {
		settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
			hear(t, host, "eth1", unsolicited(t, squatter(), vip6))
			hear(t, host, "eth1", garp(squatter(), "192.0.2.99"))
			never(t, a)
		})
	})
}

// Whoever goes on claiming after a move is a conflict.
func TestClaimsThatOutlastTheGrace(t *testing.T) {
	settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		a.Reannounce()
		for range 10 {
			hear(t, host, "eth0", garp(squatter(), vip4))
			require.Empty(t, a.Conflicts())
			time.Sleep(time.Second)
		}
		time.Sleep(instant)
		require.Len(t, a.Conflicts(), 1)
	})
}

func TestDefend(t *testing.T) {
	settledBubble(t, announce.Config{ConflictPolicy: announce.Defend}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		start := time.Now()
		for range 30 {
			hear(t, host, "eth0", arpFrame(2, squatter(), vip4, vip4)) // a reply, which is not answered
			time.Sleep(time.Second)
		}
		var at []time.Duration
		for _, f := range host.Sent() {
			require.Equal(t, "eth0", f.Link, "the other link is not concerned")
			at = append(at, f.Time.Sub(start).Truncate(time.Second))
		}
		// A pair, when it is certain and then once in ten seconds.
		require.Equal(t, []time.Duration{5e9, 5e9, 15e9, 15e9, 25e9, 25e9}, at)
		require.False(t, a.Conflicts()[0].Yielded)
		// A probe is only answered.
		hear(t, host, "eth0", solicitation(t, squatter(), "::", vip6))
		time.Sleep(30 * time.Second)
		require.Len(t, a.Conflicts(), 2)
		require.Equal(t, []string{"eth0 na " + vip6}, heard(t, host))
	})
}

func TestYield(t *testing.T) {
	settledBubble(t, announce.Config{ConflictPolicy: announce.Yield, Refresh: 10 * time.Second}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		require.NoError(t, a.SetAddrs(ads(vip4)))
		hear(t, host, "eth0", arpFrame(1, squatter(), "0.0.0.0", vip4))
		time.Sleep(2 * grace)
		require.False(t, a.Conflicts()[0].Yielded, "nobody can have it for the asking")
		hear(t, host, "eth0", garp(squatter(), vip4))
		time.Sleep(instant)
		require.True(t, a.Conflicts()[0].Yielded)
		require.Equal(t, announce.ClaimAnnouncement, a.Conflicts()[0].Kind, "the stronger form")
		heard(t, host)

		// Silent, on this link only.
		ask := func() {
			hear(t, host, "eth0", request("192.0.2.10", vip4))
			hear(t, host, "eth1", request("192.0.2.10", vip4))
		}
		ask()
		a.Reannounce()
		time.Sleep(30 * time.Second)
		for _, line := range heard(t, host) {
			require.Contains(t, line, "eth1 ")
		}
		require.Equal(t, uint64(1), a.Stats().Links[0].Drops[announce.DropYielded])

		// Announced anew when nobody answers for it.
		time.Sleep(announce.ConflictQuiet - 30*time.Second + instant)
		require.Empty(t, a.Conflicts())
		ask()
		lines := map[string]int{}
		for _, line := range heard(t, host) {
			lines[line]++
		}
		require.Equal(t, 3, lines["eth0 request 0.0.0.0"], "asked first")
		require.Positive(t, lines["eth0 request "+vip4], "burst")
		require.Positive(t, lines["eth0 reply "+vip4])
		time.Sleep(grace)
		require.GreaterOrEqual(t, countOf(heard(t, host), "eth0 request "+vip4), 4, "the rest of the burst")
	})
}

func countOf(lines []string, want string) (n int) {
	for _, l := range lines {
		if l == want {
			n++
		}
	}
	return n
}

// What was yielded is announced when it is held again.
func TestYieldEndsWithTheAddress(t *testing.T) {
	settledBubble(t, announce.Config{ConflictPolicy: announce.Yield}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		hear(t, host, "eth0", garp(squatter(), vip4))
		time.Sleep(grace + instant)
		require.True(t, a.Conflicts()[0].Yielded)
		// Not on this link for a while, by the same owner.
		require.NoError(t, a.SetAddrs(ads(vip4+"@eth1")))
		time.Sleep(instant)
		require.Empty(t, a.Conflicts())
		heard(t, host)
		require.NoError(t, a.SetAddrs(ads(vip4)))
		hear(t, host, "eth0", request("192.0.2.10", vip4))
		require.Contains(t, heard(t, host), "eth0 request "+vip4)
		require.Zero(t, a.Stats().Links[0].Drops[announce.DropYielded])
	})
}

// A flood of claims of everything counts, and is bounded in all else.
func TestFloodOfClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		var asked atomic.Uint64
		cfg := announce.Config{Repeat: 1, Known: func(net.HardwareAddr) bool { asked.Add(1); return false }}
		inBubble(t, host, cfg, func(t *testing.T, a *announce.Announcer) {
			const n, times = 1000, 20
			require.NoError(t, a.SetAddrs(many(n, false)))
			time.Sleep(grace)
			start := time.Now()
			for i := range times {
				for _, ad := range many(n, false) {
					hear(t, host, "eth0", garp(net.HardwareAddr{2, 0, 0, 0, 8, byte(i)}, ad.Addr.String()))
				}
				time.Sleep(50 * time.Millisecond)
			}
			claims := uint64(0)
			for _, s := range a.Stats().Addresses {
				claims += s.Claims
			}
			require.EqualValues(t, n*times, claims)
			looks := uint64(time.Since(start)/(20*time.Millisecond)) + 1
			require.LessOrEqual(t, asked.Load(), looks*2*256)
			time.Sleep(grace + instant)
			require.Len(t, a.Conflicts(), 256)
			require.True(t, changed(a.ConflictsChanged()))
			require.False(t, changed(a.ConflictsChanged()))
			// The answers go on.
			host.Sent()
			hear(t, host, "eth0", request("192.0.2.10", "10.0.0.7"))
			require.Equal(t, []string{"eth0 reply 10.0.0.7"}, heard(t, host))
			require.NoError(t, a.SetAddrs(nil))
			time.Sleep(instant)
			require.Empty(t, a.Conflicts())
		})
	})
}

// Of several others one is named, and another only when that one is silent.
func TestSeveralClaimants(t *testing.T) {
	settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		other := net.HardwareAddr{2, 0, 0, 0, 9, 8}
		for range 20 {
			hear(t, host, "eth0", garp(squatter(), vip4))
			time.Sleep(time.Second)
			hear(t, host, "eth0", garp(other, vip4))
			time.Sleep(time.Second)
		}
		require.True(t, changed(a.ConflictsChanged()))
		require.Equal(t, squatter(), a.Conflicts()[0].MAC)
		for range 35 {
			hear(t, host, "eth0", garp(other, vip4))
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, other, a.Conflicts()[0].MAC)
		require.True(t, changed(a.ConflictsChanged()))
		require.Equal(t, uint64(1), a.Stats().Addresses[0].Conflicts, "one conflict")
	})
}

func TestConflictsEndWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		var held *announce.Announcer
		inBubble(t, host, announce.Config{}, func(t *testing.T, a *announce.Announcer) {
			held = a
			require.NoError(t, a.SetAddrs(ads(vip4)))
			time.Sleep(grace)
			hear(t, host, "eth0", garp(squatter(), vip4))
			time.Sleep(grace + instant)
			require.Len(t, a.Conflicts(), 1)
		})
		require.Empty(t, held.Conflicts())
	})
}

func TestConflictPolicyText(t *testing.T) {
	for _, p := range []announce.ConflictPolicy{announce.Report, announce.Defend, announce.Yield} {
		text, err := p.MarshalText()
		require.NoError(t, err)
		var back announce.ConflictPolicy
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, p, back)
	}
	var p announce.ConflictPolicy
	require.ErrorContains(t, p.UnmarshalText([]byte("attack")), `"attack": want report, defend or yield`)
	_, err := announce.New(announce.Config{ConflictPolicy: 7, ClaimGrace: -1})
	require.ErrorContains(t, err, "ConflictPolicy")
	require.ErrorContains(t, err, "ClaimGrace")
}
