package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leader is a process that asks for the lead.
type leader struct {
	stop  context.CancelFunc
	leads chan struct{} // closed when it leads
	ended chan error
}

// startLeader asks for the lead; while it leads, it adds itself to leading.
func startLeader(t *testing.T, f *Files, leading *atomic.Int32) leader {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := leader{stop, make(chan struct{}), make(chan error, 1)}
	go func() {
		l.ended <- f.Lead(ctx, func(ctx context.Context) error {
			assert.EqualValues(t, 1, leading.Add(1), "one at a time")
			defer leading.Add(-1)
			close(l.leads)
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
	})
	return l
}

func TestOneProcessLeadsOnADirectory(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	first, _ := newFiles(t, m, nil)
	second, log := newFiles(t, m, nil)
	var leading atomic.Int32

	a := startLeader(t, first, &leading)
	<-a.leads
	b := startLeader(t, second, &leading)
	eventually(t, "the second one waits", func() bool { return log.count("another process serves the directory") == 1 })
	assign(t, first, "default", "web", "192.0.2.7")
	a.stop()
	require.NoError(t, <-a.ended)
	<-b.leads
	assert.Equal(t, "192.0.2.7", address(service(t, second, "default", "web")), "who takes over knows what was given before")
	b.stop()
	require.NoError(t, <-b.ended)

	c := startLeader(t, first, &leading)
	<-c.leads
	d := startLeader(t, second, &leading)
	eventually(t, "the second one waits again", func() bool { return log.count("another process serves the directory") == 2 })
	d.stop()
	require.NoError(t, <-d.ended, "cancelled while it waits")
	c.stop()
	require.NoError(t, <-c.ended)
}

func TestLeadSurvivesTheStateDirectory(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	first, _ := newFiles(t, m, nil)
	var leading atomic.Int32
	a := startLeader(t, first, &leading)
	<-a.leads
	lock := filepath.Join(m.path, ".herald", leadName)
	require.NoError(t, os.RemoveAll(filepath.Dir(lock)))
	eventually(t, "the lead is taken anew", func() bool { _, err := os.Stat(lock); return err == nil })
	select {
	case err := <-a.ended:
		t.Fatalf("it leads on, but ended: %v", err)
	default:
	}
	a.stop()
	require.NoError(t, <-a.ended)
}

func TestLeadIsLostToWhoWasQuicker(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	first, _ := newFiles(t, m, nil)
	second, _ := newFiles(t, m, nil)
	var leading atomic.Int32
	a := startLeader(t, first, &leading)
	<-a.leads

	// Another process gets the lock of a state directory that was put in the place of the old one.
	other := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(other, 0o755))
	elsewhere, _ := newFiles(t, m, func(cfg *FilesConfig) { cfg.StateDir = other })
	held, err := elsewhere.tryLead()
	require.NoError(t, err)
	defer second.close(held)
	state := filepath.Join(m.path, ".herald")
	require.NoError(t, os.Rename(state, filepath.Join(t.TempDir(), "old")))
	require.NoError(t, os.Rename(other, state))
	require.ErrorIs(t, <-a.ended, ErrLeadLost)
	assert.Zero(t, leading.Load())
}

func TestLeadWithoutALock(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService, "file": "not a directory"})
	f, log := newFiles(t, m, func(cfg *FilesConfig) { cfg.StateDir = m.file("file") })
	failed := errors.New("led")
	require.ErrorIs(t, f.Lead(t.Context(), func(context.Context) error { return failed }), failed)
	assert.Equal(t, 1, log.count("cannot lock the state directory"))
}
