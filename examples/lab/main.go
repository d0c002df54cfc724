package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/heraldlb/herald/internal/labnet"
)

// initRole is the argument zero of the lab's second self, process 1 of the
// sandbox.
const initRole = "herald-lab"

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	labnet.Dispatch(map[string]func() int{initRole: inside})
	os.Exit(outside(os.Args[1:], os.Stdout, os.Stderr))
}

// outside checks what can be checked, starts the lab inside a sandbox, and
// waits for its end.
func outside(args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return usage(err, stderr)
	}
	if err := opts.checkDaemons(); err != nil {
		fmt.Fprintln(stderr, "lab:", err)
		return exitFailed
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	sandbox, err := labnet.StartSandbox(labnet.SandboxConfig{
		Role: initRole, Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
		UserNamespace: opts.userNamespace,
	})
	if err != nil {
		fmt.Fprintln(stderr, "lab:", err)
		return exitFailed
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for sig := syscall.SIGTERM; ; sig = syscall.SIGKILL { // who asks twice is in a hurry
			select {
			case <-signals:
				_ = sandbox.Signal(sig)
			case <-ended:
				return
			}
		}
	}()
	code, err := sandbox.Wait()
	if err != nil {
		fmt.Fprintln(stderr, "lab:", err)
	}
	return code
}

// inside is the lab in its sandbox.
func inside() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	opts, err := parseOptions(os.Args[1:], os.Stderr)
	if err != nil {
		return usage(err, os.Stderr)
	}
	inner, err := labnet.InitSandbox(opts.visible()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return exitFailed
	}
	out := newConsole(os.Stdout)
	if opts.json {
		out = newConsole(os.Stderr)
	}
	if err := runLab(ctx, opts, inner, out); err != nil {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			fmt.Fprintln(os.Stderr, "\nlab:", err)
			return exitFailed
		}
		out.step("interrupted; everything is taken down")
		return exitInterrupted
	}
	return exitOK
}

// runLab brings the network up, does what the options ask for, and takes it
// down again in order.
func runLab(ctx context.Context, opts *options, inner *labnet.Inner, out *console) error {
	c, err := newCluster(opts, inner.Scratch)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &story{cluster: c, out: out, opts: opts}
	err = s.run(running, cancel, inner)
	if cause := context.Cause(running); err != nil && errors.Is(cause, errDied) {
		err = cause // it explains more than what was waiting for the dead
	}
	if err != nil && ctx.Err() == nil {
		c.printLogs(os.Stderr)
	}
	stopErr := c.stop(ctx)
	if err == nil {
		err = stopErr
	}
	if err == nil {
		out.step("stopped: every daemon ended in order, nothing is left of the network")
	}
	return err
}

// run is the whole story.
func (s *story) run(ctx context.Context, onDeath context.CancelCauseFunc, inner *labnet.Inner) error {
	if err := s.begin(ctx, onDeath); err != nil {
		return err
	}
	act := s.tell
	if s.opts.failovers > 0 {
		act = s.measure
	}
	if err := act(ctx); err != nil {
		return err
	}
	if s.opts.keep {
		return s.keep(ctx, inner)
	}
	return nil
}
