package membership_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/membership"
)

// loopback is 127.0.0.i with a free port.
func loopback(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i)}), 0)
}

// quick is a profile for tests on real sockets: everything is ten times faster.
func quick() membership.Profile {
	p := membership.LAN()
	p.ProbeInterval, p.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
	p.GossipInterval = 20 * time.Millisecond
	p.PushPullInterval = 2 * time.Second
	p.SuspicionMult = 10 // the machine may be busy
	return p
}

// startOn starts a node on a loopback address.
func startOn(t testing.TB, i int, keys [][]byte, seeds ...*node) *node {
	t.Helper()
	return start(t, loopbackConfig(i, keys, seeds...))
}

func loopbackConfig(i int, keys [][]byte, seeds ...*node) membership.Config {
	list := make([]netip.AddrPort, len(seeds))
	for j, n := range seeds {
		list[j] = n.LocalAddr()
	}
	return membership.Config{
		Name:           string(rune('a' + i - 1)),
		Bind:           loopback(i),
		Keys:           keys,
		Seeds:          membership.Addresses(list...),
		Profile:        quick(),
		RejoinInterval: time.Second,
	}
}

func key(secret string) []byte { return membership.DeriveKey([]byte(secret)) }

func TestEncryptedOnRealSockets(t *testing.T) {
	keys := [][]byte{key("abc")}
	a := startOn(t, 1, keys)
	b := startOn(t, 2, keys, a)
	waitNames(t, 20*time.Second, "a b", a, b)
	assert.NotZero(t, a.LocalAddr().Port())
	b.SetEligible(false)
	waitNames(t, 20*time.Second, "a b-", a)
	assert.Zero(t, a.Stats().Refused)
}

// TestForeigners: who has another key, no key, or another label does not become
// a member, and this is counted and said.
func TestForeigners(t *testing.T) {
	tests := []struct {
		name   string
		change func(*membership.Config)
	}{
		{"wrong key", func(c *membership.Config) { c.Keys = [][]byte{key("wrong")} }},
		{"no key", func(c *membership.Config) { c.Keys = nil }},
		{"another label", func(c *membership.Config) { c.Label = "blue" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var logA, logB safeBuffer
			cfg := loopbackConfig(1, [][]byte{key("abc")})
			cfg.Logger = slog.New(slog.NewTextHandler(&logA, nil))
			a := start(t, cfg)

			cfg = loopbackConfig(2, [][]byte{key("abc")}, a)
			cfg.Logger = slog.New(slog.NewTextHandler(&logB, nil))
			tt.change(&cfg)
			b := start(t, cfg)

			waitFor(t, 20*time.Second, "a refuses b", func() bool { return a.Stats().Refused > 0 })
			waitFor(t, 20*time.Second, "b knows that it failed", func() bool { return b.Stats().JoinFailures > 0 })
			assert.Equal(t, "a", a.names())
			assert.Equal(t, "b", b.names())
			assert.Contains(t, logA.String(), "level=WARN msg=\"membership: gossip refused: it was sent with another key or label, or without one\" node=a from=127.0.0.")
			assert.Contains(t, logB.String(), "level=WARN msg=\"membership: cannot join")
		})
	}
}

// TestKeyRotation rolls a cluster from one key to another, node by node. In all
// the mixed states in between gossip goes both ways and nobody is lost.
func TestKeyRotation(t *testing.T) {
	older, newer := key("older"), key("newer")
	a := startOn(t, 1, [][]byte{older})
	b := startOn(t, 2, [][]byte{older}, a)
	waitNames(t, 20*time.Second, "a b", a, b)
	for round, keys := range [][][]byte{{older, newer}, {newer, older}, {newer}} {
		for _, n := range []*node{a, b} {
			require.NoError(t, n.SetKeys(keys), "round %d", round)
			a.SetEligible(false)
			waitNames(t, 20*time.Second, "a- b", b)
			b.SetEligible(false)
			waitNames(t, 20*time.Second, "a- b-", a)
			a.SetEligible(true)
			b.SetEligible(true)
			waitNames(t, 20*time.Second, "a b", a, b)
		}
	}
	assert.Zero(t, a.Stats().Left+b.Stats().Left)
	assert.Zero(t, a.Stats().Refused+b.Stats().Refused)

	c := startOn(t, 3, [][]byte{newer}, a)
	waitNames(t, 20*time.Second, "a b c", a, b, c)
	d := startOn(t, 4, [][]byte{older}, a)
	waitFor(t, 20*time.Second, "the old key is refused", func() bool { return d.Stats().JoinFailures > 0 })
	assert.Equal(t, "d", d.names())

	assert.ErrorIs(t, a.SetKeys(nil), membership.ErrEncryptionOff)
	assert.ErrorContains(t, a.SetKeys([][]byte{[]byte("short")}), "key 1 of 1 has 5 octets")
}

