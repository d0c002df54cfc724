package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pool = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: office, namespace: metallb-system}
spec: {addresses: [192.0.2.10-192.0.2.11]}
`

func service(name string) string {
	return `---
apiVersion: v1
kind: Service
metadata: {name: ` + name + `, namespace: shop}
spec: {type: LoadBalancer, ports: [{port: 80}]}
`
}

func manifests(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".tmp", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".tmp", path))
}

// A pool whose manifest does not decode gets one Event, about the manifest, and not another about the addresses that it
// seems to lack.
func TestUndecodablePoolIsReportedOnce(t *testing.T) {
	dir := manifests(t, map[string]string{"a.yaml": strings.Replace(pool, "addresses:", "autoAssign: 5, addresses:", 1)})
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"--manifests", dir, "--once"}, &stdout, &stderr), stderr.String())
	assert.Equal(t, 1, strings.Count(stdout.String(), "kind: Event"), stdout.String())
	assert.Contains(t, stdout.String(), "autoAssign")
	assert.Equal(t, 1, strings.Count(stderr.String(), "object rejected"), stderr.String())
}

// The older Service finds nothing that is free, and can join the younger one as soon as that has its address.
func TestOnceServesWhoCanJoinALaterOne(t *testing.T) {
	dir := manifests(t, map[string]string{
		"a.yaml": strings.Replace(pool, "spec: {", "spec: {autoAssign: false, ", 1),
		"b.yaml": strings.Replace(service("older"), "{name: older,", "{name: older, annotations: {metallb.io/allow-shared-ip: k},", 1),
		"c.yaml": strings.Replace(strings.Replace(service("younger"), "port: 80", "port: 443", 1), "{name: younger,",
			"{name: younger, annotations: {metallb.io/allow-shared-ip: k, metallb.io/loadBalancerIPs: 192.0.2.11},", 1),
	})
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 0, run(t.Context(), []string{"--manifests", dir, "--once"}, &stdout, &stderr), stderr.String())
	assert.Equal(t, 2, strings.Count(stdout.String(), "- ip: 192.0.2.11"), stdout.String())
	assert.Equal(t, 2, strings.Count(stdout.String(), "kind: Service\nmetadata"), stdout.String())
}

func TestOnceOnBadInput(t *testing.T) {
	tests := map[string]struct {
		files  map[string]string
		code   int
		stdout []string
		stderr []string
	}{
		"all well": {map[string]string{"a.yaml": pool + service("web")}, 0, []string{"ip: 192.0.2.10", "kind: IPAddressPool", "reason: IPAllocated"}, nil},
		"no yaml": {
			map[string]string{"a.yaml": pool, "b.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: [\n"},
			1, nil,
			[]string{"b.yaml:"},
		},
		"not its kind": {
			map[string]string{"a.yaml": pool + service("web") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: bad, namespace: shop}\nspec: {ports: 80}\n"},
			2,
			[]string{"ip: 192.0.2.10", "reason: ConfigurationError", "name: bad"},
			[]string{"shop/bad", "a.yaml:"},
		},
		"unknown kind": {
			map[string]string{"a.yaml": pool + service("web") + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"},
			0,
			[]string{"ip: 192.0.2.10"},
			[]string{"Deployment"},
		},
		"foreign namespace": {
			map[string]string{"a.yaml": strings.Replace(pool, "metallb-system", "elsewhere", 1) + service("web")},
			0,
			[]string{"AllocationFailed", "no pool"},
			[]string{"elsewhere"},
		},
		"bad range": {
			map[string]string{"a.yaml": strings.Replace(pool, "192.0.2.10-192.0.2.11", "192.0.2.300/24", 1) + service("web")},
			2,
			[]string{"ConfigurationError", "AllocationFailed"},
			[]string{"192.0.2.300/24", "office"},
		},
		"reversed range": {
			map[string]string{"a.yaml": strings.Replace(pool, "192.0.2.10-192.0.2.11", "192.0.2.11-192.0.2.10", 1)},
			2,
			[]string{"ConfigurationError"},
			[]string{"192.0.2.11-192.0.2.10"},
		},
		"overlap: the older is good": {
			map[string]string{
				"a.yaml": strings.Replace(strings.Replace(pool, "office, ", "younger, creationTimestamp: 2026-02-01T00:00:00Z, ", 1), "192.0.2.10-", "192.0.2.0-", 1),
				"b.yaml": strings.Replace(pool, "office, ", "older, creationTimestamp: 2026-01-01T00:00:00Z, ", 1) + service("web"),
				"c.yaml": strings.Replace(strings.Replace(pool, "office", "third", 1), "192.0.2.10-192.0.2.11", "198.51.100.0/31", 1) + service("mail") + service("chat"),
			}, 2, []string{"ip: 192.0.2.10", "ip: 192.0.2.11", "ip: 198.51.100.0"}, []string{"younger", "older"},
		},
		"a manifest without a name": {
			map[string]string{"a.yaml": pool, "b.yaml": "kind: Service\n"},
			2,
			[]string{"kind: Manifest", "name: b.yaml"},
			[]string{"b.yaml:1"},
		},
		"no such directory": {nil, 1, nil, []string{"nowhere"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := "/nowhere"
			if tt.files != nil {
				dir = manifests(t, tt.files)
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"--manifests", dir, "--once"}, &stdout, &stderr)
			assert.Equal(t, tt.code, code, stderr.String())
			for _, want := range tt.stdout {
				assert.Contains(t, stdout.String(), want)
			}
			for _, want := range tt.stderr {
				assert.Contains(t, stderr.String(), want)
			}
			if tt.code == 1 {
				assert.Empty(t, stdout.String())
			}
			assert.NoDirExists(t, filepath.Join(dir, ".herald"), "writes nothing")
		})
	}
}

func TestOnceSortsAndRepeats(t *testing.T) {
	dir := manifests(t, map[string]string{"a.yaml": service("zeta") + service("alpha"), "b.yaml": pool})
	var first, second bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"--manifests", dir, "--once"}, &first, &bytes.Buffer{}))
	require.Zero(t, run(t.Context(), []string{"--manifests", dir, "--once"}, &second, &bytes.Buffer{}))
	assert.Equal(t, first.String(), second.String())
	var kinds []string
	for line := range strings.Lines(first.String()) {
		if kind, ok := strings.CutPrefix(line, "kind: "); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	assert.Equal(t, []string{"Event", "Event", "IPAddressPool", "Service", "Service"}, kinds)
	assert.Less(t, strings.Index(first.String(), "name: alpha\n"), strings.Index(first.String(), "name: zeta\n"))
}

// lockedBuffer is a buffer that one goroutine writes and another reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs the daemon on a directory; the function it returns stops it.
func start(t *testing.T, dir string) (log *lockedBuffer, stop func()) {
	t.Helper()
	log = &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--manifests", dir, "--port", "0", "--health-probe-port", "0"}, &bytes.Buffer{}, log)
	}()
	return log, func() {
		cancel()
		assert.Zero(t, <-ended, log.String())
	}
}

// shown is what --once shows of the directory: what the running daemon wrote is overlaid.
func shown(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	run(t.Context(), []string{"--manifests", dir, "--once"}, &out, &bytes.Buffer{})
	return out.String()
}

func eventually(t *testing.T, log *lockedBuffer, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 20*time.Second, 20*time.Millisecond, "log: %s", log)
}

func TestDirectoryOverRestartsAndBadEdits(t *testing.T) {
	dir := manifests(t, map[string]string{"pool.yaml": pool, "z.yaml": service("z")})
	log, stop := start(t, dir)
	given := func(name, ip string) func() bool {
		return func() bool {
			doc := shown(t, dir)
			_, doc, _ = strings.Cut(doc, "kind: Service\nmetadata:\n  annotations:\n    metallb.io/ip-allocated-from-pool: office\n  name: "+name+"\n")
			doc, _, _ = strings.Cut(doc, "---")
			return strings.Contains(doc, "ip: "+ip+"\n") && strings.Contains(log.String(), "Service updated")
		}
	}
	eventually(t, log, given("z", "192.0.2.10"))
	stop()

	// A Service that sorts first comes while nothing runs: the holder keeps its address.
	write(t, filepath.Join(dir, "a.yaml"), service("a"))
	log, stop = start(t, dir)
	eventually(t, log, given("a", "192.0.2.11"))
	assert.True(t, given("z", "192.0.2.10")())

	// The pool is edited into a bad one, and then into no YAML: its last good version stays in force.
	write(t, filepath.Join(dir, "pool.yaml"), strings.Replace(pool, "192.0.2.10-192.0.2.11", "192.0.2.11-192.0.2.10", 1))
	eventually(t, log, func() bool { return strings.Contains(log.String(), "ConfigurationError") })
	write(t, filepath.Join(dir, "pool.yaml"), "{")
	eventually(t, log, func() bool { return strings.Contains(log.String(), "pool.yaml") })
	require.NoError(t, os.Remove(filepath.Join(dir, "z.yaml")))
	write(t, filepath.Join(dir, "b.yaml"), service("b"))
	eventually(t, log, func() bool { return strings.Contains(log.String(), `service=shop/b status=[192.0.2.10]`) })

	// The directory vanishes and returns: the last state is kept.
	moved := dir + ".moved"
	require.NoError(t, os.Rename(dir, moved))
	eventually(t, log, func() bool {
		return strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "last state")
	})
	write(t, filepath.Join(moved, "pool.yaml"), pool)
	require.NoError(t, os.Rename(moved, dir))
	stop()
	assert.Contains(t, shown(t, dir), "ip: 192.0.2.11")
}

func TestBoundPort(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	addr, _ := taken.Addr().(*net.TCPAddr)
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"--manifests", t.TempDir(), "--port", "0", "--health-probe-port", strconv.Itoa(addr.Port)}, &bytes.Buffer{}, &stderr)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr.String(), "--health-probe-port")
	assert.Contains(t, stderr.String(), strconv.Itoa(addr.Port))
}

func TestNoAPIServer(t *testing.T) {
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"--namespace", "metallb-system"}, &bytes.Buffer{}, &stderr)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr.String(), "--manifests")
}
