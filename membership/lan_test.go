package membership_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
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
