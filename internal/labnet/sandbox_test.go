package labnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/internal/labnet/labnettest"
)

// nestedMain is process 1 of a sandbox that a test starts. Its argument says
// what it does.
func nestedMain() int {
	err := func() error {
		inner, err := InitSandbox()
		if err != nil {
			return err
		}
		switch os.Args[1] {
		case "exit":
			code, err := strconv.Atoi(os.Args[2])
			if err != nil {
				return err
			}
			os.Exit(code)
		case "wait":
			return serveUntilTold(inner)
		case "serve":
			return serveOnce(inner.Scratch)
		}
		return fmt.Errorf("unknown argument %q", os.Args[1])
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveOnce builds a network and fetches a page in both families.
func serveOnce(scratch string) (err error) {
	n, err := newNetwork()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.lan.Close()) }()
	node := n.nodes[0]
	if _, err := Start(ProcessConfig{
		Name: "backend", Command: BackendCommand(node.Name(), testPort),
		Space: node.Space(), LogFile: filepath.Join(scratch, "log"),
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, vip := range testVIPs() {
		if err := n.client.SetNeighbour(vip, node.MAC()); err != nil {
			return err
		}
		answer, err := await(ctx, n.client, vip)
		if err != nil {
			return err
		}
		fmt.Println(answer.Page)
	}
	return nil
}

// serveUntilTold holds a network with a process in it, says so, and waits for
// SIGTERM.
func serveUntilTold(inner *Inner) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	n, err := newNetwork()
	if err != nil {
		return err
	}
	pause, err := Start(ProcessConfig{
		Name: "pause", Command: PauseCommand(),
		Space: n.client.Space(), LogFile: filepath.Join(inner.Scratch, "log"),
	})
	if err != nil {
		return err
	}
	enter, err := inner.EnterCommand(pause.PID())
	if err != nil {
		return err
	}
	fmt.Println("ready " + enter)
	<-stop
	return nil
}

// parentMain is a program that starts a sandbox and waits for its end.
func parentMain() int {
	sandbox, err := StartSandbox(SandboxConfig{
		Role: "labnet-test-init", Args: []string{"wait"}, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code, _ := sandbox.Wait()
	return code
}

func TestSandboxOfAnOrdinaryUser(t *testing.T) {
	var out strings.Builder
	sandbox, err := StartSandbox(SandboxConfig{
		Role: "labnet-test-init", Args: []string{"serve"},
		Stdout: &out, Stderr: &out, UserNamespace: true,
	})
	require.NoError(t, err)
	code, err := sandbox.Wait()
	require.NoError(t, err)
	assert.Zero(t, code, out.String())
	assert.Equal(t, "Hello from node-1, you asked 192.0.2.200.\nHello from node-1, you asked 2001:db8:77::c8.\n", out.String())
}

func TestSandboxExitStatus(t *testing.T) {
	for _, want := range []int{0, 7} {
		sandbox, err := StartSandbox(SandboxConfig{
			Role: "labnet-test-init", Args: []string{"exit", strconv.Itoa(want)}, Stderr: os.Stderr,
		})
		require.NoError(t, err)
		code, err := sandbox.Wait()
		require.NoError(t, err)
		assert.Equal(t, want, code)
		require.NoError(t, sandbox.Signal(syscall.SIGTERM), "a signal after the end is no error")
	}
}

func TestSandboxEnds(t *testing.T) {
	tests := []struct {
		name string
		user bool
		end  func(s *Sandbox) error
		code int
		err  string
	}{
		{"when told", false, func(s *Sandbox) error { return s.Signal(syscall.SIGTERM) }, 0, ""},
		{"when killed", true, func(s *Sandbox) error { return s.Signal(syscall.SIGKILL) }, 1, "signal: killed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trace := labnettest.Begin(t)
			r, w := io.Pipe()
			sandbox, err := StartSandbox(SandboxConfig{
				Role: "labnet-test-init", Args: []string{"wait"}, Stdout: w, Stderr: os.Stderr,
				UserNamespace: tt.user,
			})
			require.NoError(t, err)
			line, err := bufio.NewReader(r).ReadString('\n')
			require.NoError(t, err)
			processes, namespaces := trace.Observe()
			require.GreaterOrEqual(t, processes, 2, "process 1 and the pause process")
			require.GreaterOrEqual(t, namespaces, 5, "four of the network, and its own")
			requirePausePID(t, line)
			assert.Equal(t, tt.user, strings.Contains(line, " -U "), line)

			require.NoError(t, tt.end(sandbox))
			code, err := sandbox.Wait()
			assert.Equal(t, tt.code, code)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			trace.RequireGone(t)
		})
	}
}

// The promise that matters most: not even SIGKILL of the program outside,
// which can clean nothing up, leaves a process or a namespace.
func TestKilledProgramLeavesNothing(t *testing.T) {
	trace := labnettest.Begin(t)
	cmd := SelfCommand("labnet-test-parent")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	requirePausePID(t, line)
	processes, _ := trace.Observe()
	require.GreaterOrEqual(t, processes, 3, "the program, process 1 and the pause process")

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	trace.RequireGone(t)
}

// requirePausePID reads the line of serveUntilTold: it must give the number by
// which the pause process is known here.
func requirePausePID(t *testing.T, line string) {
	t.Helper()
	_, pid, ok := strings.Cut(strings.TrimSpace(line), "-n -m -t ")
	require.True(t, ok, line)
	require.True(t, strings.HasPrefix(line, "ready nsenter "), line)
	cmdline, err := os.ReadFile("/proc/" + pid + "/cmdline")
	require.NoError(t, err)
	assert.Equal(t, pauseRole, strings.TrimRight(string(cmdline), "\x00"))
}

func TestLastNumber(t *testing.T) {
	assert.Equal(t, 5, lastNumber("Name:\tx\nNSpid:\t4711\t23\t5\nNSpgid:\t1\n", "NSpid:"))
	assert.Equal(t, 4711, lastNumber("PPid:\t4711\n", "PPid:"))
	assert.Zero(t, lastNumber("Name:\tx\n", "NSpid:"))
	assert.Zero(t, lastNumber("NSpid:\n", "NSpid:"))
}

func TestScratchPoint(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o700))
	}
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	candidates := []string{filepath.Join(root, "missing"), a, b}

	got, err := scratchPoint(candidates, nil)
	require.NoError(t, err)
	assert.Equal(t, a, got)
	got, err = scratchPoint(candidates, []string{a + "/bin/lab"})
	require.NoError(t, err)
	assert.Equal(t, b, got)
	got, err = scratchPoint(candidates, []string{a + "bc"})
	require.NoError(t, err)
	assert.Equal(t, a, got)
	_, err = scratchPoint(candidates, []string{a, b})
	require.ErrorContains(t, err, b)
}
