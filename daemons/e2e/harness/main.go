package harness

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/heraldlb/herald/internal/labnet"
)

// insideRole is the argument zero of the process in the sandbox that runs the tests.
const insideRole = "herald-e2e"

// scratchSize bounds the memory that files of the tests may take; one control
// plane writes some tens of megabytes.
const scratchSize = "1g"

// Main runs the tests of a package in a sandbox and exits with their result. It
// is to be called by TestMain, which must do nothing before.
func Main(m *testing.M) {
	labnet.Dispatch(map[string]func() int{insideRole: func() int { return inside(m) }})
	os.Exit(outside())
}

// outside builds what the tests run, which needs the build cache and perhaps the
// network, and waits for the sandbox.
func outside() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	sandbox, err := labnet.StartSandbox(labnet.SandboxConfig{
		Role: insideRole, Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	unhook := context.AfterFunc(ctx, func() { _ = sandbox.Signal(syscall.SIGKILL) })
	defer unhook()
	code, err := sandbox.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	return code
}

// inside is process 1 of the sandbox.
func inside(m *testing.M) int {
	here, err := os.Getwd()
	if err == nil {
		err = enter(here)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	return m.Run()
}

// enter prepares the sandbox and points temporary files at its memory.
func enter(here string) error {
	inner, err := labnet.InitSandbox(here)
	if err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bring the loopback of the sandbox up: %w", err)
	}
	temp := filepath.Join(inner.Scratch, "e2e")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("herald-e2e", temp, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size="+scratchSize); err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", temp, err)
	}
	return os.Setenv("TMPDIR", temp)
}
