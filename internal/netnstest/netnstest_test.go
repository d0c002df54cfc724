//go:build linux

package netnstest_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/internal/netnstest"
)

func TestMain(m *testing.M) {
	if os.Getenv("HERALD_NETNS_ISOLATE") != "" {
		netnstest.Isolate()
	}
	goleak.VerifyTestMain(m)
}

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

func TestHereIsTheProcess(t *testing.T) {
	if os.Getenv("HERALD_NETNS_ISOLATED") == "" {
		// The test binary of this package does not isolate itself: start it as one that did.
		outer, err := os.Readlink("/proc/self/ns/net")
		require.NoError(t, err)
		netnstest.New(t) // skips where it is not allowed
		cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "HERALD_NETNS_ISOLATE=1", "HERALD_NETNS_OUTER="+outer)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS")
		return
	}
	inner, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.NotEqual(t, os.Getenv("HERALD_NETNS_OUTER"), inner)

	here, other := netnstest.Here(t), netnstest.New(t)
	netnstest.Veth(t, here, "eth0", other, "eth0")
	here.AddAddr(t, "eth0", "192.0.2.1/24")
	other.AddAddr(t, "eth0", "192.0.2.2/24")
	var l net.Listener
	require.NoError(t, other.Do(func() (err error) {
		l, err = net.Listen("tcp", "192.0.2.2:0")
		return err
	}))
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String()) // on whatever thread
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
