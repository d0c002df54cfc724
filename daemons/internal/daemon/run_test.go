package daemon

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunDrainsWhileEverythingRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen context.Context
	started := make(chan struct{})
	ended := false
	err := Run(ctx, func(running context.Context) {
		require.NoError(t, running.Err())
		assert.False(t, ended)
	}, func(running context.Context) error {
		seen = running
		close(started)
		<-running.Done()
		ended = true
		return nil
	}, func(context.Context) error {
		<-started
		cancel()
		return nil
	})
	require.NoError(t, err)
	assert.True(t, ended)
	require.ErrorIs(t, seen.Err(), context.Canceled)
}

func TestRunEndsWithWhatFails(t *testing.T) {
	broken := errors.New("broken")
	err := Run(t.Context(), func(context.Context) { t.Error("nobody asked to leave") },
		func(running context.Context) error { <-running.Done(); return nil },
		func(context.Context) error { return broken })
	require.ErrorIs(t, err, broken)
}

func TestBGPFlags(t *testing.T) {
	engine := func(env string, args ...string) (*BGPEngine, error) {
		t.Setenv("METALLB_BGP_TYPE", env)
		var f BGPFlags
		fs := flag.NewFlagSet("speaker", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		f.Register(fs)
		require.NoError(t, fs.Parse(args))
		return f.Engine(slog.New(slog.DiscardHandler))
	}
	for _, good := range []string{"", "gobgp", "native"} {
		e, err := engine(good)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, e.Run(ctx))
	}
	for _, bad := range []string{"frr", "frr-k8s", "bird"} {
		_, err := engine(bad)
		require.ErrorContains(t, err, bad)
		require.ErrorContains(t, err, "METALLB_BGP_TYPE")
	}
	_, err := engine("frr", "--bgp-type", "native", "--bgp-keep-on-stop")
	require.NoError(t, err, "the flag counts before the environment")
}
