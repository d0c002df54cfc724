package announce_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

// probing starts a probe, calls during after the first frame has left, and returns
// the outcome.
func probing(t *testing.T, a *announce.Announcer, during func(), addr string, links ...string) ([]string, error) {
	t.Helper()
	type outcome struct {
		answers []announce.Answer
		err     error
	}
	done := make(chan outcome, 1)
	start := time.Now()
	go func() {
		answers, err := a.Probe(t.Context(), netip.MustParseAddr(addr), links...)
		done <- outcome{answers, err}
	}()
	synctest.Wait()
	during()
	o := <-done
	require.LessOrEqual(t, time.Since(start), announce.ProbeTime)
	var out []string
	for _, x := range o.answers {
		out = append(out, x.Link+" "+x.MAC.String())
	}
	return out, o.err
}

func TestProbe(t *testing.T) {
	settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		time.Sleep(time.Second)
		heard(t, host)
		nothing := func() {}
		const free4, free6 = "192.0.2.77", "2001:db8::77"

		// Nobody: three probes on each link.
		start := time.Now()
		got, err := probing(t, a, nothing, free4)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Equal(t, announce.ProbeTime, time.Since(start))
		at := map[string][]time.Duration{}
		for _, f := range host.Sent() {
			at[f.Link] = append(at[f.Link], f.Time.Sub(start))
		}
		times := []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond}
		require.Equal(t, map[string][]time.Duration{"eth0": times, "eth1": times}, at)

		// One on one link, two on the other, one of them twice.
		other := net.HardwareAddr{2, 0, 0, 0, 9, 8}
		got, err = probing(t, a, func() {
			hear(t, host, "eth1", arpFrame(2, squatter(), free4, "0.0.0.0"))
			hear(t, host, "eth0", arpFrame(2, squatter(), free4, "0.0.0.0"))
			hear(t, host, "eth0", garp(other, free4))
			hear(t, host, "eth0", garp(other, free4))
			hear(t, host, "eth0", arpFrame(2, other, "192.0.2.78", "0.0.0.0")) // for another address
			hear(t, host, "eth0", arpFrame(1, net.HardwareAddr{2, 0, 0, 0, 9, 7}, "0.0.0.0", free4))
			hear(t, host, "eth0", garp(announcetest.Ethernet(2, "").HardwareAddr, free4)) // ourselves
		}, free4)
		require.NoError(t, err)
		require.Equal(t, []string{"eth0 " + other.String(), "eth0 " + squatter().String(), "eth1 " + squatter().String()}, got)

		// IPv6, on one link only, and what is heard on the other does not count.
		heard(t, host)
		got, err = probing(t, a, func() {
			hear(t, host, "eth1", unsolicited(t, squatter(), free6))
			hear(t, host, "eth0", unsolicited(t, other, free6))
		}, free6, "eth0")
		require.NoError(t, err)
		require.Equal(t, []string{"eth0 " + other.String()}, got)
		for _, f := range host.Sent() {
			require.Equal(t, "eth0", f.Link)
		}

		// An address that we hold: we do not answer ourselves.
		got, err = probing(t, a, nothing, vip4)
		require.NoError(t, err)
		require.Empty(t, got)

		// It works while a link is busy, and many at a time.
		require.NoError(t, a.SetAddrs(many(10_000, false)))
		busy := make(chan error, 50)
		for i := range cap(busy) {
			go func() {
				_, err := a.Probe(t.Context(), netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
				busy <- err
			}()
		}
		for range cap(busy) {
			require.NoError(t, <-busy)
		}
	})
}

