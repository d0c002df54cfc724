package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/internal/labnet"
	"github.com/heraldlb/herald/internal/labnet/labnettest"
)

// labRole makes the test binary the lab itself.
const labRole = "herald-lab-under-test"

// requireNetNS turns a machine that does not allow namespaces into a failure.
const requireNetNS = "HERALD_REQUIRE_NETNS"

// nobody is the user and group of the tests that must not be root.
const nobody = 65534

func TestMain(m *testing.M) {
	labnet.Dispatch(map[string]func() int{
		initRole: inside,
		labRole:  func() int { return outside(os.Args[1:], os.Stdout, os.Stderr) },
	})
	goleak.VerifyTestMain(m)
}

// bench is a directory that anybody can read, with the daemons and the test
// binary, which is the lab.
type bench struct {
	dir string
	lab string
	uid int
}

// newBench builds the daemons.
func newBench(t *testing.T) *bench {
	t.Helper()
	dir := publicDir(t, 0o755)
	build := exec.Command("go", "build", "-o", dir+"/", "./daemons/controller", "./daemons/speaker")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	b := &bench{dir: dir, lab: filepath.Join(dir, "lab"), uid: os.Geteuid()}
	self, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.lab, data, 0o755))
	return b
}

// publicDir is t.TempDir with a mode, also for other users.
func publicDir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, mode))
	return dir
}

// as returns the bench for another user.
func (b *bench) as(uid int) *bench {
	other := *b
	other.uid = uid
	return &other
}

// run is a lab that was started.
type run struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	lines  chan string // of standard error and, but for JSON, of standard output
	seen   strings.Builder
	trace  *labnettest.Trace
	tmp    string
}

// start starts a lab whose every file would show up in a directory of its own.
func (b *bench) start(t *testing.T, args ...string) *run {
	t.Helper()
	r := &run{lines: make(chan string, 10000), tmp: publicDir(t, 0o777), trace: labnettest.Begin(t)}
	r.cmd = exec.Command(b.lab, args...)
	r.cmd.Args[0] = labRole
	r.cmd.Dir = r.tmp
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp, "HOME="+r.tmp)
	if b.uid != os.Geteuid() {
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}}
	}
	stderr, err := r.cmd.StderrPipe()
	require.NoError(t, err)
	stdout, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	both := make(chan struct{}, 2)
	for _, stream := range []io.Reader{stderr, io.TeeReader(stdout, &r.stdout)} {
		go func() {
			for lines := bufio.NewScanner(stream); lines.Scan(); {
				r.lines <- lines.Text()
			}
			both <- struct{}{}
		}()
	}
	go func() {
		<-both
		<-both
		close(r.lines)
	}()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// await reads the output up to a line with a text in it.
func (r *run) await(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		select {
		case line, ok := <-r.lines:
			r.seen.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return line
			}
			require.True(t, ok, "the lab ended without %q:\n%s", text, r.seen.String())
		case <-deadline:
			require.FailNow(t, "too late", "no %q in:\n%s", text, r.seen.String())
		}
	}
}

// mark remembers what the lab holds right now.
func (r *run) mark(t *testing.T) {
	t.Helper()
	processes, namespaces := r.trace.Observe()
	require.Greater(t, processes, 2)
	require.Greater(t, namespaces, 2)
}

// finish reads the rest, returns the exit status (-1 after a signal) and
// requires that nothing is left: no process, namespace, mount or file.
func (r *run) finish(t *testing.T) int {
	t.Helper()
	deadline := time.AfterFunc(3*time.Minute, func() { _ = r.cmd.Process.Kill() })
	defer deadline.Stop()
	for line := range r.lines {
		r.seen.WriteString(line + "\n")
	}
	_ = r.cmd.Wait()
	r.trace.RequireGone(t)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), " herald-lab ", "mounts")
	files, err := os.ReadDir(r.tmp)
	require.NoError(t, err)
	assert.Empty(t, files, "files")
	return r.cmd.ProcessState.ExitCode()
}

// TestLab runs the real lab with the real daemons.
func TestLab(t *testing.T) {
	requireNamespaces(t)
	b := newBench(t)
	users := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, nobody)
	}
	for _, uid := range users {
		t.Run(fmt.Sprintf("uid=%d", uid), func(t *testing.T) {
			t.Run("story", func(t *testing.T) { testStory(t, b.as(uid)) })
			t.Run("killed", func(t *testing.T) { testKilled(t, b.as(uid)) })
		})
	}
	t.Run("leave", func(t *testing.T) { testFailovers(t, b, modeLeave, 2) })
	t.Run("link", func(t *testing.T) { testFailovers(t, b, modeLink, 2) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, b) })
	t.Run("keep", func(t *testing.T) { testKeep(t, b) })
	t.Run("daemon dies", func(t *testing.T) { testDeadDaemon(t, b) })
	t.Run("logs kept", func(t *testing.T) { testLogs(t, b) })
}

// requireNamespaces skips where the machine forbids namespaces.
func requireNamespaces(t *testing.T) {
	t.Helper()
	sandbox, err := labnet.StartSandbox(labnet.SandboxConfig{Role: labRole, Args: []string{"--help"}})
	if err == nil {
		_, err = sandbox.Wait()
	}
	switch {
	case err == nil:
	case os.Getenv(requireNetNS) != "":
		require.NoError(t, err)
	default:
		t.Skipf("%v\n%s=1 makes this a failure", err, requireNetNS)
	}
}

