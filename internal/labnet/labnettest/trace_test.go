package labnettest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTraceOfARunningFamily(t *testing.T) {
	trace := Begin(t)
	cmd := exec.Command("sh", "-c", "cat; true") // a shell with a child
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(trace.Left()) == 2 }, patience, patience/1000)
	assert.Contains(t, strings.Join(trace.Left(), "\n"), "(cat)")
	processes, namespaces := trace.Observe()
	assert.Equal(t, 2, processes)
	assert.Zero(t, namespaces, "they share all of them with the test")

	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	trace.RequireGone(t)
}

func TestTracesDoNotMeet(t *testing.T) {
	first := Begin(t)
	second := Begin(t)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(second.Left()) == 1 }, patience, patience/1000)
	assert.Empty(t, first.Left())
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func TestLeftKnowsMounts(t *testing.T) {
	// Any word of a line of the mount table will do.
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	word := strings.Fields(string(mounts))[4]
	trace := Begin(t)
	trace.namespaces[word] = true
	assert.Equal(t, []string{"mount of " + word}, trace.Left())
}

// recorder is a T that fails without ending the test.
type recorder struct {
	*testing.T
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) { r.failure = fmt.Sprintf(format, args...) }

func TestRequireGoneFails(t *testing.T) {
	trace := Begin(t)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(trace.Left()) == 1 }, patience, patience/1000)
	r := &recorder{T: t}
	trace.patience = 50 * time.Millisecond
	trace.RequireGone(r)
	assert.Contains(t, r.failure, fmt.Sprintf("process %d (cat)", cmd.Process.Pid))
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
