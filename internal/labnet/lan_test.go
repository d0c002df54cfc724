package labnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testPort = 80

// network is a LAN with a client and two nodes that serve two addresses which
// none of them has on a link.
type network struct {
	lan    *LAN
	client *Host
	nodes  []*Host
}

func testVIPs() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8:77::c8")}
}

func newNetwork() (*network, error) {
	lan, err := NewLAN()
	if err != nil {
		return nil, err
	}
	n := &network{lan: lan}
	if err := n.plug(); err != nil {
		return nil, errors.Join(err, lan.Close())
	}
	return n, nil
}

func (n *network) plug() error {
	var err error
	if n.client, err = n.lan.AddHost(hostConfig("client", 100)); err != nil {
		return err
	}
	for i := 1; i <= 2; i++ {
		node, err := n.lan.AddHost(hostConfig(fmt.Sprintf("node-%d", i), byte(i)))
		if err != nil {
			return err
		}
		for _, vip := range testVIPs() {
			if err := node.ServeLocally(netip.PrefixFrom(vip, vip.BitLen())); err != nil {
				return err
			}
		}
		n.nodes = append(n.nodes, node)
	}
	return nil
}

func hostConfig(name string, number byte) HostConfig {
	v4 := netip.AddrFrom4([4]byte{192, 0, 2, number})
	v6 := netip.MustParseAddr("2001:db8:77::").As16()
	v6[15] = number
	return HostConfig{
		Name:  name,
		MAC:   net.HardwareAddr{2, 0, 0, 0, 0, number},
		Addrs: []netip.Prefix{netip.PrefixFrom(v4, 24), netip.PrefixFrom(netip.AddrFrom16(v6), 64)},
	}
}

func setUp(t *testing.T) *network {
	t.Helper()
	n, err := newNetwork()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.lan.Close()) })
	return n
}

func startBackend(t *testing.T, node *Host) *Process {
	t.Helper()
	p, err := Start(ProcessConfig{
		Name:    "backend on " + node.Name(),
		Command: BackendCommand(node.Name(), testPort),
		Space:   node.Space(),
		LogFile: filepath.Join(t.TempDir(), "log"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Kill()) })
	return p
}

// await fetches until it works or the test's patience ends.
func await(ctx context.Context, from *Host, addr netip.Addr) (Answer, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		answer, err := from.Fetch(attempt, netip.AddrPortFrom(addr, testPort), "/")
		cancel()
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
	}
}

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestNodeServesAddressesOfNoLink(t *testing.T) {
	n := setUp(t)
	startBackend(t, n.nodes[1])
	for _, vip := range testVIPs() {
		require.NoError(t, n.client.SetNeighbour(vip, n.nodes[1].MAC()))
		answer, err := await(patience(t), n.client, vip)
		require.NoError(t, err)
		assert.Equal(t, Answer{
			Node: "node-2", Status: "200 OK",
			Page: fmt.Sprintf("Hello from node-2, you asked %s.", vip),
		}, answer)

		got, ok, err := n.client.Neighbour(vip)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, Neighbour{MAC: n.nodes[1].MAC(), State: "PERMANENT"}, got)
	}
}

// The kernel of a node must stay silent, or every node would answer for every
// address and nobody could tell who announces it.
func TestKernelDoesNotAnswerForServedAddresses(t *testing.T) {
	n := setUp(t)
	startBackend(t, n.nodes[0])
	_, err := await(patience(t), n.client, netip.MustParseAddr("192.0.2.1"))
	require.NoError(t, err, "the node's own address answers")

	for _, vip := range testVIPs() {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := n.client.Fetch(ctx, netip.AddrPortFrom(vip, testPort), "/")
		cancel()
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout(), "%v", err)
		_, ok, err := n.client.Neighbour(vip)
		require.NoError(t, err)
		assert.False(t, ok, "nobody answered for %s", vip)
	}
}

func TestUnpluggedHostIsSilent(t *testing.T) {
	n := setUp(t)
	startBackend(t, n.nodes[0])
	addr := netip.MustParseAddr("192.0.2.1")
	_, err := await(patience(t), n.client, addr)
	require.NoError(t, err)

	require.NoError(t, n.nodes[0].Unplug())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = n.client.Fetch(ctx, netip.AddrPortFrom(addr, testPort), "/")
	require.Error(t, err)

	require.NoError(t, n.nodes[0].Plug())
	_, err = await(patience(t), n.client, addr)
	require.NoError(t, err)
}

func TestLANRefusesASecondHostOfTheSameName(t *testing.T) {
	n := setUp(t)
	_, err := n.lan.AddHost(hostConfig("client", 101))
	require.ErrorContains(t, err, "client")
	assert.Len(t, n.lan.Hosts(), 3)
}

func TestWatchSeesAFailover(t *testing.T) {
	n := setUp(t)
	first := startBackend(t, n.nodes[0])
	startBackend(t, n.nodes[1])
	vip := testVIPs()[0]
	require.NoError(t, n.client.SetNeighbour(vip, n.nodes[0].MAC()))
	_, err := await(patience(t), n.client, netip.MustParseAddr("192.0.2.2"))
	require.NoError(t, err)

	watch := n.client.NewWatch(WatchConfig{Target: netip.AddrPortFrom(vip, testPort)})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- watch.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()

	servedBy := func(node string) func(Sample) bool {
		return func(s Sample) bool { return s.Node == node }
	}
	_, err = watch.Await(patience(t), servedBy("node-1"))
	require.NoError(t, err)

	killed := time.Now()
	require.NoError(t, first.Kill())
	require.NoError(t, n.nodes[0].Unplug())
	_, err = watch.Await(patience(t), func(s Sample) bool { return s.Start.After(killed) && s.Node == "" })
	require.NoError(t, err, "requests get lost while nobody serves")

	require.NoError(t, n.client.SetNeighbour(vip, n.nodes[1].MAC()))
	back, err := watch.Await(patience(t), servedBy("node-2"))
	require.NoError(t, err)
	longest, lost := Outage(watch.Samples(), killed)
	assert.Positive(t, lost)
	assert.LessOrEqual(t, back.End.Sub(killed)-longest, 100*time.Millisecond,
		"the outage began with the last answer before the kill")
}

func TestOutage(t *testing.T) {
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := func(startMS, endMS int, node string) Sample {
		return Sample{
			Start: start.Add(time.Duration(startMS) * time.Millisecond),
			End:   start.Add(time.Duration(endMS) * time.Millisecond),
			Node:  node,
		}
	}
	tests := []struct {
		name    string
		samples []Sample
		since   int
		longest time.Duration
		lost    int
	}{
		{"nothing recorded", nil, 0, 0, 0},
		{"steady", []Sample{at(0, 1, "a"), at(10, 11, "a"), at(20, 21, "a")}, 5, 10 * time.Millisecond, 0},
		{
			"one gap",
			[]Sample{at(0, 1, "a"), at(10, 60, ""), at(20, 70, ""), at(80, 81, "b"), at(90, 91, "b")},
			5, 80 * time.Millisecond, 2,
		},
		{"a gap before is not counted", []Sample{at(0, 1, "a"), at(10, 60, ""), at(100, 101, "a"), at(110, 111, "b")}, 105, 10 * time.Millisecond, 0},
		{"failure that began before is not lost", []Sample{at(0, 100, ""), at(90, 101, "a")}, 50, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			longest, lost := Outage(tt.samples, start.Add(time.Duration(tt.since)*time.Millisecond))
			assert.Equal(t, tt.longest, longest)
			assert.Equal(t, tt.lost, lost)
		})
	}
}
