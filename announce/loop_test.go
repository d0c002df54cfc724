package announce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

const (
	vip4 = "192.0.2.50"
	vip6 = "2001:db8::50"
)

func ads(texts ...string) []announce.Advertisement {
	var out []announce.Advertisement
	for _, text := range texts {
		addr, links, _ := strings.Cut(text, "@")
		a := announce.Advertisement{Addr: netip.MustParseAddr(addr), Owner: "svc"}
		if links != "" {
			a.Links = strings.Split(links, ",")
		}
		out = append(out, a)
	}
	return out
}

// inBubble runs an announcer on an in-memory host, in virtual time.
func inBubble(t *testing.T, host *announcetest.Host, cfg announce.Config, test func(t *testing.T, a *announce.Announcer)) {
	t.Helper()
	if cfg.Open == nil {
		cfg.Open = host.Open
	}
	a, err := announce.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	synctest.Wait()
	test(t, a)
	cancel()
	require.NoError(t, <-done)
	require.Zero(t, host.Sockets(), "sockets left open")
}

// kind names a gratuitous frame in short: "request 192.0.2.50".
func kind(t *testing.T, f announcetest.Frame) string {
	t.Helper()
	if f.Protocol == announce.NDP {
		return fmt.Sprintf("na %v", netip.AddrFrom16([16]byte(f.Data[62:])))
	}
	form := map[byte]string{1: "request", 2: "reply"}[f.Data[21]]
	return fmt.Sprintf("%s %v", form, netip.AddrFrom4([4]byte(f.Data[28:])))
}

// heard lists what the host has sent since the last call, as "link kind".
func heard(t *testing.T, host *announcetest.Host) []string {
	t.Helper()
	synctest.Wait()
	var out []string
	for _, f := range host.Sent() {
		out = append(out, f.Link+" "+kind(t, f))
	}
	return out
}

func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		inBubble(t, host, announce.Config{}, func(t *testing.T, a *announce.Announcer) {
			start := time.Now()
			require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
			time.Sleep(time.Minute)
			at := map[string][]time.Duration{}
			for _, f := range host.Sent() {
				at[kind(t, f)] = append(at[kind(t, f)], f.Time.Sub(start))
			}
			step := announce.DefaultInterval
			want := []time.Duration{0, step, 2 * step, 3 * step, 4 * step}
			require.Equal(t, map[string][]time.Duration{
				"request " + vip4: want, "reply " + vip4: want, "na " + vip6: want,
			}, at)
			for _, s := range a.Stats().Addresses {
				frames := map[bool]uint64{true: 10, false: 5}[s.Addr.Is4()]
				require.Equal(t, frames, s.Gratuitous, s.Addr)
			}
		})
	})
}

func TestEqualInputSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip4, vip6+"@eth1,eth0")))
			require.Len(t, heard(t, host), 6)
			require.NoError(t, a.SetAddrs(ads(vip6+"@eth0,eth1,eth0", vip4, vip4)))
			host.SetLinks(announcetest.Ethernet(2, "eth1"), announcetest.Ethernet(1, "eth0"))
			time.Sleep(time.Hour)
			require.Empty(t, heard(t, host))
		})
	})
}

func TestWithdrawalCutsBurstAndIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		inBubble(t, host, announce.Config{}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
			time.Sleep(1500 * time.Millisecond)
			require.Len(t, heard(t, host), 6)
			require.NoError(t, a.SetAddrs(ads(vip6)))
			time.Sleep(time.Minute)
			for _, k := range heard(t, host) {
				require.Equal(t, "eth0 na "+vip6, k)
			}
			// Back again within the time of the old burst: exactly one new burst.
			require.NoError(t, a.SetAddrs(ads(vip4)))
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, a.SetAddrs(nil))
			require.NoError(t, a.SetAddrs(ads(vip4)))
			heard(t, host)
			time.Sleep(time.Minute)
			require.Len(t, heard(t, host), 8)
			require.Equal(t, uint64(10), a.Stats().Addresses[0].Gratuitous, "counts since it is held")
		})
	})
}

