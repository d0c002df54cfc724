package membershiptest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/membership"
	"github.com/heraldlb/herald/membership/membershiptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ membership.Transport  = (*membershiptest.Host)(nil)
	_ membership.PacketConn = (*net.UDPConn)(nil)
)

func addrs() (a, b netip.AddrPort) {
	return netip.MustParseAddrPort("192.0.2.1:7946"), netip.MustParseAddrPort("192.0.2.2:7946")
}

// endpoint is a pair of sockets whose packets are read all the time.
type endpoint struct {
	membership.PacketConn
	streams net.Listener
	got     chan string // "source text" of every packet
	end     chan error  // why reading ended
}

func listen(t *testing.T, lan *membershiptest.Network, addr netip.AddrPort) endpoint {
	t.Helper()
	packets, streams, err := lan.Host(addr.Addr()).Listen(t.Context(), addr)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, packets.Close())
		assert.NoError(t, streams.Close())
	})
	e := endpoint{PacketConn: packets, streams: streams, got: make(chan string, 1), end: make(chan error, 1)}
	go func() {
		buf := make([]byte, 100)
		for {
			n, source, err := packets.ReadFromUDPAddrPort(buf)
			if err != nil {
				e.end <- err
				return
			}
			e.got <- source.String() + " " + string(buf[:n])
		}
	}()
	return e
}

// arrives sends from one endpoint to the other and says whether it came.
func arrives(t *testing.T, from, to endpoint) bool {
	t.Helper()
	sent := []byte("hello")
	_, err := from.WriteToUDPAddrPort(sent, netip.MustParseAddrPort(to.LocalAddr().String()))
	require.NoError(t, err, "a lost packet is no error")
	clear(sent) // the network has its own copy
	select {
	case got := <-to.got:
		return assert.Equal(t, from.LocalAddr().String()+" hello", got)
	case <-time.After(time.Second):
		return false
	}
}

func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := membershiptest.NewNetwork()
		addrA, addrB := addrs()
		a, b := listen(t, lan, addrA), listen(t, lan, addrB)
		assert.True(t, arrives(t, a, b))

		lan.Cut(addrA.Addr(), addrB.Addr())
		assert.False(t, arrives(t, a, b))
		assert.False(t, arrives(t, b, a))
		lan.Heal()
		assert.True(t, arrives(t, a, b))

		lan.Partition([]netip.Addr{addrA.Addr()}, []netip.Addr{addrB.Addr()})
		assert.False(t, arrives(t, a, b))
		lan.Partition([]netip.Addr{addrA.Addr(), addrB.Addr()})
		assert.True(t, arrives(t, a, b))
		lan.Partition()
		assert.False(t, arrives(t, a, b), "hosts in no group are alone")
		lan.Heal()

		lan.SetLoss(1)
		assert.False(t, arrives(t, a, b))
		lan.SetLoss(0)
		lan.SetDelay(100 * time.Millisecond)
		begin := time.Now()
		assert.True(t, arrives(t, a, b))
		assert.Equal(t, 100*time.Millisecond, time.Since(begin))
		assert.NotZero(t, lan.Packets())
	})
}

// TestSlowReader: a reader that never comes costs nobody anything.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := membershiptest.NewNetwork()
		addrA, addrB := addrs()
		a := listen(t, lan, addrA)
		deaf, streams, err := lan.Host(addrB.Addr()).Listen(t.Context(), addrB)
		require.NoError(t, err)
		for range 10_000 {
			_, err := a.WriteToUDPAddrPort([]byte("x"), addrB)
			require.NoError(t, err)
		}
		_, err = a.WriteToUDPAddrPort([]byte("x"), netip.MustParseAddrPort("192.0.2.99:1"))
		require.NoError(t, err, "nobody there")
		_, err = a.WriteToUDPAddrPort([]byte("x"), netip.MustParseAddrPort("192.0.2.2:1"))
		require.NoError(t, err, "no such port")
		require.NoError(t, deaf.Close())
		require.NoError(t, streams.Close())
	})
}

func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := membershiptest.NewNetwork()
		addrA, addrB := addrs()
		b := listen(t, lan, addrB)
		hostA := lan.Host(addrA.Addr())

		client, server := connect(t, hostA, b)
		assert.Equal(t, addrB.String(), client.RemoteAddr().String())
		assert.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
		assert.Equal(t, addrB.String(), server.LocalAddr().String())
		go func() {
			_, _ = client.Write([]byte("hello"))
			_ = client.Close()
		}()
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(got))
		require.NoError(t, server.Close())

		client, server = connect(t, hostA, b)
		lan.Cut(addrA.Addr(), addrB.Addr())
		_, err = server.Read(make([]byte, 1))
		require.Error(t, err, "a connection across a cut is reset")
		require.NoError(t, client.Close())

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		_, err = hostA.Dial(ctx, addrB)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(begin))
		lan.Heal()

		_, err = hostA.Dial(t.Context(), netip.AddrPortFrom(addrB.Addr(), 1))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