func TestProbeOfWhatCannotBeAsked(t *testing.T) {
	settledBubble(t, announce.Config{}, func(t *testing.T, a *announce.Announcer, host *announcetest.Host) {
		for _, bad := range []string{"::", "224.0.0.1", "fe80::1%eth0"} {
			_, err := a.Probe(t.Context(), netip.MustParseAddr(bad))
			require.ErrorIs(t, err, announce.ErrAddress)
		}
		// Of two links one does not exist: the other is asked.
		got, err := probing(t, a, func() { hear(t, host, "eth0", garp(squatter(), "192.0.2.77")) }, "192.0.2.77", "eth0", "eth7")
		require.ErrorIs(t, err, announce.ErrLink)
		require.ErrorContains(t, err, "eth7")
		require.NotContains(t, err.Error(), "eth0")
		require.Equal(t, []string{"eth0 " + squatter().String()}, got)
		// No socket: silence would prove nothing.
		host.Refuse("eth1", announce.NDP, errors.New("no socket"))
		host.SetLinks(announcetest.Ethernet(1, "eth0"))
		time.Sleep(time.Second)
		host.SetLinks(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		time.Sleep(time.Second)
		_, err = a.Probe(t.Context(), netip.MustParseAddr("2001:db8::77"))
		require.ErrorIs(t, err, announce.ErrLink)
		require.ErrorContains(t, err, "eth1")

		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
		defer cancel()
		_, err = a.Probe(ctx, netip.MustParseAddr("192.0.2.77"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		host.SetLinks()
		time.Sleep(time.Second)
		_, err = a.Probe(t.Context(), netip.MustParseAddr("192.0.2.77"))
		require.ErrorIs(t, err, announce.ErrLink)
	})
}

// A link that takes no frames was not asked.
func TestProbeOfStuckLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		cfg := announce.Config{Open: func() (announce.Network, error) {
			nw, err := host.Open()
			return stuckNetwork{nw, "eth0"}, err
		}}
		inBubble(t, host, cfg, func(t *testing.T, a *announce.Announcer) {
			_, err := probing(t, a, func() {}, "192.0.2.77")
			require.ErrorIs(t, err, announce.ErrLink)
			require.ErrorContains(t, err, "nothing was sent")
		})
	})
}

// Two announcers on one wire: the holder answers, and takes the question of the
// other neither for a claim nor for a conflict.
func TestProbeBetweenAnnouncers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := announcetest.NewHost(announcetest.Ethernet(1, "eth0")), announcetest.NewHost(announcetest.Ethernet(2, "eth0"))
		inBubble(t, one, announce.Config{}, func(t *testing.T, holder *announce.Announcer) {
			require.NoError(t, holder.SetAddrs(ads(vip4, vip6)))
			time.Sleep(2 * grace)
			one.Sent()
			inBubble(t, two, announce.Config{}, func(t *testing.T, asker *announce.Announcer) {
				for _, addr := range []string{vip4, vip6} {
					got, err := probing(t, asker, func() {
						for _, f := range two.Sent() {
							require.True(t, one.Receive("eth0", f.Protocol, f.Data))
						}
						synctest.Wait()
						for _, f := range one.Sent() {
							require.True(t, two.Receive("eth0", f.Protocol, f.Data))
						}
					}, addr)
					require.NoError(t, err)
					require.Equal(t, []string{"eth0 02:00:00:00:00:01"}, got)
				}
			})
			time.Sleep(2 * grace)
			require.Empty(t, holder.Conflicts())
			for _, s := range holder.Stats().Addresses {
				require.Positive(t, s.Replies)
				require.Zero(t, s.Claims)
			}
		})
	})
}

// Who has an address? Before Run nothing can be asked.
func ExampleAnnouncer_Probe() {
	host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
	a, _ := announce.New(announce.Config{Open: host.Open})
	addr := netip.MustParseAddr("192.0.2.10")
	_, err := a.Probe(context.Background(), addr, "eth0")
	fmt.Println(err)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	<-a.LinksChanged()
	answers, err := a.Probe(ctx, addr, "eth0")
	fmt.Println(answers, err)
	cancel()
	fmt.Println(<-done)
	// Output:
	// announce: link could not be asked: eth0: it is not in use
	// [] <nil>
	// <nil>
}
