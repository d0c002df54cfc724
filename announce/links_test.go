package announce_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

func TestRestrictedLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip6+"@eth1")))
			require.Equal(t, []string{"eth1 na " + vip6}, heard(t, host))
			require.Empty(t, host.Groups("eth0"))
			require.Len(t, host.Groups("eth1"), 1)
			// Allowed on one more: announced there only.
			require.NoError(t, a.SetAddrs(ads(vip6)))
			require.Equal(t, []string{"eth0 na " + vip6}, heard(t, host))
			require.Len(t, host.Groups("eth0"), 1)
			// A link that does not exist is no error, and is served when it comes.
			require.NoError(t, a.SetAddrs(ads(vip6+"@eth9")))
			require.Empty(t, heard(t, host))
			host.SetLinks(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(9, "eth9"))
			time.Sleep(time.Second)
			require.Equal(t, []string{"eth9 na " + vip6}, heard(t, host))
		})
	})
}

func TestLinkChangesAnnounceAgain(t *testing.T) {
	mac := announcetest.Ethernet(1, "eth0")
	mac.HardwareAddr = net.HardwareAddr{2, 9, 9, 9, 9, 9}
	bounced := announcetest.Ethernet(1, "eth0")
	bounced.Epoch = 1
	index := announcetest.Ethernet(7, "eth0")
	for name, changed := range map[string]announce.Link{
		"MAC":     mac,
		"rename":  announcetest.Ethernet(1, "lan0"),
		"index":   index,
		"carrier": bounced,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := announcetest.Ethernet(2, "eth1")
				host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), other)
				inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
					require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
					heard(t, host)
					<-a.LinksChanged()
					host.SetLinks(changed, other)
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					sent := host.Sent()
					require.Len(t, sent, 3, "on the changed link only")
					for _, f := range sent {
						require.Equal(t, changed.Name, f.Link)
						require.Equal(t, []byte(changed.HardwareAddr), f.Data[6:12])
					}
					require.Len(t, host.Groups(changed.Name), 1)
					<-a.LinksChanged()
					require.Contains(t, a.Links(), changed)
					require.Len(t, a.Links(), 2)
				})
			})
		})
	}
}

// Links that must stay silent: metallb#316 (bond ports), #2026 (down), #779
// (InfiniBand), and what names exclude. The good link works all the same.
func TestUnusableLinks(t *testing.T) {
	change := func(f func(l *announce.Link)) announce.Link {
		l := announcetest.Ethernet(5, "net5")
		f(&l)
		return l
	}
	bad := map[string]announce.Link{
		"port":       change(func(l *announce.Link) { l.Master = 9 }),
		"down":       change(func(l *announce.Link) { l.Up = false }),
		"NOARP":      change(func(l *announce.Link) { l.NoARP = true }),
		"InfiniBand": change(func(l *announce.Link) { l.Type, l.HardwareAddr = 32, make([]byte, 20) }),
		"long MAC":   change(func(l *announce.Link) { l.HardwareAddr = make([]byte, 8) }),
		"no MAC":     change(func(l *announce.Link) { l.HardwareAddr = make([]byte, 6) }),
		"tunnel":     change(func(l *announce.Link) { l.Type, l.HardwareAddr = 768, net.HardwareAddr{192, 0, 2, 1} }),
	}
	for _, name := range []string{
		"lo", "docker0", "cbr0", "dummy0", "virbr0", "lxcbr0", "veth12ab", "cali12ab", "tunl0", "flannel.1", "kube-ipvs0",
		"cni0", "nodelocaldns", "lxc_health", "cilium_host", "ovn-k8s-mp0", "ovs-system", "br-int", "antrea-gw0",
		"kube-bridge", "vxlan.calico", "br-0123456789ab", "0123456789ab_h", "podman1",
	} {
		bad["name "+name] = announcetest.Ethernet(5, name)
	}
	for name, link := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := announcetest.NewHost(link, announcetest.Ethernet(1, "eth0"))
				inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
					require.NoError(t, a.SetAddrs(ads(vip4)))
					require.Equal(t, []string{"eth0 request " + vip4, "eth0 reply " + vip4}, heard(t, host))
					require.Equal(t, 2, host.Sockets())
					require.Equal(t, []announce.Link{announcetest.Ethernet(1, "eth0")}, a.Links())
				})
			})
		})
	}
}

func TestUsableLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var links []announce.Link
		for i, name := range []string{"eth0", "ens3f0np0", "enp1s0.100", "bond0", "br0", "lan0", "vlan10", "team0", "wlan0", "eno1"} {
			links = append(links, announcetest.Ethernet(i+1, name))
		}
		host := announcetest.NewHost(links...)
		inBubble(t, host, announce.Config{}, func(t *testing.T, a *announce.Announcer) {
			require.Equal(t, links, a.Links())
		})
		inBubble(t, host, announce.Config{Exclude: []string{"^e", "0$"}}, func(t *testing.T, a *announce.Announcer) {
			require.Empty(t, a.Links())
		})
		inBubble(t, host, announce.Config{Exclude: []string{}}, func(t *testing.T, a *announce.Announcer) {
			require.Len(t, a.Links(), len(links))
		})
	})
}

// metallb#1726, #248, #2685: one family that does not come up leaves the other
// alone, is retried, logged once, and announced when it works.
func TestFamiliesFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
		host.Refuse("eth0", announce.NDP, errors.New("address linklocal not found"))
		host.Refuse("eth1", announce.ARP, errors.New("no buffer space"))
		inBubble(t, host, announce.Config{Repeat: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip4, vip6)))
			require.ElementsMatch(t, []string{"eth0 request " + vip4, "eth0 reply " + vip4, "eth1 na " + vip6}, heard(t, host))
			links := a.Stats().Links
			require.True(t, links[0].ARP && !links[0].NDP && !links[1].ARP && links[1].NDP, "%+v", links)
			time.Sleep(10 * time.Minute)
			require.Empty(t, heard(t, host))
			require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
			failures := a.Stats().Errors.Listen
			require.Greater(t, failures, uint64(10))
			require.Less(t, failures, uint64(100), "backs off")

			host.Refuse("eth0", announce.NDP, nil)
			time.Sleep(31 * time.Second)
			require.Equal(t, []string{"eth0 na " + vip6}, heard(t, host))
			// A change on the host brings the next attempt forward.
			host.Refuse("eth1", announce.ARP, nil)
			host.SetLinks(announcetest.Ethernet(1, "eth0"), announcetest.Ethernet(2, "eth1"))
			time.Sleep(time.Second)
			require.Equal(t, []string{"eth1 request " + vip4, "eth1 reply " + vip4}, heard(t, host))
		})
	})
}

// metallb#184: the group of two addresses is left with the second.
func TestGroupsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		inBubble(t, host, announce.Config{}, func(t *testing.T, a *announce.Announcer) {
			group := []netip.Addr{netip.MustParseAddr("ff02::1:ff00:7")}
			for _, step := range []struct {
				set  []string
				want []netip.Addr
			}{
				{[]string{"2001:db8:1::7", "2001:db8:2::7"}, group},
				{[]string{"2001:db8:2::7"}, group},
				{nil, nil},
				{[]string{"2001:db8:1::7"}, group},
			} {
				require.NoError(t, a.SetAddrs(ads(step.set...)))
				synctest.Wait()
				require.Equal(t, step.want, host.Groups("eth0"))
			}
		})
	})
}

func TestFailedJoinIsNotFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		host.RefuseJoin(errors.New("cannot allocate memory"))
		inBubble(t, host, announce.Config{Repeat: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(ads(vip6, "2001:db8::51")))
			require.Len(t, heard(t, host), 2, "announced all the same")
			require.Equal(t, 2, a.Stats().Links[0].GroupsMissing)
			time.Sleep(10 * time.Minute)
			require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
			require.Greater(t, a.Stats().Errors.Join, uint64(10))
			require.Less(t, a.Stats().Errors.Join, uint64(100), "backs off")
			host.RefuseJoin(nil)
			time.Sleep(31 * time.Second)
			require.Len(t, host.Groups("eth0"), 2)
			require.Zero(t, a.Stats().Links[0].GroupsMissing)
			require.Equal(t, 2, a.Stats().Links[0].Groups)
		})
	})
}

// Joins are spread out: the kernel sends a report for each.
func TestManyGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		inBubble(t, host, announce.Config{Repeat: 1}, func(t *testing.T, a *announce.Announcer) {
			require.NoError(t, a.SetAddrs(many(10_000, true)))
			time.Sleep(time.Second)
			joined := len(host.Groups("eth0"))
			require.Greater(t, joined, 1_000)
			require.Less(t, joined, 10_000)
			time.Sleep(time.Second)
			require.Len(t, host.Groups("eth0"), 10_000)
		})
	})
}