func connect(t *testing.T, from *membershiptest.Host, to endpoint) (client, server net.Conn) {
	t.Helper()
	client, err := from.Dial(t.Context(), netip.MustParseAddrPort(to.LocalAddr().String()))
	require.NoError(t, err)
	server, err = to.streams.Accept()
	require.NoError(t, err)
	return client, server
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := membershiptest.NewNetwork()
		addrA, addrB := addrs()
		host := lan.Host(addrA.Addr())
		listen(t, lan, addrA)
		_, _, err := host.Listen(t.Context(), addrA)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		_, _, err = host.Listen(t.Context(), addrB)
		require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
		free := listen(t, lan, netip.AddrPortFrom(addrA.Addr(), 0))
		assert.NotEqual(t, "192.0.2.1:0", free.LocalAddr().String())
		any4, streams, err := host.Listen(t.Context(), netip.MustParseAddrPort("0.0.0.0:80"))
		require.NoError(t, err)
		assert.Equal(t, "192.0.2.1:80", any4.LocalAddr().String())

		require.NoError(t, any4.Close())
		_, _, err = any4.ReadFromUDPAddrPort(nil)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = any4.WriteToUDPAddrPort(nil, addrA)
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, streams.Close())
		_, err = streams.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, _, err = host.Listen(t.Context(), netip.MustParseAddrPort("192.0.2.1:80"))
		require.NoError(t, err, "the port is free again")
	})
}

// TestKill: the dead say nothing, hear nothing, and may come back.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := membershiptest.NewNetwork()
		addrA, addrB := addrs()
		a, b := listen(t, lan, addrA), listen(t, lan, addrB)
		client, _ := connect(t, lan.Host(addrA.Addr()), b)
		lan.Host(addrB.Addr()).Kill()

		_, err := client.Write([]byte("x"))
		require.Error(t, err)
		require.ErrorIs(t, <-b.end, net.ErrClosed)
		_, err = a.WriteToUDPAddrPort([]byte("x"), addrB)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = lan.Host(addrA.Addr()).Dial(ctx, addrB)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody answers, not even with a refusal")

		again := listen(t, lan, addrB)
		assert.True(t, arrives(t, a, again))
		require.NoError(t, b.Close(), "closing the dead socket does not close the new one")
		assert.True(t, arrives(t, a, again))
	})
}

// TestUnplug: the host itself knows, the others do not.
func TestUnplug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := membershiptest.NewNetwork()
		addrA, addrB := addrs()
		a, b := listen(t, lan, addrA), listen(t, lan, addrB)
		client, _ := connect(t, lan.Host(addrA.Addr()), b)
		lan.Host(addrA.Addr()).Unplug()
		_, err := client.Read(make([]byte, 1))
		require.Error(t, err)
		_, err = a.WriteToUDPAddrPort([]byte("x"), addrB)
		require.ErrorIs(t, err, syscall.ENETUNREACH)
		_, err = lan.Host(addrA.Addr()).Dial(t.Context(), addrB)
		require.ErrorIs(t, err, syscall.ENETUNREACH)
		assert.False(t, arrives(t, b, a))
		lan.Host(addrA.Addr()).Plug()
		assert.True(t, arrives(t, a, b))
		assert.True(t, arrives(t, b, a))
	})
}

func ExampleNetwork() {
	lan := membershiptest.NewNetwork()
	a, b := netip.MustParseAddrPort("192.0.2.1:7946"), netip.MustParseAddrPort("192.0.2.2:7946")
	ctx, cancel := context.WithCancel(context.Background())
	var clusters []*membership.Cluster
	done := make(chan error, 2)
	for i, addr := range []netip.AddrPort{a, b} {
		c, err := membership.New(membership.Config{
			Name:      fmt.Sprintf("kw-%02d", i+1),
			Bind:      addr,
			Seeds:     membership.Addresses(a, b),
			Transport: lan.Host(addr.Addr()),
		})
		if err != nil {
			panic(err)
		}
		go func() { done <- c.Run(ctx) }()
		<-c.Ready()
		clusters = append(clusters, c)
	}
	for len(clusters[0].Members()) < 2 {
		<-clusters[0].Changed()
	}
	for _, m := range clusters[0].Members() {
		fmt.Println(m.Name, m.Addr)
	}
	cancel()
	fmt.Println(<-done, <-done)
	// Output:
	// kw-01 192.0.2.1
	// kw-02 192.0.2.2
	// <nil> <nil>
}
