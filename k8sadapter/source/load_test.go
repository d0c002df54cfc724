package source

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// snapshotOf lists every file of a directory with its size and time.
func snapshotOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		files[path] = info.ModTime().Format(time.RFC3339Nano)
		return err
	}))
	return files
}

func TestLoadReadsOverlaysAndWritesNothing(t *testing.T) {
	m := newManifests(t, map[string]string{
		"web.yaml":  webService,
		"pool.yaml": publicPool,
		"rest.yaml": lines("apiVersion: v1", "kind: Node", "metadata: {name: n2}", "---", "apiVersion: v1", "kind: Node", "metadata: {name: n1}", "---",
			"apiVersion: metallb.io/v1beta1", "kind: L2Advertisement", "metadata: {name: all, namespace: metallb-system}", "---",
			"apiVersion: discovery.k8s.io/v1", "kind: EndpointSlice", "metadata: {name: web-1}", "addressType: IPv4", "endpoints: []", "---",
			"apiVersion: apps/v1", "kind: Deployment", "metadata: {name: d}", "---",
			"apiVersion: v1", "kind: Service", "metadata: {name: typo}", "spec: {prots: []}", "---",
			"apiVersion: v1", "kind: Service", "metadata: {name: bad}", "spec: {ports: {}}"),
	})
	f, _ := newFiles(t, m, nil)
	assign(t, f, "default", "web", "192.0.2.1")
	m.write(".herald/services.default.orphan.overlay.json", `{"kind":"Service","namespace":"default","name":"orphan","uid":"x"}`)
	m.write(".herald/services.default.bad.overlay.json", "damaged")
	before := snapshotOf(t, m.path)

	log := &logbook{}
	once, err := NewFiles(FilesConfig{Dir: m.path, Logger: log.logger()})
	require.NoError(t, err)
	set, err := once.Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before, snapshotOf(t, m.path))

	require.Len(t, set.Services, 2)
	assert.Equal(t, "typo", set.Services[0].Name)
	assert.Equal(t, "192.0.2.1", address(set.Services[1]))
	assert.Empty(t, set.Services[1].ResourceVersion)
	require.Len(t, set.Nodes, 2)
	assert.Equal(t, "n1", set.Nodes[0].Name)
	assert.Len(t, set.Namespaces, 2)
	assert.Len(t, set.EndpointSlices, 1)
	assert.Len(t, set.IPAddressPools, 1)
	assert.Len(t, set.L2Advertisements, 1)
	require.Len(t, set.Rejected, 1)
	assert.Contains(t, set.Rejected[0].Error(), "rest.yaml:28: Service default/bad: ")
	require.Len(t, set.Ignored, 1)
	assert.Equal(t, "Deployment", set.Ignored[0].Kind)
	require.Len(t, set.Warnings, 1)
	assert.Contains(t, set.Warnings[0].Error(), `Service default/typo: unknown field "spec.prots"`)
	assert.Equal(t, 1, log.count("manifest ignored"))
	assert.Equal(t, 1, log.count("part of a manifest has no effect"))
}

func TestLoadReportsEverySyntaxError(t *testing.T) {
	m := newManifests(t, map[string]string{
		"a.yaml":     "a: b: c\n",
		"b.yaml":     webService,
		"sub/c.yaml": webService + "---\nx: y: z\n---\nx: y: z\n",
	})
	f, err := NewFiles(FilesConfig{Dir: m.path})
	require.NoError(t, err)
	set, err := f.Load(t.Context())
	assert.Nil(t, set)
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	assert.Equal(t, "a.yaml", syntax.File)
	assert.Equal(t, 1, syntax.Line)
	assert.EqualError(t, err, "a.yaml:1: mapping values are not allowed in this context\n"+
		"sub/c.yaml:10: mapping values are not allowed in this context\n"+
		"sub/c.yaml:12: mapping values are not allowed in this context")
}

func TestLoadNeedsTheDirectory(t *testing.T) {
	f, err := NewFiles(FilesConfig{Dir: filepath.Join(t.TempDir(), "nowhere")})
	require.NoError(t, err)
	_, err = f.Load(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAPipeIsNotReadAndAnEmptyDirectoryIsWell(t *testing.T) {
	m := newManifests(t, nil)
	f, err := NewFiles(FilesConfig{Dir: m.path})
	require.NoError(t, err)
	set, err := f.Load(t.Context())
	require.NoError(t, err)
	assert.Empty(t, set.Services)
	require.NoError(t, os.Mkdir(m.file("dir.yaml"), 0o755)) // a directory may be called that
	_, err = f.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, mkfifo(m.file("pipe.yaml")))
	_, err = f.Load(t.Context())
	require.ErrorIs(t, err, ErrUnreadable)
	require.ErrorContains(t, err, "pipe.yaml")
}
