package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHeldUntil(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "herald")
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	for i, hold := range []time.Duration{0, 0, time.Minute, 2 * time.Minute} {
		now = now.Add(time.Second)
		var want time.Time
		if hold > 0 {
			want = now.Add(hold)
		}
		assert.Equal(t, want, HeldUntil(dir, "kw/01", now, log), "start %d", i)
		assert.Equal(t, hold > 0, said.Len() > 0)
	}
	assert.Zero(t, HeldUntil(dir, "kw-02", now, log), "another node")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing but a file for each node")
	assert.Equal(t, "damping-kw%2F01.json", entries[0].Name())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "damping-kw-02.json"), []byte("{"), 0o600))
	said.Reset()
	assert.Zero(t, HeldUntil(dir, "kw-02", now, log))
	assert.Contains(t, said.String(), "damping-kw-02.json: election: no state of a damper")
	said.Reset()
	assert.Zero(t, HeldUntil(dir, "kw-02", now, log), "the first return after what was forgotten")
	assert.Empty(t, said.String(), "the file is whole again")

	for range 5 {
		assert.Zero(t, HeldUntil("", "kw-01", now, log), "off")
		assert.Zero(t, HeldUntil(filepath.Join(dir, "damping-kw-02.json"), "kw-01", now, log), "no directory")
	}
	assert.Contains(t, said.String(), "give --run-dir")
}
