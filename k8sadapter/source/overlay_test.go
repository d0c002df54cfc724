package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

const webOverlay = ".herald/services.default.web.overlay.json"

// stateFiles lists the overlays of a directory.
func stateFiles(t *testing.T, m manifests) []string {
	t.Helper()
	paths, err := filepath.Glob(m.file(".herald/*" + overlaySuffix))
	require.NoError(t, err)
	return paths
}

func readEvents(t *testing.T, path string) []corev1.Event {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var events []corev1.Event
	for scanner := bufio.NewScanner(bytes.NewReader(data)); scanner.Scan(); {
		var event corev1.Event
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &event))
		events = append(events, event)
	}
	return events
}

func TestOverlaySurvivesRestartAndEdit(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService, "pool.yaml": publicPool})
	f, _ := newFiles(t, m, nil)
	patched := assign(t, f, "default", "web", "192.0.2.1")
	assert.Equal(t, patched, service(t, f, "default", "web"))
	obj, _ := f.store.get(key{IPAddressPools, "metallb-system", "public"})
	pool := obj.DeepCopyObject().(*v1beta1.IPAddressPool)
	full := pool.DeepCopy()
	full.Status = v1beta1.IPAddressPoolStatus{AssignedIPv4: 1, AvailableIPv4: 255}
	_, err := f.PatchPoolStatus(t.Context(), pool, full)
	require.NoError(t, err)

	m.write("web.yaml", strings.Replace(webService, "port: 80", "port: 8080", 1))
	f, _ = newFiles(t, m, nil)
	svc := service(t, f, "default", "web")
	assert.Equal(t, "192.0.2.1", address(svc))
	assert.Equal(t, "public", svc.Annotations["metallb.io/ip-allocated-from-pool"])
	assert.EqualValues(t, 8080, svc.Spec.Ports[0].Port)
	obj, _ = f.store.get(key{IPAddressPools, "metallb-system", "public"})
	assert.Equal(t, full.Status, obj.(*v1beta1.IPAddressPool).Status)
	assert.Equal(t, patched.UID, svc.UID)
}

func TestOverlayGoesWithItsObject(t *testing.T) {
	t.Run("while running", func(t *testing.T) {
		m := newManifests(t, map[string]string{"web.yaml": webService})
		f, _, _ := runFiles(t, m, nil)
		assign(t, f, "default", "web", "192.0.2.1")
		require.FileExists(t, m.file(webOverlay))
		m.remove("web.yaml")
		eventually(t, "the overlay goes", func() bool { return len(stateFiles(t, m)) == 0 })
		m.write("web.yaml", webService)
		eventually(t, "a new object", func() bool { return exists(f, Services, "default", "web") })
		assert.Empty(t, address(service(t, f, "default", "web")))
	})
	t.Run("while nothing runs", func(t *testing.T) {
		m := newManifests(t, map[string]string{"web.yaml": webService})
		f, _ := newFiles(t, m, nil)
		assign(t, f, "default", "web", "192.0.2.1")
		m.remove("web.yaml")
		newFiles(t, m, nil)
		assert.Empty(t, stateFiles(t, m))
	})
	t.Run("with another UID", func(t *testing.T) {
		withUID := func(uid string) string { return strings.Replace(webService, "name: web", "name: web\n  uid: "+uid, 1) }
		m := newManifests(t, map[string]string{"web.yaml": withUID("one")})
		f, _ := newFiles(t, m, nil)
		assign(t, f, "default", "web", "192.0.2.1")
		m.write("web.yaml", webService) // the UID is dropped from the manifest: an edit
		f, _ = newFiles(t, m, nil)
		assert.Equal(t, "192.0.2.1", address(service(t, f, "default", "web")))
		m.write("web.yaml", withUID("two"))
		f, _ = newFiles(t, m, nil)
		assert.Empty(t, address(service(t, f, "default", "web")), "it is another object")
		assert.Empty(t, stateFiles(t, m))
	})
	t.Run("but not for a reader", func(t *testing.T) {
		m := newManifests(t, map[string]string{"web.yaml": webService})
		f, _ := newFiles(t, m, nil)
		assign(t, f, "default", "web", "192.0.2.1")
		m.remove("web.yaml")
		reader, _ := newFiles(t, m, func(cfg *FilesConfig) { cfg.ReadOnly = true })
		assert.Len(t, stateFiles(t, m), 1)
		_, err := reader.PatchService(t.Context(), &corev1.Service{}, &corev1.Service{})
		assert.ErrorIs(t, err, ErrReadOnly)
	})
}

