package source

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// listWatch serves one kind of a store to client-go's reflectors. It speaks
// both dialects: list then watch, and the streaming list ("WatchList": initial
// events closed by a bookmark) that newer reflectors start with.
type listWatch struct {
	info  kindInfo
	store *store
	// ready returns once the store holds its first complete state.
	ready func(ctx context.Context) error
}

// List is the form without a context that cache.ListerWatcher asks for.
func (lw *listWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(context.Background(), options)
}

// Watch is the form without a context that cache.ListerWatcher asks for.
func (lw *listWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return lw.WatchWithContext(context.Background(), options)
}

// ListWithContext returns every object of the kind, sorted by namespace and
// name. It is never paged.
func (lw *listWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := lw.admit(ctx, options); err != nil {
		return nil, err
	}
	objects, rv := lw.store.snapshot(lw.info.kind)
	sortObjects(objects)
	items := make([]runtime.Object, len(objects))
	for i, obj := range objects {
		items[i] = copyOf(obj)
	}
	return lw.info.list(items, formatRV(rv))
}

// WatchWithContext streams changes after options.ResourceVersion. An empty or
// zero version, and SendInitialEvents, start with one ADDED for every object.
// A version that the log no longer reaches is answered with an Expired error.
func (lw *listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := lw.admit(ctx, options); err != nil {
		return nil, err
	}
	w := &watcher{
		lw:     lw,
		result: make(chan watch.Event),
		done:   make(chan struct{}),
	}
	streaming := options.SendInitialEvents != nil && *options.SendInitialEvents
	if streaming || options.ResourceVersion == "" || options.ResourceVersion == "0" {
		objects, rv := lw.store.snapshot(lw.info.kind)
		sortObjects(objects)
		w.initial, w.cursor, w.bookmark = objects, rv, streaming
	} else {
		rv, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("resource version %q is no number", options.ResourceVersion))
		}
		if _, _, ok := lw.store.since(lw.info.kind, rv); !ok {
			return nil, expired(rv)
		}
		w.cursor = rv
	}
	var timeout time.Duration
	if options.TimeoutSeconds != nil {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	go w.run(ctx, timeout)
	return w, nil
}

// admit waits for the first state and refuses what the store cannot do, so
// that a selector is never silently ignored.
func (lw *listWatch) admit(ctx context.Context, options metav1.ListOptions) error {
	if options.LabelSelector != "" || options.FieldSelector != "" {
		return apierrors.NewBadRequest("a directory of manifests is served whole: label and field selectors are not supported; filter in the informer's handler")
	}
	return lw.ready(ctx)
}

func expired(rv uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is not in the change log (list again)", rv))
}

// watcher is one open watch. Its goroutine ends with Stop, with the context of
// the watch, or at the watch's time-out.
type watcher struct {
	lw       *listWatch
	initial  []object
	bookmark bool
	cursor   uint64

	result chan watch.Event
	stop   sync.Once
	done   chan struct{}
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

func (w *watcher) Stop() { w.stop.Do(func() { close(w.done) }) }

func (w *watcher) run(ctx context.Context, timeout time.Duration) {
	defer close(w.result)
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for _, obj := range w.initial {
		if !w.send(ctx, watch.Event{Type: watch.Added, Object: copyOf(obj)}) {
			return
		}
	}
	w.initial = nil
	if w.bookmark && !w.send(ctx, w.endOfInitialEvents()) {
		return
	}
	for w.follow(ctx) {
	}
}

// follow sends the changes after the cursor and waits for more. It returns
// false when the watch is over.
func (w *watcher) follow(ctx context.Context) bool {
	changes, next, ok := w.lw.store.since(w.lw.info.kind, w.cursor)
	if !ok {
		status := expired(w.cursor).ErrStatus
		w.send(ctx, watch.Event{Type: watch.Error, Object: &status})
		return false
	}
	for _, c := range changes {
		if !w.send(ctx, watch.Event{Type: c.event, Object: copyOf(c.obj)}) {
			return false
		}
		w.cursor = c.rv
	}
	if len(changes) > 0 {
		return true
	}
	select {
	case <-next:
		return true
	case <-w.done:
	case <-ctx.Done():
	}
	return false
}

func (w *watcher) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.done:
	case <-ctx.Done():
	}
	return false
}

// endOfInitialEvents is the bookmark that tells a streaming list that it has
// seen everything up to the cursor.
func (w *watcher) endOfInitialEvents() watch.Event {
	obj := w.lw.info.newObject()
	obj.SetResourceVersion(formatRV(w.cursor))
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return watch.Event{Type: watch.Bookmark, Object: obj}
}

func sortObjects(objects []object) {
	sort.Slice(objects, func(i, j int) bool {
		if a, b := objects[i].GetNamespace(), objects[j].GetNamespace(); a != b {
			return a < b
		}
		return objects[i].GetName() < objects[j].GetName()
	})
}
