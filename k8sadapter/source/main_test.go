package source

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// deadline bounds every wait for a condition.
const deadline = 15 * time.Second

// manifests is a directory of manifests of a test.
type manifests struct {
	t    *testing.T
	path string
}

func newManifests(t *testing.T, files map[string]string) manifests {
	t.Helper()
	m := manifests{t, filepath.Join(t.TempDir(), "manifests")}
	require.NoError(t, os.Mkdir(m.path, 0o755))
	for name, content := range files {
		m.write(name, content)
	}
	return m
}

func (m manifests) file(name string) string { return filepath.Join(m.path, name) }

// write replaces a file at once, so that no test depends on how quickly.
func (m manifests) write(name, content string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.file(name)), 0o755))
	tmp := m.file(filepath.Join(filepath.Dir(name), ".new"))
	require.NoError(m.t, os.WriteFile(tmp, []byte(content), 0o644))
	require.NoError(m.t, os.Rename(tmp, m.file(name)))
}

func (m manifests) remove(name string) {
	m.t.Helper()
	require.NoError(m.t, os.Remove(m.file(name)))
}

// logbook collects log lines.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) count(part string) int { return strings.Count(l.String(), part) }

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// newFiles makes a provider with short waits that has read its directory.
func newFiles(t *testing.T, m manifests, change func(*FilesConfig)) (*Files, *logbook) {
	t.Helper()
	log := &logbook{}
	cfg := FilesConfig{Dir: m.path, Debounce: 10 * time.Millisecond, Logger: log.logger()}
	if change != nil {
		change(&cfg)
	}
	f, err := NewFiles(cfg)
	require.NoError(t, err)
	require.NoError(t, f.ensureLoaded(t.Context()))
	return f, log
}

// runFiles makes a provider that runs until stop, or the end of the test.
func runFiles(t *testing.T, m manifests, change func(*FilesConfig)) (f *Files, log *logbook, stop func()) {
	t.Helper()
	f, log = newFiles(t, m, change)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return f, log, stop
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, deadline, 2*time.Millisecond, what)
}

// service returns a Service in force.
func service(t *testing.T, f *Files, namespace, name string) *corev1.Service {
	t.Helper()
	obj, ok := f.store.get(key{Services, namespace, name})
	require.True(t, ok, "Service %s/%s", namespace, name)
	return obj.DeepCopyObject().(*corev1.Service)
}

func exists(f *Files, kind Kind, namespace, name string) bool {
	_, ok := f.store.get(key{kind, namespace, name})
	return ok
}

// assign gives a Service an address, as the controller does.
func assign(t *testing.T, f *Files, namespace, name, address string) *corev1.Service {
	t.Helper()
	prev := service(t, f, namespace, name)
	next := prev.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, "metallb.io/ip-allocated-from-pool", "public")
	next.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	got, err := f.PatchService(t.Context(), prev, next)
	require.NoError(t, err)
	return got
}

// list lists as a reflector does.
func list(t *testing.T, lw cache.ListerWatcher) (runtime.Object, error) {
	t.Helper()
	return cache.ToListerWatcherWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{})
}

func address(svc *corev1.Service) string {
	if len(svc.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	return svc.Status.LoadBalancer.Ingress[0].IP
}

const webService = `apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: LoadBalancer
  ports:
  - port: 80
`

const publicPool = `apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: public
  namespace: metallb-system
spec:
  addresses:
  - 192.0.2.0/24
`
