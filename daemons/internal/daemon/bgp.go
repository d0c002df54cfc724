package daemon

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/gobgp"
)

// DefaultBGPType is the engine that runs in this process.
const DefaultBGPType = "gobgp"

// BGPFlags are the flags that concern BGP.
type BGPFlags struct {
	Type string
	Keep bool
}

// Register adds the flags to fs.
func (f *BGPFlags) Register(fs *flag.FlagSet) {
	fs.StringVar(&f.Type, "bgp-type", cmp.Or(os.Getenv("METALLB_BGP_TYPE"), DefaultBGPType), "`ENGINE` of BGP: gobgp, in this process; native is the same (env METALLB_BGP_TYPE)")
	fs.BoolVar(&f.Keep, "bgp-keep-on-stop", false, "leave the BGP sessions with graceful restart to the end of the process, so that the routers keep the routes while it is replaced (default: withdraw)")
}

// BGPEngine is an engine, and what runs it.
type BGPEngine struct {
	*gobgp.Engine
	log *slog.Logger
}

// Engine returns the engine that the flags ask for. It does nothing before Run.
func (f *BGPFlags) Engine(log *slog.Logger) (*BGPEngine, error) {
	switch f.Type {
	case DefaultBGPType, "native":
	case "frr", "frr-k8s":
		return nil, fmt.Errorf("--bgp-type %s (METALLB_BGP_TYPE): Herald does not drive FRR yet; use %s, which has what FRR mode has but for BFD echo and extras, and remove the FRR containers", f.Type, DefaultBGPType)
	default:
		return nil, fmt.Errorf("--bgp-type %q (METALLB_BGP_TYPE): want %s or native", f.Type, DefaultBGPType)
	}
	engine, err := gobgp.New(gobgp.Config{Logger: log})
	if err != nil {
		return nil, err
	}
	if f.Keep {
		engine.Keep()
	}
	return &BGPEngine{engine, log}, nil
}

// Run runs the engine until ctx is done. A peer that could not be told of the end is no failure of the daemon.
func (e *BGPEngine) Run(ctx context.Context) error {
	err := e.Engine.Run(ctx)
	if ctx.Err() == nil {
		return err
	}
	if err != nil {
		e.log.Warn("some peers could not be told of the end", "error", err)
	}
	return nil
}

var _ bgp.Engine = (*BGPEngine)(nil)
