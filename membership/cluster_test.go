package membership_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/membership"
	"github.com/heraldlb/herald/membership/membershiptest"
)

// lan is a network in memory with the nodes a, b, c ... at 192.0.2.1, .2, .3 ...
type lan struct {
	t   *testing.T
	net *membershiptest.Network
}

func newLAN(t *testing.T) *lan { return &lan{t: t, net: membershiptest.NewNetwork()} }

func host(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }

func gossipPort(addr netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(addr, membership.DefaultPort)
}

// seeds are the gossip ports of the first n hosts.
func seeds(n int) membership.SeedSource {
	list := make([]netip.AddrPort, n)
	for i := range list {
		list[i] = gossipPort(host(i + 1))
	}
	return membership.Addresses(list...)
}

// node is a running cluster.
type node struct {
	*membership.Cluster
	t      testing.TB
	name   string
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
	err    error
}

// start runs a cluster, and stops it at the end of the test.
func start(t testing.TB, cfg membership.Config) *node {
	t.Helper()
	c, err := membership.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	n := &node{Cluster: c, t: t, name: cfg.Name, cancel: cancel, done: make(chan error, 1)}
	go func() { n.done <- c.Run(ctx) }()
	t.Cleanup(func() { assert.NoError(t, n.stop()) })
	select {
	case <-c.Ready():
	case n.err = <-n.done:
		n.once.Do(func() {})
		require.NoError(t, n.err)
	}
	return n
}

// stop ends Run and returns its error.
func (n *node) stop() error {
	n.once.Do(func() {
		n.cancel()
		n.err = <-n.done
	})
	return n.err
}

func (l *lan) start(i int, change ...func(*membership.Config)) *node {
	l.t.Helper()
	cfg := membership.Config{
		Name:      string(rune('a' + i - 1)),
		Bind:      gossipPort(host(i)),
		Transport: l.net.Host(host(i)),
		Seeds:     seeds(3),
	}
	for _, f := range change {
		f(&cfg)
	}
	return start(l.t, cfg)
}

// names returns the members in the form "a b? c-": b is suspected, c is not
// eligible.
func (n *node) names() string {
	var out bytes.Buffer
	for i, m := range n.Members() {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(m.Name)
		if m.Suspect {
			out.WriteByte('?')
		}
		if !m.Eligible {
			out.WriteByte('-')
		}
	}
	return out.String()
}

// waitFor waits until the condition holds, for the given time at the longest.
func waitFor(t testing.TB, within time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !condition() {
		if time.Since(begin) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

// waitNames waits until all nodes have these members.
func waitNames(t testing.TB, within time.Duration, want string, nodes ...*node) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, n := range nodes {
		waitFor(t, within, fmt.Sprintf("%s sees %q, not %q", n.name, n.names(), want), func() bool { return n.names() == want })
	}
	return time.Since(begin)
}

func (l *lan) startThree(change ...func(*membership.Config)) (a, b, c *node) {
	l.t.Helper()
	a, b, c = l.start(1, change...), l.start(2, change...), l.start(3, change...)
	waitNames(l.t, 5*time.Second, "a b c", a, b, c)
	return a, b, c
}

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
		took := waitNames(t, 70*time.Second, "a b", a, b)
		t.Logf("found after %v", took)
		assert.NotZero(t, a.Stats().JoinFailures)
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

func TestDrainThenLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, c := l.startThree()
		begin := time.Now()
		require.NoError(t, a.Drain(t.Context()))
		t.Logf("drained after %v", time.Since(begin))
		assert.Less(t, time.Since(begin), 3*time.Second)
		// When Drain returns the others have known for about the settle time.
		assert.Equal(t, "a- b c", b.names())
		assert.Equal(t, "a- b c", c.names())

		begin = time.Now()
		require.NoError(t, a.Drain(t.Context()))
		assert.Equal(t, time.Second, time.Since(begin), "nothing is told again, only the settle time passes")

		begin = time.Now()
		require.NoError(t, a.stop())
		t.Logf("left after %v", time.Since(begin))
		assert.Less(t, time.Since(begin), 2*time.Second)
		assert.Equal(t, "b c", b.names())
		assert.Equal(t, "b c", c.names())
		assert.Equal(t, "a- b c", a.names(), "a does not believe that it is alone")
	})
}

func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b, _ := l.startThree(func(c *membership.Config) { c.DrainSettle = time.Hour })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, a.Drain(ctx), context.DeadlineExceeded)
		assert.Equal(t, "a- b c", a.names(), "ineligible all the same")

		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		assert.ErrorIs(t, b.Drain(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

// TestLeaveWithoutListeners: the others are gone, the node leaves all the same
// and in bounded time.
func TestLeaveWithoutListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, _, _ := l.startThree()
		l.net.Partition([]netip.Addr{host(1)}, []netip.Addr{host(2), host(3)})
		waitFor(t, 10*time.Second, "a suspects somebody", func() bool { return a.Stats().Suspects > 0 })
		begin := time.Now()
		require.NoError(t, a.stop())
		t.Logf("left after %v", time.Since(begin))
		assert.Less(t, time.Since(begin), 4*time.Second)
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

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