func TestAddressInUse(t *testing.T) {
	a := startOn(t, 1, nil)
	for _, network := range []string{"tcp and udp", "udp"} {
		t.Run(network, func(t *testing.T) {
			bind := a.LocalAddr()
			if network == "udp" {
				conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(loopback(9)))
				require.NoError(t, err)
				defer func() { assert.NoError(t, conn.Close()) }()
				bind = netip.MustParseAddrPort(conn.LocalAddr().String())
			}
			cfg := loopbackConfig(2, nil)
			cfg.Bind = bind
			c, err := membership.New(cfg)
			require.NoError(t, err)
			err = c.Run(t.Context())
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			assert.Contains(t, err.Error(), "membership: address "+bind.String()+" is in use (is another speaker running on this node?)")
			if network == "udp" {
				ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(bind))
				require.NoError(t, err, "what was opened before the failure is closed")
				assert.NoError(t, ln.Close())
			}
		})
	}
}

func TestForeignAddress(t *testing.T) {
	cfg := loopbackConfig(1, nil)
	cfg.Bind = netip.MustParseAddrPort("203.0.113.77:0")
	c, err := membership.New(cfg)
	require.NoError(t, err)
	err = c.Run(t.Context())
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	assert.Contains(t, err.Error(), "this node has no address 203.0.113.77")
}

func TestCancelledBeforeRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := membership.New(loopbackConfig(1, nil))
	require.NoError(t, err)
	assert.NoError(t, c.Run(ctx))
}

// TestRestarts is memberlist#122: 20 lives on one port, with two peers that
// talk all the time. When Run returns the port is free and nothing is left.
func TestRestarts(t *testing.T) {
	keys := [][]byte{key("abc")}
	a := startOn(t, 1, keys)
	b := startOn(t, 2, keys, a)
	waitNames(t, 20*time.Second, "a b", a, b)
	ctx, cancel := context.WithCancel(t.Context())
	var chatter sync.WaitGroup
	chatter.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			a.SetEligible(i%2 == 0)
			b.SetEligible(i%2 == 1)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	defer chatter.Wait()
	defer cancel()

	bind := netip.AddrPort{}
	for life := range 20 {
		before := goleak.IgnoreCurrent()
		cfg := loopbackConfig(3, keys, a, b)
		if bind.IsValid() {
			cfg.Bind = bind
		}
		c := start(t, cfg)
		bind = c.LocalAddr()
		waitFor(t, 20*time.Second, "c sees all", func() bool { return len(c.Members()) == 3 })
		begin := time.Now()
		require.NoError(t, c.stop())
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("life %d: leaving took %v", life, took)
		}
		require.NoError(t, goleak.Find(before, ignorePeers()), "life %d", life)
	}
}

// ignorePeers ignores what the two peers begin to do meanwhile.
func ignorePeers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).handleConn")
}

// TestForeignSpeaker: a plain memberlist with the same secret, as MetalLB's
// speaker is, is a member, counts as eligible and as having every link.
func TestForeignSpeaker(t *testing.T) {
	a := startOn(t, 1, [][]byte{key("abc")})
	before := goleak.IgnoreCurrent()

	conf := memberlist.DefaultLANConfig()
	conf.Name = "metallb"
	conf.BindAddr, conf.BindPort = "127.0.0.2", 0
	conf.SecretKey = key("abc")
	conf.LogOutput = io.Discard
	speaker, err := memberlist.Create(conf)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, speaker.Shutdown())
		// memberlist does not wait for its goroutines, goleak does.
		waitFor(t, 20*time.Second, "the end of the speaker", func() bool { return goleak.Find(before) == nil })
	}()
	_, err = speaker.Join([]string{a.LocalAddr().String()})
	require.NoError(t, err)

	waitNames(t, 20*time.Second, "a metallb", a)
	m := a.Members()[1]
	assert.False(t, m.Described)
	assert.True(t, m.Eligible)
	assert.True(t, m.HasLink("eth0"))
	var names []string
	for _, n := range speaker.Members() {
		names = append(names, n.Name)
	}
	assert.ElementsMatch(t, []string{"a", "metallb"}, names)

	require.NoError(t, speaker.Leave(10*time.Second))
	waitNames(t, 20*time.Second, "a", a)
}

