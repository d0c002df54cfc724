package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

func nodeNamed(name, label string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", Labels: map[string]string{"v": label}}}
}

func nodeKey(name string) key { return key{kind: Nodes, name: name} }

// nodeListWatch serves the nodes of a store that is always ready.
func nodeListWatch(s *store) *listWatch {
	info, _ := infoOf(Nodes)
	return &listWatch{info: info, store: s, ready: func(context.Context) error { return nil }}
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		require.True(t, ok, "the watch is over")
		return event
	case <-time.After(deadline):
		require.Fail(t, "no event")
		return watch.Event{}
	}
}

// read renders an event of a node.
func read(event watch.Event) string {
	node, ok := event.Object.(*corev1.Node)
	if !ok {
		return string(event.Type)
	}
	return fmt.Sprintf("%s %s v=%s rv=%s", event.Type, node.Name, node.Labels["v"], node.ResourceVersion)
}

func TestWatchSemantics(t *testing.T) {
	s := newStore(8)
	lw := nodeListWatch(s)
	s.put(nodeKey("a"), nodeNamed("a", "1"))
	s.put(key{kind: Namespaces, name: "x"}, &corev1.Namespace{}) // takes version 2
	s.put(nodeKey("b"), nodeNamed("b", "1"))

	list, err := lw.List(metav1.ListOptions{})
	require.NoError(t, err)
	nodes := list.(*corev1.NodeList)
	assert.Equal(t, "3", nodes.ResourceVersion)
	require.Len(t, nodes.Items, 2)
	assert.Equal(t, "a", nodes.Items[0].Name)

	w, err := lw.Watch(metav1.ListOptions{ResourceVersion: nodes.ResourceVersion})
	require.NoError(t, err)
	s.put(nodeKey("a"), nodeNamed("a", "2"))
	s.put(nodeKey("a"), nodeNamed("a", "2")) // no change, no event
	s.remove(nodeKey("b"))
	s.put(nodeKey("b"), nodeNamed("b", "3"))
	assert.Equal(t, "MODIFIED a v=2 rv=4", read(next(t, w)))
	assert.Equal(t, "DELETED b v=1 rv=5", read(next(t, w)))
	assert.Equal(t, "ADDED b v=3 rv=6", read(next(t, w)))
	w.Stop()
	_, open := <-w.ResultChan()
	assert.False(t, open)
	w.Stop() // may be stopped twice

	resumed, err := lw.Watch(metav1.ListOptions{ResourceVersion: "4"})
	require.NoError(t, err)
	assert.Equal(t, "DELETED b v=1 rv=5", read(next(t, resumed)))
	resumed.Stop()

	fromNothing, err := lw.Watch(metav1.ListOptions{ResourceVersion: "0"})
	require.NoError(t, err)
	assert.Equal(t, "ADDED a v=2 rv=4", read(next(t, fromNothing)))
	assert.Equal(t, "ADDED b v=3 rv=6", read(next(t, fromNothing)))
	again := nodeNamed("b", "3")
	again.UID = types.UID("2")
	s.put(nodeKey("b"), again)
	assert.Equal(t, "DELETED b v=3 rv=7", read(next(t, fromNothing)), "another UID is another object")
	assert.Equal(t, "ADDED b v=3 rv=8", read(next(t, fromNothing)))
	fromNothing.Stop()
}

func TestStreamingListEndsWithBookmark(t *testing.T) {
	s := newStore(8)
	s.put(nodeKey("a"), nodeNamed("a", "1"))
	yes := true
	w, err := nodeListWatch(s).Watch(metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	require.NoError(t, err)
	defer w.Stop()
	assert.Equal(t, "ADDED a v=1 rv=1", read(next(t, w)))
	bookmark := next(t, w)
	assert.Equal(t, "BOOKMARK  v= rv=1", read(bookmark))
	assert.Equal(t, "true", bookmark.Object.(*corev1.Node).Annotations["k8s.io/initial-events-end"])
	s.put(nodeKey("c"), nodeNamed("c", "1"))
	assert.Equal(t, "ADDED c v=1 rv=2", read(next(t, w)))
}

func TestWatchRefusals(t *testing.T) {
	s := newStore(2)
	lw := nodeListWatch(s)
	for i := range 5 {
		s.put(nodeKey("a"), nodeNamed("a", strconv.Itoa(i)))
	}
	for _, tt := range []struct {
		rv    string
		check func(error) bool
	}{
		{"2", apierrors.IsResourceExpired},  // the log reaches back to 3
		{"99", apierrors.IsResourceExpired}, // of another process
		{"x", apierrors.IsBadRequest},
	} {
		_, err := lw.Watch(metav1.ListOptions{ResourceVersion: tt.rv})
		assert.True(t, tt.check(err), "%s: %v", tt.rv, err)
	}
	w, err := lw.Watch(metav1.ListOptions{ResourceVersion: "3"})
	require.NoError(t, err)
	w.Stop()
	_, err = lw.List(metav1.ListOptions{LabelSelector: "a=b"})
	assert.True(t, apierrors.IsBadRequest(err), "a selector must not be ignored: %v", err)
}

func TestSlowWatcherIsSentBackAndHoldsNobodyUp(t *testing.T) {
	s := newStore(4)
	w, err := nodeListWatch(s).Watch(metav1.ListOptions{ResourceVersion: "0"})
	require.NoError(t, err)
	for i := range 100 { // nobody reads meanwhile
		s.put(nodeKey("a"), nodeNamed("a", strconv.Itoa(i)))
	}
	var last watch.Event
	for event := range w.ResultChan() {
		last = event
	}
	require.Equal(t, watch.Error, last.Type)
	assert.True(t, apierrors.IsResourceExpired(apierrors.FromObject(last.Object)))
}

func TestWatchEndsWithItsTimeoutAndContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lw := nodeListWatch(newStore(4))
		minutes, start := int64(300), time.Now()
		w, err := lw.Watch(metav1.ListOptions{TimeoutSeconds: &minutes})
		require.NoError(t, err)
		_, open := <-w.ResultChan()
		assert.False(t, open)
		assert.Equal(t, 5*time.Minute, time.Since(start))

		ctx, cancel := context.WithCancel(t.Context())
		w, err = lw.WatchWithContext(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		cancel()
		_, open = <-w.ResultChan()
		assert.False(t, open)
	})
}

