package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// process is a child with its output in a file. Nothing need outlive the test
// binary: the sandbox takes care of that.
type process struct {
	name    string
	cmd     *exec.Cmd
	logPath string
	exited  chan struct{}
	err     error // how it ended; set before exited is closed
}

// startProcess starts cmd by start, which is cmd.Start for the namespace of the
// tests. Output goes behind what the file holds.
func startProcess(name string, cmd *exec.Cmd, start func(*exec.Cmd) error, logPath string) (*process, error) {
	file, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child has its own descriptor
	cmd.Stdout, cmd.Stderr = file, file
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, logPath: logPath, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// stop asks with SIGTERM and waits; the error tells of an exit status other
// than 0. When ctx ends first the process is killed.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not end after SIGTERM: %w", p.name, ctx.Err()), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w; its last lines:\n%s", p.name, p.err, p.tail(20))
	}
	return nil
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// running returns an error when the process has ended by itself.
func (p *process) running() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended: %v; its last lines:\n%s", p.name, p.cmd.ProcessState, p.tail(20))
	default:
		return nil
	}
}

// log returns all that the process wrote.
func (p *process) log() string {
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// tail returns the last lines of the log.
func (p *process) tail(n int) string {
	lines := strings.Split(strings.TrimRight(p.log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
