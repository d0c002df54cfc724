package source

import (
	"context"

	"k8s.io/client-go/tools/cache"
)

// RunInformers runs informers until ctx is cancelled and waits until their first lists are complete. ok is false when ctx
// was cancelled before that. wait blocks until all of them have ended, after ctx is cancelled; it must be called.
func RunInformers(ctx context.Context, informers ...cache.SharedIndexInformer) (wait func(), ok bool) {
	ended := make(chan struct{}, len(informers))
	synced := make([]cache.InformerSynced, len(informers))
	for i, inf := range informers {
		go func() {
			inf.RunWithContext(ctx)
			ended <- struct{}{}
		}()
		synced[i] = inf.HasSynced
	}
	return func() {
		for range informers {
			<-ended
		}
	}, cache.WaitForCacheSync(ctx.Done(), synced...)
}

// OnChange calls notify for every addition, every deletion, and every update that same does not call equal. It drops what
// no decision reads from the objects (see Strip), and is called before the informer runs.
func OnChange[T any](inf cache.SharedIndexInformer, notify func(obj any), same func(before, after T) bool) error {
	if err := inf.SetTransform(Strip); err != nil {
		return err
	}
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    notify,
		DeleteFunc: notify,
		UpdateFunc: func(before, after any) {
			a, okA := before.(T)
			b, okB := after.(T)
			if !okA || !okB || !same(a, b) {
				notify(after)
			}
		},
	})
	return err
}

// Listed returns what an informer holds, as its own type, in no order.
func Listed[T any](inf cache.SharedIndexInformer) []T {
	objs := inf.GetStore().List()
	out := make([]T, 0, len(objs))
	for _, o := range objs {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