// TestWatchesReplayTheStore: whatever is written, a reader who follows the
// protocol (list again when told so) ends with exactly the stored objects, and
// sees versions rise.
func TestWatchesReplayTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStore(rapid.IntRange(1, 6).Draw(t, "log"))
		lw := nodeListWatch(s)
		cursor := uint64(0)
		view := map[string]string{}
		relist := func() {
			clear(view)
			objects, rv := s.snapshot(Nodes)
			for _, obj := range objects {
				view[obj.GetName()] = obj.GetResourceVersion()
			}
			cursor = rv
		}
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			name := names.Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				s.put(nodeKey(name), nodeNamed(name, names.Draw(t, "label")))
			case 2:
				s.remove(nodeKey(name))
			default:
				changes, _, ok := lw.store.since(Nodes, cursor)
				if !ok {
					relist()
					continue
				}
				for _, c := range changes {
					if c.rv <= cursor {
						t.Fatalf("version %d after %d", c.rv, cursor)
					}
					cursor = c.rv
					view[c.obj.GetName()] = c.obj.GetResourceVersion()
					if c.event == watch.Deleted {
						delete(view, c.obj.GetName())
					}
				}
			}
		}
		changes, _, ok := lw.store.since(Nodes, cursor)
		if !ok {
			relist()
		}
		for _, c := range changes {
			view[c.obj.GetName()] = c.obj.GetResourceVersion()
			if c.event == watch.Deleted {
				delete(view, c.obj.GetName())
			}
		}
		want := map[string]string{}
		objects, _ := s.snapshot(Nodes)
		for _, obj := range objects {
			want[obj.GetName()] = obj.GetResourceVersion()
		}
		if !maps.Equal(view, want) {
			t.Fatalf("view %v, store %v", view, want)
		}
	})
}

// TestInformersFollowADirectory runs client-go's informers on a directory in
// both dialects and with a log so short that they are often sent back.
func TestInformersFollowADirectory(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("streaming=%t", streaming), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streaming)
			m := newManifests(t, map[string]string{"web.yaml": webService, "pool.yaml": publicPool})
			f, _, _ := runFiles(t, m, nil)
			informer := cache.NewSharedIndexInformer(f.ListerWatcher(Services), &corev1.Service{}, 0, cache.Indexers{})
			require.NoError(t, informer.SetTransform(Strip))
			var mu sync.Mutex
			var seen []string
			note := func(what string, obj any) {
				mu.Lock()
				defer mu.Unlock()
				svc := obj.(*corev1.Service)
				seen = append(seen, what+" "+svc.Name+" "+address(svc))
			}
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { note("add", obj) },
				UpdateFunc: func(_, obj any) { note("update", obj) },
				DeleteFunc: func(obj any) { note("delete", obj) },
			})
			require.NoError(t, err)
			saw := func(what string) func() bool {
				return func() bool {
					mu.Lock()
					defer mu.Unlock()
					return slices.Contains(seen, what)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { informer.RunWithContext(ctx) })
			defer running.Wait()
			defer cancel()

			require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
			eventually(t, "first list", saw("add web "))
			assign(t, f, "default", "web", "192.0.2.1")
			eventually(t, "a patch", saw("update web 192.0.2.1"))
			m.write("sub/api.yaml", lines("apiVersion: v1", "kind: Service", "metadata: {name: api}"))
			eventually(t, "a new file", saw("add api "))
			m.remove("web.yaml")
			eventually(t, "a deletion", saw("delete web 192.0.2.1"))
		})
	}
}

func TestListBeforeRunReadsTheDirectory(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, err := NewFiles(FilesConfig{Dir: m.path})
	require.NoError(t, err)
	services, err := list(t, f.ListerWatcher(Services))
	require.NoError(t, err)
	assert.Len(t, services.(*corev1.ServiceList).Items, 1)

	missing, err := NewFiles(FilesConfig{Dir: m.file("nowhere")})
	require.NoError(t, err)
	_, err = list(t, missing.ListerWatcher(Services))
	require.ErrorContains(t, err, "directory of manifests: ")
	require.ErrorContains(t, missing.Run(t.Context()), m.file("nowhere"))
}

func TestObjectsHandedOutArePrivate(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, _ := newFiles(t, m, nil)
	for range 2 {
		services, err := list(t, f.ListerWatcher(Services))
		require.NoError(t, err)
		svc := &services.(*corev1.ServiceList).Items[0]
		require.EqualValues(t, 80, svc.Spec.Ports[0].Port)
		svc.Spec.Ports[0].Port = 1
	}
}
