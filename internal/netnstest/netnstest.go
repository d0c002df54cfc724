//go:build linux

// Package netnstest gives tests throw-away network namespaces, with a real
// kernel in each. A namespace exists as long as its descriptor, so it is gone
// when the test is over, however the test ends. No name, file or process is left.
//
//	lan := netnstest.New(t)
//	node := netnstest.New(t)
//	netnstest.Veth(t, lan, "port1", node, "eth0")
//	node.AddAddr(t, "eth0", "192.0.2.1/24")
//	err := node.Do(func() error { return announcer.Run(ctx) })
//
// It needs CAP_SYS_ADMIN and CAP_NET_ADMIN, in a user namespace at least
// ("unshare -Ur go test"). Without them tests are skipped, unless the environment
// variable HERALD_REQUIRE_NETNS is set: then they fail.
package netnstest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// RequireEnv is the environment variable that turns skips into failures.
const RequireEnv = "HERALD_REQUIRE_NETNS"

// An NS is a network namespace. Its methods may be used concurrently.
type NS struct {
	fd     int
	handle *netlink.Handle
}

// New makes a namespace with lo up and, so that tests need not wait for it,
// without duplicate address detection on the links that are added.
func New(tb testing.TB) *NS {
	tb.Helper()
	ns := &NS{fd: -1}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		ns.fd = fd
		return err
	})
	if errors.Is(err, os.ErrPermission) && os.Getenv(RequireEnv) == "" {
		tb.Skipf("%v: run as root or under \"unshare -Ur\"; set %s=1 to make this a failure", err, RequireEnv)
	}
	check(tb, err)
	ns.handle, err = netlink.NewHandleAt(netns.NsHandle(ns.fd))
	tb.Cleanup(func() {
		if ns.handle != nil {
			ns.handle.Close()
		}
		if err := unix.Close(ns.fd); err != nil {
			tb.Errorf("netnstest: close namespace: %v", err)
		}
	})
	check(tb, err)
	ns.Sysctl(tb, "net/ipv6/conf/default/accept_dad", "0")
	ns.SetUp(tb, "lo", true)
	return ns
}

// onThread runs f on a thread of its own that is thrown away afterwards,
// whatever f did to it.
func onThread(f func() error) error {
	err := errors.New("netnstest: function ended its goroutine")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err = f()
	}()
	<-done
	return err
}

// Do runs f in the namespace and returns its error. What f opens stays in the
// namespace; goroutines that f starts do not run in it. Calls may overlap and
// nest. f must not call FailNow: return an error instead.
func (ns *NS) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("netnstest: enter namespace: %w", err)
		}
		return f()
	})
}

// Netlink returns a handle for everything that has no helper here.
func (ns *NS) Netlink() *netlink.Handle { return ns.handle }

// Sysctl sets a value below /proc/sys, such as net/ipv4/ip_forward.
func (ns *NS) Sysctl(tb testing.TB, path, value string) {
	tb.Helper()
	check(tb, ns.Do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0)
	}))
}

// Veth makes a pair of links, one end in each namespace, both up.
func Veth(tb testing.TB, a *NS, nameA string, b *NS, nameB string) {
	tb.Helper()
	check(tb, a.handle.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: nameA},
		PeerName:      nameB,
		PeerNamespace: netlink.NsFd(b.fd),
	}))
	a.SetUp(tb, nameA, true)
	b.SetUp(tb, nameB, true)
}

// AddBridge makes a bridge with the given ports, up.
func (ns *NS) AddBridge(tb testing.TB, name string, ports ...string) {
	tb.Helper()
	check(tb, ns.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}))
	bridge := ns.Link(tb, name)
	for _, p := range ports {
		check(tb, ns.handle.LinkSetMaster(ns.Link(tb, p), bridge))
	}
	ns.SetUp(tb, name, true)
}

// Link returns a link by name.
func (ns *NS) Link(tb testing.TB, name string) netlink.Link {
	tb.Helper()
	l, err := ns.handle.LinkByName(name)
	check(tb, err)
	return l
}

// MAC returns the hardware address of a link.
func (ns *NS) MAC(tb testing.TB, name string) net.HardwareAddr {
	tb.Helper()
	return ns.Link(tb, name).Attrs().HardwareAddr
}

// SetUp sets a link up or down.
func (ns *NS) SetUp(tb testing.TB, name string, up bool) {
	tb.Helper()
	set := ns.handle.LinkSetDown
	if up {
		set = ns.handle.LinkSetUp
	}
	check(tb, set(ns.Link(tb, name)))
}

// AddAddr gives a link an address in CIDR notation, usable at once.
func (ns *NS) AddAddr(tb testing.TB, name, cidr string) {
	tb.Helper()
	addr, err := netlink.ParseAddr(cidr)
	check(tb, err)
	if addr.IP.To4() == nil {
		addr.Flags |= unix.IFA_F_NODAD
	}
	check(tb, ns.handle.AddrAdd(ns.Link(tb, name), addr))
}

// Neighbour returns the entry of the kernel's neighbour cache for addr on a link.
func (ns *NS) Neighbour(tb testing.TB, name string, addr netip.Addr) (entry netlink.Neigh, ok bool) {
	tb.Helper()
	family := unix.AF_INET6
	if addr.Is4() {
		family = unix.AF_INET
	}
	entries, err := ns.handle.NeighList(ns.Link(tb, name).Attrs().Index, family)
	check(tb, err)
	for _, e := range entries {
		if ip, _ := netip.AddrFromSlice(e.IP); ip.Unmap() == addr {
			return e, true
		}
	}
	return netlink.Neigh{}, false
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("netnstest: %v", err)
	}
}
