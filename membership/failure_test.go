package membership_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/membership"
)

// TestCrash: a member is suspected before it is given up, for both others.
func TestCrash(t *testing.T) {
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprintf("members=%d", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t)
				nodes := make([]*node, size)
				all := ""
				for i := range nodes {
					nodes[i] = l.start(i+1, func(c *membership.Config) { c.Seeds = seeds(size) })
					all += " " + nodes[i].name
				}
				waitNames(t, 5*time.Second, all[1:], nodes...)
				rest := "b c d e"[:2*size-3]

				l.net.Host(host(1)).Kill()
				suspected := waitFor(t, 5*time.Second, "somebody suspects a", func() bool {
					for _, n := range nodes[1:] {
						if n.names() == "a? "+rest {
							return true
						}
					}
					return false
				})
				gone := waitNames(t, 25*time.Second, rest, nodes[1:]...)
				t.Logf("suspected after %v, gone for all %v later", suspected, gone)
				assert.NoError(t, nodes[0].stop())
			})
		})
	}
}

// TestStall: a member that is mute for a short time is suspected, stays a
// member, and is cleared.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, c := l.startThree()
		l.net.Cut(host(1), host(2))
		l.net.Cut(host(1), host(3))
		waitFor(t, 5*time.Second, "b or c suspects a", func() bool { return b.names() == "a? b c" || c.names() == "a? b c" })
		assert.NotZero(t, b.Stats().Suspicions+c.Stats().Suspicions)
		assert.Equal(t, 1, max(b.Stats().Suspects, c.Stats().Suspects))
		l.net.Heal()
		waitNames(t, 5*time.Second, "a b c", a, b, c)
		time.Sleep(5 * time.Minute)
		waitNames(t, 0, "a b c", a, b, c)
		assert.Zero(t, b.Stats().Left+c.Stats().Left, "a was never given up")
	})
}

// TestLinkDown is memberlist#242: a node whose own link is down cannot even
// send. It must not believe everybody alive for ever.
func TestLinkDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, c := l.startThree()
		l.net.Host(host(1)).Unplug()
		waitNames(t, 30*time.Second, "a", a)
		waitNames(t, 30*time.Second, "b c", b, c)
		l.net.Host(host(1)).Plug()
		waitNames(t, 67*time.Second, "a b c", a, b, c)
	})
}

// TestPartitionHeals is metallb#589: the halves forget each other, and
// memberlist alone would never find the other again.
func TestPartitionHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, c := l.startThree()
		l.net.Partition([]netip.Addr{host(1)}, []netip.Addr{host(2), host(3)})
		waitNames(t, 30*time.Second, "a", a)
		waitNames(t, 30*time.Second, "b c", b, c)
		time.Sleep(5 * time.Minute) // much longer than GossipToTheDeadTime
		l.net.Heal()
		took := waitNames(t, 67*time.Second, "a b c", a, b, c)
		t.Logf("healed after %v", took)
	})
}

// TestNoRejoinNoHealing shows that TestPartitionHeals tests our part: without
// seeds to join again the halves stay apart.
func TestNoRejoinNoHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var mute atomic.Bool
		a, b, c := l.startThree(func(c *membership.Config) {
			all := c.Seeds
			c.Seeds = membership.SeedFunc(func(ctx context.Context) ([]netip.AddrPort, error) {
				if mute.Load() {
					return nil, nil
				}
				return all.Seeds(ctx)
			})
		})
		mute.Store(true)
		l.net.Partition([]netip.Addr{host(1)}, []netip.Addr{host(2), host(3)})
		waitNames(t, 30*time.Second, "a", a)
		waitNames(t, 30*time.Second, "b c", b, c)
		time.Sleep(5 * time.Minute)
		l.net.Heal()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, "a", a.names())
		assert.Equal(t, "b c", b.names())
	})
}

// TestNameReclaim is memberlist#157: b crashes and comes back at another
// address, before the others have noticed or after it. Full state syncs, which
// would help by chance, are off.
func TestNameReclaim(t *testing.T) {
	noSync := membership.LAN()
	noSync.PushPullInterval = 0
	tests := []struct{ after, within time.Duration }{
		// Until the others give b up nothing can be done, then it is tried soon.
		{0, 20 * time.Second},
		{2 * time.Second, 20 * time.Second},
		// The others have given b up: at once.
		{10 * time.Second, time.Second},
		{25 * time.Second, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t)
				change := func(c *membership.Config) { c.Seeds, c.Profile = seeds(9), noSync }
				a, b, c := l.startThree(change)
				l.net.Host(host(2)).Kill()
				require.NoError(t, b.stop())
				time.Sleep(tt.after)
				again := l.start(9, change, func(c *membership.Config) { c.Name = "b" })
				at := func(n *node) netip.Addr {
					for _, m := range n.Members() {
						if m.Name == "b" {
							return m.Addr
						}
					}
					return netip.Addr{}
				}
				took := waitFor(t, tt.within, "all have b at its new address", func() bool {
					for _, n := range []*node{a, c, again} {
						if n.names() != "a b c" || at(n) != host(9) {
							return false
						}
					}
					return true
				})
				t.Logf("known after %v", took)
				if tt.after == 0 {
					assert.NotZero(t, a.Stats().Conflicts+c.Stats().Conflicts)
				}
			})
		})
	}
}