func TestManifestStatusCountsUnlessOverlaid(t *testing.T) {
	withStatus := webService + lines("status:", "  loadBalancer:", "    ingress:", "    - ip: 192.0.2.9", "      ipMode: Proxy")
	m := newManifests(t, map[string]string{"web.yaml": withStatus})
	f, _ := newFiles(t, m, nil)
	svc := service(t, f, "default", "web")
	assert.Equal(t, "192.0.2.9", address(svc))

	kept := svc.DeepCopy()
	kept.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}, {IP: "2001:db8::9"}}
	svc, err := f.PatchService(t.Context(), svc, kept)
	require.NoError(t, err)
	assert.Equal(t, corev1.LoadBalancerIPModeProxy, *svc.Status.LoadBalancer.Ingress[0].IPMode, "entries that stay keep what others added")
	assert.Nil(t, svc.Status.LoadBalancer.Ingress[1].IPMode)

	cleared := svc.DeepCopy()
	cleared.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	_, err = f.PatchService(t.Context(), svc, cleared)
	require.NoError(t, err)
	f, _ = newFiles(t, m, nil)
	assert.Empty(t, address(service(t, f, "default", "web")), "cleared stays cleared")
}

func TestPatchTouchesOnlyOurPart(t *testing.T) {
	annotated := strings.Replace(webService, "name: web", "name: web\n  annotations: {metallb.io/ip-allocated-from-pool: old, note: theirs}", 1)
	m := newManifests(t, map[string]string{"web.yaml": annotated})
	f, _ := newFiles(t, m, nil)
	prev := service(t, f, "default", "web")
	next := prev.DeepCopy()
	next.Annotations = map[string]string{"note": "ours"}
	next.Labels = map[string]string{"a": "b"}
	next.Spec.Ports[0].Port = 1
	got, err := f.PatchService(t.Context(), prev, next)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"note": "theirs"}, got.Annotations, "the annotation is removed though the manifest has it")
	assert.Empty(t, got.Labels)
	assert.EqualValues(t, 80, got.Spec.Ports[0].Port)
}

func TestPatchWithoutDifferenceWritesNothing(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, _ := newFiles(t, m, nil)
	svc := service(t, f, "default", "web")
	got, err := f.PatchService(t.Context(), svc, svc.DeepCopy())
	require.NoError(t, err)
	assert.Equal(t, svc.ResourceVersion, got.ResourceVersion)
	assert.NoDirExists(t, m.file(".herald"))
}

func TestPatchConflicts(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, _ := newFiles(t, m, nil)
	stale := service(t, f, "default", "web")
	assign(t, f, "default", "web", "192.0.2.1")
	current := service(t, f, "default", "web")

	_, err := f.PatchService(t.Context(), stale, stale.DeepCopy())
	assert.True(t, apierrors.IsConflict(err), "old version: %v", err)
	other := current.DeepCopy()
	other.UID = "another"
	_, err = f.PatchService(t.Context(), other, other.DeepCopy())
	assert.True(t, apierrors.IsConflict(err), "other UID: %v", err)
	gone := current.DeepCopy()
	gone.Name = "gone"
	_, err = f.PatchService(t.Context(), gone, gone.DeepCopy())
	assert.True(t, apierrors.IsNotFound(err), "gone: %v", err)
}

// TestTwoProcessesShareADirectory: a reader sees what a writer writes, and of
// two writers that start from the same state one wins and the other is told.
func TestTwoProcessesShareADirectory(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	slow := func(cfg *FilesConfig) { cfg.Debounce, cfg.Poll = time.Hour, time.Hour }
	first, _ := newFiles(t, m, slow)
	second, _ := newFiles(t, m, slow) // never looks by itself
	reader, _, _ := runFiles(t, m, func(cfg *FilesConfig) { cfg.ReadOnly = true })
	assign(t, first, "default", "web", "192.0.2.1")
	eventually(t, "the reader sees it", func() bool { return address(service(t, reader, "default", "web")) == "192.0.2.1" })

	prev := service(t, second, "default", "web")
	next := prev.DeepCopy()
	next.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
	_, err := second.PatchService(t.Context(), prev, next)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	assert.Equal(t, "192.0.2.1", address(service(t, second, "default", "web")), "after the conflict it knows")
	assign(t, second, "default", "web", "192.0.2.3")
	eventually(t, "the reader sees that too", func() bool { return address(service(t, reader, "default", "web")) == "192.0.2.3" })
	require.NoError(t, os.Remove(m.file(webOverlay)))
	eventually(t, "a removed overlay is a removed status", func() bool { return address(service(t, reader, "default", "web")) == "" })
}

func TestConcurrentPatchesLoseNothing(t *testing.T) {
	const writers, rounds = 4, 10
	m := newManifests(t, map[string]string{"web.yaml": webService})
	var running sync.WaitGroup
	for w := range writers {
		f, _, _ := runFiles(t, m, nil)
		running.Go(func() {
			for round := 0; round < rounds; {
				obj, _ := f.store.get(key{Services, "default", "web"})
				prev := obj.DeepCopyObject().(*corev1.Service)
				next := prev.DeepCopy()
				if next.Annotations == nil {
					next.Annotations = map[string]string{}
				}
				next.Annotations[fmt.Sprintf("metallb.io/%d-%d", w, round)] = "x"
				_, err := f.PatchService(t.Context(), prev, next)
				if err == nil {
					round++
				} else if !apierrors.IsConflict(err) {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	running.Wait()
	f, _ := newFiles(t, m, nil)
	assert.Len(t, service(t, f, "default", "web").Annotations, writers*rounds)
}

func TestDamagedOverlayIsMovedAside(t *testing.T) {
	for name, content := range map[string]string{
		"truncated":      `{"kind":"Service","na`,
		"someone else's": `{"kind":"Service","namespace":"default","name":"other","uid":"x"}`,
		"not ours":       `{"kind":"Node","name":"web"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newManifests(t, map[string]string{"web.yaml": webService, webOverlay: content})
			f, log := newFiles(t, m, nil)
			assert.Empty(t, address(service(t, f, "default", "web")))
			assert.NoFileExists(t, m.file(webOverlay))
			assert.FileExists(t, m.file(webOverlay+".corrupt"))
			assert.Equal(t, 1, log.count("damaged; moved aside"))
			assign(t, f, "default", "web", "192.0.2.1")
			f, _ = newFiles(t, m, nil)
			assert.Equal(t, "192.0.2.1", address(service(t, f, "default", "web")))
		})
	}
}

func TestStateDirectoryVanishes(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, log, _ := runFiles(t, m, func(cfg *FilesConfig) { cfg.Poll = 20 * time.Millisecond })
	assign(t, f, "default", "web", "192.0.2.1")
	require.NoError(t, os.Rename(m.file(".herald"), m.file(".gone")))
	eventually(t, "it is written again", func() bool { return len(stateFiles(t, m)) == 1 })
	assert.Equal(t, "192.0.2.1", address(service(t, f, "default", "web")))
	assert.Equal(t, 1, log.count("state directory has vanished"))
}

func TestUnwritableStateNamesTheWayOut(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService, "file": "x"})
	f, _ := newFiles(t, m, func(cfg *FilesConfig) { cfg.StateDir = m.file("file/state") })
	prev := service(t, f, "default", "web")
	next := prev.DeepCopy()
	next.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	_, err := f.PatchService(t.Context(), prev, next)
	require.ErrorContains(t, err, "--state")
	require.ErrorContains(t, err, m.file("file/state"))
	assert.Empty(t, address(service(t, f, "default", "web")), "nothing changes on failure")
}

func TestOverlayNamesFitAndDiffer(t *testing.T) {
	long := strings.Repeat("a", 253)
	seen := map[string]bool{}
	for _, name := range []string{"a", "a.b", long, long[:252], long[:121] + "b"} {
		file := overlayName(key{IPAddressPools, strings.Repeat("n", 63), name})
		assert.LessOrEqual(t, len(file+".corrupt"), 255)
		assert.False(t, seen[file], file)
		assert.True(t, isOverlayName(file))
		seen[file] = true
	}
	assert.NotEqual(t, overlayName(key{Services, "a", "b"}), overlayName(key{Services, "b", "a"}))
}

func TestEventsWithoutACluster(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, log, stop := runFiles(t, m, func(cfg *FilesConfig) { cfg.Component = "metallb-controller" })
	web := service(t, f, "default", "web")
	web.Kind = "" // as informers hand objects out
	f.Event(web, "Warning", "AllocationFailed", "no pool has a free address")
	f.Event(web, "Normal", "IPAllocated", "Assigned IP 192.0.2.1")
	stop()
	events := readEvents(t, m.file(".herald/events.metallb-controller.jsonl"))
	require.Len(t, events, 2)
	assert.Equal(t, "Service", events[0].InvolvedObject.Kind)
	assert.Equal(t, web.UID, events[0].InvolvedObject.UID)
	assert.Equal(t, "no pool has a free address", events[0].Message)
	assert.Equal(t, 1, log.count(`level=WARN msg=event reason=AllocationFailed message="no pool has a free address" kind=Service namespace=default name=web`))
	assert.Equal(t, 1, log.count(`level=INFO msg=event reason=IPAllocated`))
}

func TestEventLogIsBounded(t *testing.T) {
	l := newEventLog(FilesConfig{StateDir: filepath.Join(t.TempDir(), "state"), Component: "c", Logger: slog.New(slog.DiscardHandler)})
	l.prepare = func() error { return mkdir(filepath.Dir(l.path)) }
	event := newEvent(corev1.ObjectReference{Name: "x"}, l.source, "Normal", "R", strings.Repeat("m", 64<<10))
	for range 40 {
		require.NoError(t, l.append(event))
	}
	for _, path := range []string{l.path, l.path + ".1"} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.LessOrEqual(t, info.Size(), int64(eventLogSize))
	}
	for range 2 * eventQueue { // nobody drains: nothing blocks
		l.add(&corev1.Node{}, "Normal", "R", "m")
	}
}
