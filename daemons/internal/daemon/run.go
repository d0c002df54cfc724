package daemon

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Run runs everything until ctx is cancelled. Then drain is called, while everything still runs, and after it everything is
// cancelled. When one thing fails all others are cancelled at once, and Run returns its error.
func Run(ctx context.Context, drain func(context.Context), runs ...func(context.Context) error) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, running := errgroup.WithContext(running)
	for _, run := range runs {
		g.Go(func() error { return run(running) })
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			drain(running)
			stop()
		case <-running.Done():
		}
		return nil
	})
	return g.Wait()
}
