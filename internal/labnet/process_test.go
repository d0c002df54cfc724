package labnet

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newSpace(t *testing.T) *Namespace {
	t.Helper()
	space, err := NewNamespace()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, space.Close()) })
	return space
}

func TestProcessRunsInItsNamespace(t *testing.T) {
	space := newSpace(t)
	log := filepath.Join(t.TempDir(), "log")
	var echo strings.Builder
	p, err := Start(ProcessConfig{
		Name:    "reader",
		Command: exec.Command("readlink", "/proc/self/ns/net"),
		Space:   space,
		LogFile: log,
		Echo:    &echo,
	})
	require.NoError(t, err)
	<-p.Exited()
	require.NoError(t, p.Err())

	var want string
	require.NoError(t, space.Do(func() error {
		var err error
		want, err = os.Readlink(threadNetNS)
		return err
	}))
	outside, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	assert.Equal(t, want, p.LogTail(5))
	assert.NotEqual(t, outside, want)
	assert.Equal(t, "reader: "+want+"\n", echo.String())
}

func TestProcessStop(t *testing.T) {
	tests := []struct {
		name    string
		script  string
		wantErr string
	}{
		{"in order", `trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done`, ""},
		{"with a status", `trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`, "exit status 3"},
		{"deaf", `trap '' TERM; echo ready; while :; do sleep 0.01; done`, "did not end after SIGTERM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Start(ProcessConfig{
				Name:    "script",
				Command: exec.Command("sh", "-c", tt.script),
				Space:   newSpace(t),
				LogFile: filepath.Join(t.TempDir(), "log"),
			})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, p.Kill()) })
			require.Eventually(t, func() bool { return p.LogTail(1) == "ready" }, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, p.Err(), "it runs")

			patience := 20 * time.Second
			if tt.name == "deaf" {
				patience = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = p.Stop(ctx)
			if tt.wantErr == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.wantErr)
			}
			<-p.Exited()
		})
	}
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	_, err := Start(ProcessConfig{
		Name:    "speaker on node-1",
		Command: exec.Command("/nonexistent/speaker"),
		Space:   newSpace(t),
		LogFile: filepath.Join(t.TempDir(), "log"),
	})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "speaker on node-1")
}

func TestLogTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, []byte("one\ntwo\nthree\n"), 0o600))
	p := &Process{logFile: log}
	assert.Equal(t, "two\nthree", p.LogTail(2))
	assert.Equal(t, "one\ntwo\nthree", p.LogTail(9))
}
