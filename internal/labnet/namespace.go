package labnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// threadNetNS is the network namespace of the calling thread. It names the
// thread and not a number, so it is right whatever /proc is mounted.
const threadNetNS = "/proc/thread-self/ns/net"

// Namespace is a network namespace without a name, kept by an open descriptor.
// It lives until Close and until the last process in it has ended. Its methods
// may be called from any goroutine.
type Namespace struct {
	file *os.File
}

// NewNamespace makes an empty network namespace with nothing but a loopback
// link, which is down.
func NewNamespace() (*Namespace, error) {
	n := &Namespace{}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("labnet: new network namespace: %w", err)
		}
		var err error
		n.file, err = os.Open(threadNetNS)
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Close lets go of the namespace.
func (n *Namespace) Close() error { return n.file.Close() }

// Do runs fn on a thread that is inside the namespace: sockets that fn opens
// and processes that it starts belong to it. Goroutines that fn starts do not.
func (n *Namespace) Do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("labnet: enter network namespace: %w", err)
		}
		return fn()
	})
}

// onThread runs fn on a thread of its own and moves the thread back to the
// network namespace that it came from. A thread that cannot be moved back is
// given up: it ends with its goroutine.
func onThread(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(threadNetNS)
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("labnet: %w", err)
			return
		}
		err = fn()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		home.Close()
		result <- err
	}()
	return <-result
}

// DialContext connects from inside the namespace. The address must be a
// literal one: names are not looked up.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Start starts a command inside the namespace.
func (n *Namespace) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }
