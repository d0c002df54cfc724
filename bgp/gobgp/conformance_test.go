package gobgp

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/bgptest"
)

func TestConformance(t *testing.T) {
	bgptest.Run(t, bgptest.Harness{New: func(t *testing.T) bgp.Engine { return newEngine(t, Config{}) }})
}

func newEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	e, err := New(cfg)
	require.NoError(t, err)
	return e
}
