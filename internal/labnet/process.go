package labnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// ProcessConfig describes a process of a host.
type ProcessConfig struct {
	// Name is for messages, such as "speaker on node-1".
	Name string
	// Command is what to run; Start uses it up.
	Command *exec.Cmd
	// Space is the namespace to run it in. Required.
	Space *Namespace
	// LogFile gets what the process writes, after what is in it already.
	LogFile string
	// Echo, if not nil, gets it too, line by line behind the name.
	Echo io.Writer
}

// Process is a started process. Its methods are safe for concurrent use.
type Process struct {
	name    string
	cmd     *exec.Cmd
	logFile string
	exited  chan struct{}
	err     error // set before exited is closed
}

// Start starts a process on a host. It has a process group of its own, so that
// a Ctrl-C at the terminal reaches the lab and not the process.
func Start(cfg ProcessConfig) (*Process, error) {
	file, err := os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("labnet: log of %s: %w", cfg.Name, err)
	}
	out := io.Writer(file)
	if cfg.Echo != nil {
		out = io.MultiWriter(file, &prefixWriter{prefix: cfg.Name + ": ", w: cfg.Echo})
	}
	cfg.Command.Stdout, cfg.Command.Stderr = out, out
	if cfg.Command.SysProcAttr == nil {
		cfg.Command.SysProcAttr = &syscall.SysProcAttr{}
	}
	cfg.Command.SysProcAttr.Setpgid = true
	if err := cfg.Space.Start(cfg.Command); err != nil {
		file.Close()
		return nil, fmt.Errorf("labnet: start %s: %w", cfg.Name, err)
	}
	p := &Process{name: cfg.Name, cmd: cfg.Command, logFile: cfg.LogFile, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		defer file.Close()
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Name returns the name for messages.
func (p *Process) Name() string { return p.name }

// PID returns the process number inside the sandbox.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogFile returns the path of the file with its output.
func (p *Process) LogFile() string { return p.logFile }

// Exited is closed when the process has ended and is reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process at once with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Stop asks the process with SIGTERM to end, waits for that, and returns what
// it exited with. When ctx is done first it kills the process and says so.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("labnet: %s did not end after SIGTERM: %w", p.name, ctx.Err()), p.Kill())
	}
	if p.err != nil {
		return fmt.Errorf("labnet: %s: %w", p.name, p.err)
	}
	return nil
}

func (p *Process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("labnet: %s: %w", p.name, err)
	}
	return nil
}

// Err returns how the process ended; nil while it runs and after exit status 0.
func (p *Process) Err() error {
	select {
	case <-p.exited:
		return p.err
	default:
		return nil
	}
}

// LogTail returns the last lines of what the process wrote, at most n.
func (p *Process) LogTail(n int) string {
	data, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// prefixWriter writes whole lines, each behind a prefix.
type prefixWriter struct {
	prefix string
	w      io.Writer

	mu   sync.Mutex
	rest []byte
}

func (p *prefixWriter) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, data...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			return len(data), nil
		}
		if _, err := fmt.Fprintf(p.w, "%s%s\n", p.prefix, line); err != nil {
			return 0, err
		}
		p.rest = bytes.Clone(rest)
	}
}