func testStory(t *testing.T, b *bench) {
	r := b.start(t)
	r.await(t, "THE CLIENT'S NEIGHBOUR CACHE")
	r.mark(t)
	require.Zero(t, r.finish(t), r.seen.String())
	text := r.seen.String()
	for _, want := range []string{
		"Service demo/api got 2001:db8:77::200:0 from pool lan-v6",
		"Service demo/shop got 192.0.2.200 from pool lan-v4",
		"Service demo/web got 192.0.2.201 from pool lan-v4",
		"http://[2001:db8:77::200:0]:80/ says: Hello from node-3, you asked 2001:db8:77::200:0.",
		"http://192.0.2.200:80/ says: Hello from node-2, you asked 192.0.2.200.",
		"KILLED node-1, which holds 192.0.2.201",
		"SERVED again by node-3, ",
		"it has its addresses back",
		"stopped: every daemon ended in order",
	} {
		assert.Contains(t, text, want)
	}
	rows := regexp.MustCompile(`(?m)^ +demo/web +192\.0\.2\.201 +(node-\d) \((node-\d)\) +(node-\d) +(node-\d) +(\S+) = (node-\d), [A-Z]+$`).FindAllStringSubmatch(text, -1)
	require.Len(t, rows, 3, text)
	assert.Equal(t, []string{"node-1", "node-3", "node-1", "node-1", "02:00:00:00:00:01", "node-1"}, rows[0][1:])
	assert.Equal(t, []string{"node-3", "node-2", "node-3", "node-3", "02:00:00:00:00:03", "node-3"}, rows[1][1:])
	assert.Equal(t, rows[0][1:], rows[2][1:])
}

func testKilled(t *testing.T, b *bench) {
	r := b.start(t)
	r.await(t, "started: the controller")
	r.mark(t)
	require.NoError(t, r.cmd.Process.Kill())
	assert.Equal(t, -1, r.finish(t))
}

func testFailovers(t *testing.T, b *bench, mode faultMode, rounds int) {
	r := b.start(t, "--failovers", strconv.Itoa(rounds), "--mode", string(mode), "--json", "--nodes", "3")
	r.await(t, "the client got a page through every address")
	r.mark(t)
	require.Zero(t, r.finish(t), r.seen.String())
	var got report
	require.NoError(t, json.Unmarshal(r.stdout.Bytes(), &struct {
		*report
		Gap    any `json:"gap_ms"`
		Outage any `json:"outage_ms"`
	}{report: &got}), r.stdout.String())
	assert.Equal(t, mode, got.Mode)
	assert.Equal(t, rounds, got.Rounds)
	require.Len(t, got.Gaps, rounds)
	require.Len(t, got.Outages, rounds)
	for i := range got.Gaps {
		assert.Positive(t, got.Gaps[i])
		assert.Positive(t, got.Outages[i])
	}
	if mode == modeLeave {
		// The node goes on serving until the client is told of another: a
		// speaker that leaves in order costs nobody an answer. Far below what a
		// suspicion of a dead node takes.
		assert.Less(t, got.Outages[0], 2000.0, r.seen.String())
	}
}

func testInterrupted(t *testing.T, b *bench) {
	r := b.start(t)
	r.await(t, "KILLED")
	r.mark(t)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGINT))
	assert.Equal(t, exitInterrupted, r.finish(t), r.seen.String())
	assert.Contains(t, r.seen.String(), "interrupted; everything is taken down")
}

func testKeep(t *testing.T, b *bench) {
	r := b.start(t, "--keep", "--failovers", "1", "--mode", "leave")
	line := r.await(t, "nsenter")
	r.mark(t)
	command := regexp.MustCompile(`^ +client +(nsenter .*-t (\d+))$`).FindStringSubmatch(line)
	require.NotNil(t, command, line)
	cmdline, err := os.ReadFile("/proc/" + command[2] + "/cmdline")
	require.NoError(t, err)
	assert.Contains(t, string(cmdline), "pause")
	r.await(t, "node-3")
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, r.finish(t), r.seen.String())
	assert.Contains(t, r.seen.String(), "stopped: every daemon ended in order")
}

func testDeadDaemon(t *testing.T, b *bench) {
	speaker := filepath.Join(b.dir, "broken-speaker")
	require.NoError(t, os.WriteFile(speaker, []byte("#!/bin/sh\necho no luck today >&2\nexit 3\n"), 0o755))
	r := b.start(t, "--speaker", speaker)
	r.await(t, "started: the controller")
	assert.Equal(t, exitFailed, r.finish(t))
	text := r.seen.String()
	assert.Regexp(t, `lab: speaker on node-\d ended, though nobody told it to: exit status 3`, text)
	assert.Contains(t, text, "no luck today")
	assert.Contains(t, text, "--- controller, last lines ---")
}

func testLogs(t *testing.T, b *bench) {
	dir := t.TempDir()
	r := b.start(t, "--dir", dir, "--failovers", "1", "--mode", "leave", "-v")
	r.await(t, "started: the controller")
	r.mark(t)
	require.Zero(t, r.finish(t), r.seen.String())
	for _, name := range []string{"controller-controller.log", "node-1-speaker.log", "node-3-speaker.log"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.NotEmpty(t, data, name)
	}
	assert.Contains(t, r.seen.String(), "speaker on node-1: ")
}