// One of two owners leaving changes nothing on the wire (metallb PR#1600: the
// other address of a dual-stack service has to go all the same).
func TestOwnersShareAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
			shared, own := netip.MustParseAddr(vip4), netip.MustParseAddr(vip6)
			one := []announce.Advertisement{{Addr: shared, Owner: "s1", Links: []string{"eth0"}}, {Addr: own, Owner: "s1"}}
			two := []announce.Advertisement{{Addr: shared, Owner: "s2", Links: []string{"eth1"}}}
			require.NoError(t, a.SetAddrs(append(one, two...)))
			heard(t, host)
			s := a.Stats().Addresses
			require.Len(t, s, 2)
			require.Equal(t, []announce.Owner{"s1", "s2"}, s[0].Owners)
			require.Equal(t, []string{"eth0", "eth1"}, s[0].Links)

			require.NoError(t, a.SetAddrs(two))
			require.Empty(t, heard(t, host))
			s = a.Stats().Addresses
			require.Len(t, s, 1)
			require.Equal(t, shared, s[0].Addr)
			require.Equal(t, []announce.Owner{"s2"}, s[0].Owners)
			require.Equal(t, []string{"eth1"}, s[0].Links)
			require.Empty(t, host.Groups("eth0"))
			require.NoError(t, a.SetAddrs(nil))
			require.Empty(t, a.Stats().Addresses)
		})
	})
}

func many(n int, v6 bool) []announce.Advertisement {
	out := make([]announce.Advertisement, n)
	for i := range out {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if v6 {
			addr = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
		}
		out[i] = announce.Advertisement{Addr: addr, Owner: "svc"}
	}
	return out
}

// 10,000 addresses: all announced within 100 ms, and never more than the rate.
func TestPacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		inBubble(t, host, announce.Config{}, func(t *testing.T, a *announce.Announcer) {
			start := time.Now()
			require.NoError(t, a.SetAddrs(many(10_000, false)))
			require.Equal(t, start, time.Now())
			time.Sleep(time.Minute)
			sent := host.Sent()
			require.Len(t, sent, 10_000*2*announce.DefaultRepeat)
			first := map[string]time.Duration{}
			for _, f := range sent {
				if k := kind(t, f); first[k] == 0 {
					first[k] = f.Time.Sub(start) + 1
				}
			}
			require.Len(t, first, 20_000)
			for k, d := range first {
				require.Less(t, d, 100*time.Millisecond, k)
			}
			const window = 10 * time.Millisecond
			for i, j := 0, 0; i < len(sent); i++ {
				for sent[i].Time.Sub(sent[j].Time) >= window {
					j++
				}
				// The rate, what may be caught up (2 ms), and one batch.
				require.LessOrEqual(t, i-j, announce.DefaultRate/100+announce.DefaultRate/500+64)
			}
		})
	})
}

// A link that does not take frames must not hold up the caller, nor other links.
func TestBlockedLinkBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		cfg := announce.Config{Repeat: 1, Open: func() (announce.Network, error) {
			nw, err := host.Open()
			return stuckNetwork{nw, "eth0"}, err
		}}
		inBubble(t, host, cfg, func(t *testing.T, a *announce.Announcer) {
			for i := range 5_000 {
				require.NoError(t, a.SetAddrs(many(i%7+1, i%2 == 0)))
			}
			require.NoError(t, a.SetAddrs(ads(vip4)))
			time.Sleep(100 * time.Millisecond)
			require.Contains(t, heard(t, host), "eth1 request "+vip4)
			host.SetLinks(announcetest.Ethernet(2, "eth1"))
			time.Sleep(time.Second)
			require.Len(t, a.Links(), 1, "a stuck link can be closed")
		})
	})
}

type stuckNetwork struct {
	announce.Network
	link string
}

func (n stuckNetwork) Listen(l announce.Link, p announce.Protocol) (announce.Conn, error) {
	c, err := n.Network.Listen(l, p)
	if l.Name == n.link {
		c = &stuckConn{c, make(chan struct{})}
	}
	return c, err
}

type stuckConn struct {
	announce.Conn
	closed chan struct{}
}

func (c *stuckConn) WriteFrames([][]byte) (int, error) { <-c.closed; return 0, net.ErrClosed }
func (c *stuckConn) Close() error                      { close(c.closed); return c.Conn.Close() }

