package announce_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

// Counters by link add up to the sums, also when links go, come back under
// another index, and others take their place.
func TestStatsByLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eth0, eth1 := announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1")
		host := announcetest.NewHost(eth0, eth1)
		inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
			ask := func(link, addr string, times int) {
				for range times {
					require.True(t, host.Receive(link, announce.ARP, request("192.0.2.10", addr)))
				}
				synctest.Wait()
			}
			on := func(link string, requests, gratuitous uint64) announce.AddrLinkStats {
				return announce.AddrLinkStats{Link: link, Requests: requests, Replies: requests, Gratuitous: gratuitous}
			}
			sums := func() [3]uint64 {
				s := a.Stats().Addresses[0]
				return [3]uint64{s.Requests, s.Replies, s.Gratuitous}
			}
			require.NoError(t, a.SetAddrs(ads(vip4)))
			ask("eth0", vip4, 2)
			ask("eth1", vip4, 3)
			ask("eth1", "192.0.2.99", 4)
			require.Equal(t, []announce.AddrLinkStats{on("eth0", 2, 2), on("eth1", 3, 2)}, a.Stats().Addresses[0].OnLinks)
			require.Equal(t, [3]uint64{5, 5, 4}, sums())
			require.Empty(t, a.Stats().Links[0].Drops)
			require.Equal(t, map[announce.DropReason]uint64{announce.DropUnknown: 4}, a.Stats().Links[1].Drops)

			// Replaced at once under another index: it goes on counting.
			eth1.Index = 9
			host.SetLinks(eth0, eth1)
			time.Sleep(time.Second)
			ask("eth1", vip4, 1)
			require.Equal(t, []announce.AddrLinkStats{on("eth0", 2, 2), on("eth1", 4, 4)}, a.Stats().Addresses[0].OnLinks)

			// Gone, and another one takes its place.
			host.SetLinks(eth0, announcetest.Ethernet(3, "eth2"))
			time.Sleep(time.Second)
			ask("eth2", vip4, 1)
			s := a.Stats()
			require.Equal(t, []announce.AddrLinkStats{on("eth0", 2, 2), on("eth2", 1, 2)}, s.Addresses[0].OnLinks)
			require.Equal(t, [3]uint64{7, 7, 8}, sums(), "what eth1 counted stays in the sums")
			require.Equal(t, map[announce.DropReason]uint64{announce.DropUnknown: 4}, s.Drops)
			require.Empty(t, s.Links[1].Drops)
		})
	})
}