func TestIPv6InMemory(t *testing.T) {
	l := newLAN(t)
	one, two := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	v6 := func(addr netip.Addr) func(*membership.Config) {
		return func(c *membership.Config) {
			c.Bind, c.Transport = gossipPort(addr), l.net.Host(addr)
			c.Profile = quick()
			// Seeds of the other family cannot be reached and are left alone.
			c.Seeds = membership.Addresses(gossipPort(host(1)), gossipPort(one), gossipPort(two))
		}
	}
	a, b := l.start(1, v6(one)), l.start(2, v6(two))
	waitNames(t, 20*time.Second, "a b", a, b)
	assert.Equal(t, one, b.Members()[0].Addr)
	waitFor(t, 20*time.Second, "attempts", func() bool { return a.Stats().JoinAttempts+b.Stats().JoinAttempts > 0 })
	assert.LessOrEqual(t, a.Stats().JoinAttempts+b.Stats().JoinAttempts, uint64(4))
}

func TestConfig(t *testing.T) {
	bind := netip.MustParseAddrPort
	tests := []struct {
		name string
		cfg  membership.Config
		want []string // parts of the error; none: no error
	}{
		{name: "least", cfg: membership.Config{Name: "a", Bind: bind("192.0.2.1:7946")}},
		{name: "loopback, asked for", cfg: membership.Config{Name: "a", Bind: bind("127.0.0.1:0")}},
		{name: "unspecified with advertise", cfg: membership.Config{Name: "a", Bind: bind("0.0.0.0:7946"), Advertise: bind("192.0.2.1:0")}},
		{name: "dual stack socket", cfg: membership.Config{Name: "a", Bind: bind("[::]:7946"), Advertise: bind("192.0.2.1:0")}},
		{name: "mapped", cfg: membership.Config{Name: "a", Bind: bind("[::ffff:192.0.2.1]:7946"), Advertise: bind("192.0.2.1:0")}},
		{
			name: "nothing, all faults at once",
			want: []string{"membership: ", "no name", "no bind address"},
		},
		{
			name: "unspecified without advertise",
			cfg:  membership.Config{Name: "a", Bind: bind("0.0.0.0:7946")},
			want: []string{"bind address 0.0.0.0: set Advertise"},
		},
		{
			name: "loopback, not asked for",
			cfg:  membership.Config{Name: "a", Bind: bind("0.0.0.0:7946"), Advertise: bind("127.0.0.1:7946")},
			want: []string{"advertise address 127.0.0.1: nobody else reaches a loopback address"},
		},
		{
			name: "link-local",
			cfg:  membership.Config{Name: "a", Bind: bind("[fe80::1%eth0]:7946")},
			want: []string{"bind address fe80::1%eth0"},
		},
		{
			name: "link-local advertise",
			cfg:  membership.Config{Name: "a", Bind: bind("[::]:7946"), Advertise: bind("[fe80::1]:0")},
			want: []string{"advertise address fe80::1"},
		},
		{
			name: "families",
			cfg:  membership.Config{Name: "a", Bind: bind("192.0.2.1:7946"), Advertise: bind("[2001:db8::1]:0")},
			want: []string{"different families"},
		},
		{
			name: "keys, label, interval, profile",
			cfg: membership.Config{
				Name: "a", Bind: bind("192.0.2.1:7946"),
				Keys:           [][]byte{make([]byte, 32), make([]byte, 31), {}},
				Label:          strings.Repeat("l", 256),
				RejoinInterval: -1,
				Profile:        membership.Profile{ProbeInterval: time.Second},
			},
			want: []string{"key 2 of 3 has 31 octets", "key 3 of 3 has 0 octets", "label has 256 octets", "rejoin interval", "profile: TCPTimeout is 0s, must be above 0"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := membership.New(tt.cfg)
			if len(tt.want) == 0 {
				require.NoError(t, err)
				assert.Equal(t, tt.cfg.Name, c.Members()[0].Name)
				assert.False(t, c.LocalAddr().IsValid())
				return
			}
			require.Error(t, err)
			for _, want := range tt.want {
				assert.Contains(t, err.Error(), want)
			}
		})
	}
}

func TestConfigIsCopied(t *testing.T) {
	k := key("abc")
	a := startOn(t, 1, [][]byte{k})
	clear(k)
	b := startOn(t, 2, [][]byte{key("abc")}, a)
	waitNames(t, 20*time.Second, "a b", a, b)
}
