//go:build linux

package netnstest_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/internal/netnstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamespacesTalkOverVeth(t *testing.T) {
	a, b := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, a, "eth0", b, "eth1")
	a.AddAddr(t, "eth0", "192.0.2.1/24")
	b.AddAddr(t, "eth1", "192.0.2.2/24")

	var l net.Listener
	require.NoError(t, a.Do(func() (err error) {
		l, err = net.Listen("tcp", "192.0.2.1:0")
		return err
	}))
	defer l.Close()
	require.NoError(t, b.Do(func() error {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		return c.Close()
	}))
	n, ok := b.Neighbour(t, "eth1", netip.MustParseAddr("192.0.2.1"))
	require.True(t, ok)
	require.Equal(t, a.MAC(t, "eth0"), n.HardwareAddr)
}

func TestBridgeForwards(t *testing.T) {
	lan, a, b := netnstest.New(t), netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, lan, "p1", a, "eth0")
	netnstest.Veth(t, lan, "p2", b, "eth0")
	lan.AddBridge(t, "br0", "p1", "p2")
	a.AddAddr(t, "eth0", "2001:db8::1/64")
	b.AddAddr(t, "eth0", "2001:db8::2/64")

	var l net.Listener
	require.NoError(t, a.Do(func() (err error) {
		l, err = net.Listen("tcp", "[2001:db8::1]:0")
		return err
	}))
	defer l.Close()
	require.NoError(t, b.Do(func() error {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		return c.Close()
	}))
}

func TestDoLeavesCallerWhereItWas(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	ns := netnstest.New(t)
	var there string
	require.NoError(t, ns.Do(func() (err error) {
		there, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	}))
	require.NotEqual(t, here, there)
	after, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	require.Equal(t, here, after)
}

func TestDoReturnsError(t *testing.T) {
	ns := netnstest.New(t)
	want := errors.New("no")
	require.ErrorIs(t, ns.Do(func() error { return want }), want)
	require.Error(t, ns.Do(func() error { runtime.Goexit(); return nil }))
}
