package source

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// absentRetry is how long a kind that the API server does not serve is left alone.
const absentRetry = 10 * time.Second

// optional makes a kind that the API server does not serve, or not to this process, one without objects, and looks for
// it again from time to time. Without it an informer would never be in sync, and the speaker of a cluster that was
// upgraded without the CRDs or the rights of BGP would not start. What has been listed once is no longer optional: an
// answer that is not found is then a failure, and the last state stays.
type optional struct {
	cache.ListerWatcherWithContext
	info   kindInfo
	logger *slog.Logger
	retry  time.Duration
	listed atomic.Bool // with success
	told   atomic.Bool // that it is absent
}

// List is the form without a context that cache.ListerWatcher asks for.
func (o *optional) List(options metav1.ListOptions) (runtime.Object, error) {
	return o.ListWithContext(context.Background(), options)
}

// Watch is the form without a context that cache.ListerWatcher asks for.
func (o *optional) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return o.WatchWithContext(context.Background(), options)
}

// ListWithContext lists; a kind that is absent is empty.
func (o *optional) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := o.ListerWatcherWithContext.ListWithContext(ctx, options)
	if err == nil {
		o.listed.Store(true)
		if o.told.Swap(false) {
			o.logger.InfoContext(ctx, "kind is served now", "kind", o.info.kind)
		}
		return list, nil
	}
	if !o.absent(err) {
		return nil, err
	}
	if !o.told.Swap(true) {
		o.logger.WarnContext(ctx, "kind is not served and counts as empty; it is looked for again from time to time",
			"kind", o.info.kind, "error", err, "hint", "apply the CustomResourceDefinitions and the rights of this version")
	}
	return o.info.list(nil, "0")
}

// WatchWithContext watches. The watch of a kind that is absent ends after a while and has its reader list again.
func (o *optional) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := o.ListerWatcherWithContext.WatchWithContext(ctx, options)
	streaming := options.SendInitialEvents != nil && *options.SendInitialEvents
	switch {
	case err == nil:
		if streaming {
			o.listed.Store(true)
		}
		return w, nil
	case streaming || !o.absent(err): // a reflector that cannot stream lists instead
		return nil, err
	}
	again := watch.NewRaceFreeFake()
	timer := time.AfterFunc(o.retry, func() {
		again.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
	})
	context.AfterFunc(ctx, func() { timer.Stop() })
	return again, nil
}

func (o *optional) absent(err error) bool {
	return !o.listed.Load() && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err))
}
