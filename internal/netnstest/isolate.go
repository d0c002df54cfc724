//go:build linux

package netnstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// isolatedEnv marks the process inside.
const isolatedEnv = "HERALD_NETNS_ISOLATED"

// Isolate has the tests of a package run in a network namespace of their own, for
// code whose sockets are opened by goroutines that a test cannot lock to a
// thread. It is the first call of TestMain: it starts the test binary again,
// inside, and ends with it; the inner process returns, with lo up. Where making a
// namespace is not allowed it returns as well, and [Here] skips.
func Isolate() {
	if os.Getenv(isolatedEnv) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "netnstest:", err)
			os.Exit(1)
		}
		return
	}
	// The child's death signal follows the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	err := cmd.Start()
	switch {
	case errors.Is(err, os.ErrPermission) && os.Getenv(RequireEnv) == "":
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "netnstest: start the tests in a network namespace:", err)
		os.Exit(1)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, "netnstest: the tests ended:", cmd.ProcessState)
	os.Exit(1)
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// Here returns the namespace of the test process, which [Isolate] has made. It
// skips the test where that was not possible.
func Here(tb testing.TB) *NS {
	tb.Helper()
	if os.Getenv(isolatedEnv) == "" {
		tb.Skip("making a network namespace is not allowed: run as root, or allow user namespaces")
	}
	// Not /proc/self: the first thread may be one that New or Do has thrown away.
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(tb, err)
	ns := &NS{fd: fd}
	ns.handle, err = netlink.NewHandleAt(netns.NsHandle(fd))
	check(tb, err)
	tb.Cleanup(func() {
		ns.handle.Close()
		if err := unix.Close(fd); err != nil {
			tb.Errorf("netnstest: close namespace: %v", err)
		}
	})
	return ns
}
