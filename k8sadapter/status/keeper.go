package status

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// keeper runs a reconcile function whenever something that it depends on may have changed: the desired state, or the
// objects of one informer. Failures are tried again with a growing delay.
type keeper struct {
	log     *slog.Logger
	wake    chan struct{}
	backoff workqueue.TypedRateLimiter[struct{}]
}

func newKeeper(log *slog.Logger) keeper {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return keeper{
		log: log, wake: make(chan struct{}, 1),
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[struct{}](200*time.Millisecond, time.Minute),
	}
}

// changed asks for a reconcile. It never blocks.
func (k *keeper) changed() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run reconciles until ctx is cancelled.
func (k *keeper) run(ctx context.Context, inf cache.SharedIndexInformer, reconcile func(context.Context) error) error {
	notify := func(any) { k.changed() }
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, DeleteFunc: notify, UpdateFunc: func(_, _ any) { k.changed() },
	}); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		inf.RunWithContext(ctx)
	}()
	defer func() { <-done }()
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		return nil
	}
	k.changed()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		case <-again:
		}
		again = nil
		err := reconcile(ctx)
		if err == nil {
			k.backoff.Forget(struct{}{})
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		level := slog.LevelWarn
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			level = slog.LevelDebug // somebody wrote in between: the next look sees it
		}
		k.log.Log(ctx, level, "status could not be written, will try again", "error", err)
		again = time.After(k.backoff.When(struct{}{}))
	}
}