// Neither errors nor bad frames end a reader (a link that goes down fails a read).
func TestReaderSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip4)))
			heard(t, host)
			for range 20 {
				require.True(t, host.FailRead("eth0", announce.ARP, errors.New("network is down")))
				require.True(t, host.Receive("eth0", announce.ARP, []byte("rubbish")))
			}
			time.Sleep(time.Minute)
			require.True(t, host.Receive("eth0", announce.ARP, request("192.0.2.10", vip4)))
			require.True(t, host.Receive("eth0", announce.ARP, request("192.0.2.10", "192.0.2.51")))
			require.Equal(t, []string{"eth0 reply " + vip4}, heard(t, host))
			s := a.Stats()
			require.Equal(t, uint64(20), s.Errors.Read)
			require.Equal(t, map[announce.DropReason]uint64{announce.DropMalformed: 20, announce.DropUnknown: 1}, s.Drops)
			require.Equal(t, uint64(1), s.Addresses[0].Requests)
			require.Equal(t, uint64(1), s.Addresses[0].Replies)
			// Not answered any more as soon as SetAddrs returns.
			require.NoError(t, a.SetAddrs(nil))
			require.True(t, host.Receive("eth0", announce.ARP, request("192.0.2.10", vip4)))
			require.Empty(t, heard(t, host))
		})
	})
}

// request is a broadcast ARP request.
func request(from, to string) []byte {
	f, o := netip.MustParseAddr(from).As4(), netip.MustParseAddr(to).As4()
	frame := []byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 10, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 10}
	return append(append(append(frame, f[:]...), 0, 0, 0, 0, 0, 0), o[:]...)
}

// metallb#2910: a refresh, jittered, that does not cut a burst short.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		cfg := announce.Config{Refresh: time.Minute, Rand: rand.New(rand.NewPCG(1, 2))}
		inBubble(t, host, cfg, func(t *testing.T, a *announce.Announcer) {
			time.Sleep(52 * time.Second)
			require.NoError(t, a.SetAddrs(ads(vip6)))
			time.Sleep(10 * time.Minute)
			require.NoError(t, a.SetAddrs(nil))
			sent := host.Sent()
			var gaps []time.Duration
			for i := 5; i < len(sent); i++ {
				gaps = append(gaps, sent[i].Time.Sub(sent[i-1].Time))
			}
			require.GreaterOrEqual(t, len(gaps), 9, "after a burst of five")
			unequal := false
			for _, g := range gaps[1:] {
				require.GreaterOrEqual(t, g, 54*time.Second)
				require.LessOrEqual(t, g, 66*time.Second)
				unequal = unequal || g != gaps[1]
			}
			require.True(t, unequal, "jitter")
			time.Sleep(10 * time.Minute)
			require.Empty(t, host.Sent(), "only what is held")
		})
	})
}

func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		a, err := announce.New(announce.Config{Open: host.Open})
		require.NoError(t, err)
		require.NoError(t, a.SetAddrs(ads(vip4)), "before Run")
		require.Empty(t, a.Links())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		require.Len(t, heard(t, host), 2)
		require.ErrorContains(t, a.Run(ctx), "called before")
		cancel()
		require.NoError(t, <-done)
		require.Empty(t, host.Sent(), "no goodbye")
		require.NoError(t, a.SetAddrs(ads(vip6)), "after Run")
		require.Empty(t, a.Links())
	})
}

func TestRunReportsOpenError(t *testing.T) {
	a, err := announce.New(announce.Config{Open: func() (announce.Network, error) { return nil, os.ErrPermission }})
	require.NoError(t, err)
	require.ErrorIs(t, a.Run(t.Context()), os.ErrPermission)
}

func TestNewRejects(t *testing.T) {
	_, err := announce.New(announce.Config{Exclude: []string{"ok", "(", "["}, Repeat: -1, Rate: -5})
	require.ErrorContains(t, err, `"("`)
	require.ErrorContains(t, err, `"["`)
	require.ErrorContains(t, err, "Repeat")
	require.ErrorContains(t, err, "Rate")
}

func TestSetAddrsRejectsAllOrNothing(t *testing.T) {
	a, err := announce.New(announce.Config{})
	require.NoError(t, err)
	require.NoError(t, a.SetAddrs(ads(vip4)))
	bad := []string{"0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "127.0.0.1", "::1", "fe80::1%eth0"}
	for _, text := range bad {
		err := a.SetAddrs(ads(vip6, text))
		require.ErrorIs(t, err, announce.ErrAddress)
		require.ErrorContains(t, err, text)
	}
	err = a.SetAddrs([]announce.Advertisement{{Owner: "web"}, ads("::")[0]})
	require.ErrorContains(t, err, `"web"`)
	require.ErrorContains(t, err, `"svc"`)
	require.Len(t, a.Stats().Addresses, 1)
	require.Equal(t, vip4, a.Stats().Addresses[0].Addr.String())
	require.NoError(t, a.SetAddrs(ads("::ffff:192.0.2.50", "fe80::1")))
	require.Equal(t, vip4, a.Stats().Addresses[0].Addr.String(), "unmapped")
}
