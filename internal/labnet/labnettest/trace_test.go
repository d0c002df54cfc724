package labnettest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTraceOfARunningFamily(t *testing.T) {
	// The shell has a child that holds a descriptor of a namespace open.
	cmd := exec.Command("sh", "-c", "cat; true")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return TraceOf(cmd.Process.Pid).Processes() == 2 }, patience, patience/1000)

	trace := TraceOf(cmd.Process.Pid)
	assert.Zero(t, trace.Namespaces(), "it shares all of them with the observer")
	assert.Len(t, trace.Left(), 2)

	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	trace.RequireGone(t)
}

func TestLeftNamesWhoHoldsANamespace(t *testing.T) {
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	trace := Trace{namespaces: map[string]bool{own: true}}
	assert.Contains(t, strings.Join(trace.Left(), "\n"), own+" by process ")
}

func TestTraceOfNobody(t *testing.T) {
	trace := TraceOf(1 << 30)
	assert.Zero(t, trace.Processes())
	assert.Empty(t, trace.Left())
}
