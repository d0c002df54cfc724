package membership_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/membership"
)

func TestJoinAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := newLAN(t).startThree()
		for _, n := range []*node{a, b, c} {
			for i, m := range n.Members() {
				assert.Equal(t, gossipPort(host(i+1)), netip.AddrPortFrom(m.Addr, m.Port))
				assert.True(t, m.Described && m.Eligible && !m.Suspect && m.HasLink("eth0"), "%+v", m)
			}
			assert.Equal(t, gossipPort(n.Members()[0].Addr).Port(), n.LocalAddr().Port())
			assert.Equal(t, 3, n.Stats().Members)
		}
		assert.ErrorIs(t, a.Run(t.Context()), membership.ErrStarted)
	})
}

// TestJoinWhenTheFirstSeedComesLater: nobody is there at first, and the second
// node does not know of the first.
func TestJoinWhenTheFirstSeedComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a := l.start(1)
		time.Sleep(10 * time.Minute) // of virtual time: the waits have grown
		b := l.start(2, func(c *membership.Config) { c.Seeds = nil })
		took := waitNames(t, 90*time.Second, "a b", a, b) // a round that is under way lasts 10 s, the wait is up to 66 s
		t.Logf("found after %v", took)
		assert.NotZero(t, a.Stats().JoinFailures)
	})
}

// TestSeedComesSoonAfter: as long as nobody has been reached the waits are
// short.
func TestSeedComesSoonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a := l.start(1)
		time.Sleep(5 * time.Second)
		b := l.start(2, func(c *membership.Config) { c.Seeds = nil })
		waitNames(t, 25*time.Second, "a b", a, b) // a dead host costs 10 s to find out
	})
}

func TestQuickRetriesAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var mu sync.Mutex
		calls := 0
		broken := true
		a := l.start(1, func(c *membership.Config) {
			c.Seeds = membership.SeedFunc(func(context.Context) ([]netip.AddrPort, error) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				if broken {
					return nil, fmt.Errorf("no list yet")
				}
				return []netip.AddrPort{gossipPort(host(1)), gossipPort(host(2))}, nil
			})
		})
		b := l.start(2, func(c *membership.Config) { c.Seeds = nil })
		waitFor(t, 9*time.Second, "four calls", func() bool { mu.Lock(); defer mu.Unlock(); return calls >= 4 })
		mu.Lock()
		broken = false
		mu.Unlock()
		waitNames(t, 10*time.Second, "a b", a, b)
		assert.GreaterOrEqual(t, a.Stats().SeedErrors, uint64(4))

		// Once it is in touch it asks once in a minute.
		mu.Lock()
		calls = 0
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		assert.InDelta(t, 10, calls, 1.5)
		mu.Unlock()

		a.Rejoin()
		mu.Lock()
		before := calls
		mu.Unlock()
		waitFor(t, time.Second, "a call on request", func() bool { mu.Lock(); defer mu.Unlock(); return calls > before })
	})
}

func TestAloneWithOneselfAsSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newLAN(t).start(1, func(c *membership.Config) { c.Seeds = seeds(1) })
		time.Sleep(time.Hour)
		assert.Equal(t, "a", a.names())
		assert.Zero(t, a.Stats().JoinAttempts)
		assert.NoError(t, a.Drain(t.Context()), "there is nobody to wait for")
		assert.Equal(t, "a-", a.names())
	})
}

func TestDescriptionsTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, c := l.startThree(func(c *membership.Config) { c.Label = "blue" })

		a.SetEligible(false)
		assert.Equal(t, "a- b c", a.names(), "a knows at once")
		waitNames(t, 2*time.Second, "a- b c", b, c)

		a.SetLinks([]string{"eth0", "bond0.100"})
		link := func(n *node, name string) bool { return n.Members()[0].HasLink(name) }
		waitFor(t, 2*time.Second, "links of a", func() bool {
			return !link(b, "eth1") && !link(c, "eth1") && link(b, "eth0") && link(c, "bond0.100")
		})
		assert.False(t, link(a, "eth1"))
		a.SetLinks(nil)
		a.SetEligible(true)
		waitNames(t, 2*time.Second, "a b c", a, b, c)
		waitFor(t, 2*time.Second, "every link", func() bool { return link(b, "eth1") && link(c, "eth1") })

		// A newcomer learns what was said before it came.
		b.SetEligible(false)
		waitNames(t, 2*time.Second, "a b- c", a, c)
		d := l.start(4, func(c *membership.Config) { c.Label = "blue" })
		waitNames(t, 2*time.Second, "a b- c d", d)
	})
}

// TestDescribedBeforeRun: what is said before Run is told with the join.
func TestDescribedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a := l.start(1)
		c, err := membership.New(membership.Config{Name: "b", Bind: gossipPort(host(2)), Transport: l.net.Host(host(2)), Seeds: seeds(1)})
		require.NoError(t, err)
		c.SetEligible(false)
		assert.Equal(t, "b", c.Members()[0].Name)
		assert.ErrorIs(t, c.Drain(t.Context()), membership.ErrNotRunning)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		waitNames(t, time.Second, "a b-", a)
		cancel()
		require.NoError(t, <-done)
		assert.ErrorIs(t, c.Drain(t.Context()), membership.ErrNotRunning)
	})
}

// TestSlowReaderOfChanged is antrea#4469: somebody who never takes the signal
// blocks nobody, and finds one signal when he comes.
func TestSlowReaderOfChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a := l.start(1, func(c *membership.Config) { c.Seeds = seeds(3) })
		for range 20 {
			b, c := l.start(2), l.start(3)
			waitNames(t, 90*time.Second, "a b c", a, b, c)
			require.NoError(t, b.stop())
			require.NoError(t, c.stop())
			waitNames(t, 5*time.Second, "a", a)
		}
		select {
		case <-a.Changed():
		default:
			t.Fatal("no signal")
		}
		select {
		case <-a.Changed():
			t.Fatal("a second signal without a change")
		default:
		}
		a.SetEligible(false)
		select {
		case <-a.Changed():
		default:
			t.Fatal("no signal for a change of the node itself")
		}
		a.SetEligible(false)
		select {
		case <-a.Changed():
			t.Fatal("a signal without a change")
		default:
		}
	})
}

// TestLossyNetwork: with a tenth of all packets lost nobody is given up.
func TestLossyNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		l.net.SetDelay(2 * time.Millisecond)
		a, b, c := l.startThree()
		l.net.SetLoss(0.1)
		time.Sleep(10 * time.Minute)
		waitNames(t, 10*time.Second, "a b c", a, b, c)
		assert.Zero(t, a.Stats().Left+b.Stats().Left+c.Stats().Left)
	})
}

// TestLogAndEvents: the log says what an operator wants to know, and no line
// is an error.
func TestLogAndEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		l := newLAN(t)
		a := l.start(1, func(c *membership.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		b := l.start(2)
		waitNames(t, 90*time.Second, "a b", a, b)
		l.net.Host(host(2)).Kill()
		waitNames(t, 25*time.Second, "a", a)
		require.NoError(t, a.stop())
		text := out.String()
		for _, want := range []string{
			`level=WARN msg="membership: gossip is neither encrypted nor authenticated; set a secret" node=a`,
			`level=INFO msg="membership: member joined" node=a member=b addr=192.0.2.2:7946`,
			`level=INFO msg=memberlist node=a text="Suspect b has failed, no acks received"`,
			`level=INFO msg="membership: member left or failed" node=a member=b`,
			`level=INFO msg="membership: left" node=a`,
		} {
			assert.Contains(t, text, want)
		}
		assert.NotContains(t, text, "level=ERROR")
		assert.Equal(t, uint64(1), a.Stats().Joined)
		assert.Equal(t, uint64(1), a.Stats().Left)
	})
}
