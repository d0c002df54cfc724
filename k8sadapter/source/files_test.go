package source

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

func TestNewFilesChecksItsConfig(t *testing.T) {
	for _, cfg := range []FilesConfig{
		{},
		{Dir: "x", StateDir: "./x"},
		{Dir: "x", Poll: -1},
	} {
		_, err := NewFiles(cfg)
		assert.ErrorContains(t, err, "source: files: ")
	}
}

func TestNamespacesInUseExist(t *testing.T) {
	m := newManifests(t, map[string]string{
		"a.yaml": webService,
		"b.yaml": lines("apiVersion: v1", "kind: Namespace", "metadata: {name: shop, labels: {tier: gold}}", "---",
			"apiVersion: v1", "kind: Service", "metadata: {name: s, namespace: shop}"),
	})
	f, _ := newFiles(t, m, nil)
	labels := func(name string) map[string]string {
		obj, ok := f.store.get(key{kind: Namespaces, name: name})
		require.True(t, ok, name)
		return obj.GetLabels()
	}
	assert.Equal(t, map[string]string{"kubernetes.io/metadata.name": "default"}, labels("default"))
	assert.Equal(t, map[string]string{"kubernetes.io/metadata.name": "metallb-system"}, labels("metallb-system"))
	assert.Equal(t, map[string]string{"kubernetes.io/metadata.name": "shop", "tier": "gold"}, labels("shop"))
}

func TestWhichFilesAreRead(t *testing.T) {
	node := func(name string) string {
		return lines("apiVersion: v1", "kind: Node", "metadata: {name: "+name+"}")
	}
	m := newManifests(t, map[string]string{
		"a.yaml": node("a"), "b.yml": node("b"), "sub/deep/c.YAML": node("c"),
		"d.json":  `{"apiVersion":"v1","kind":"Node","metadata":{"name":"d"}}`,
		".e.yaml": node("hidden"), ".git/f.yaml": node("hidden"), "g.yaml~": node("hidden"),
		"h.txt": node("hidden"), ".i.yaml.swp": node("hidden"), "#j.yaml#": node("hidden"),
		"state/k.yaml": node("hidden"),
	})
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "l.yaml"), []byte(node("l")), 0o644))
	require.NoError(t, os.Symlink(outside, m.file("linked")))
	require.NoError(t, os.Symlink(m.path, m.file("loop")))
	require.NoError(t, os.Symlink("nowhere", m.file("dangling.yaml")))
	f, _ := newFiles(t, m, func(cfg *FilesConfig) { cfg.StateDir = m.file("state") })
	var names []string
	for _, k := range f.store.keys(Nodes) {
		names = append(names, k.name)
	}
	slices.Sort(names)
	assert.Equal(t, []string{"a", "b", "c", "d", "l"}, names)
	assert.Empty(t, f.Problems())
}

func TestDuplicatesNameBothFilesAndTheFirstWins(t *testing.T) {
	m := newManifests(t, map[string]string{
		"b.yaml": lines("# second", "apiVersion: v1", "kind: Node", "metadata: {name: n1, labels: {from: b}}"),
		"a.yaml": lines("apiVersion: v1", "kind: Node", "metadata: {name: n1, labels: {from: a}}"),
	})
	f, log := newFiles(t, m, nil)
	obj, ok := f.store.get(nodeKey("n1"))
	require.True(t, ok)
	assert.Equal(t, "a", obj.GetLabels()["from"])
	require.Len(t, f.Problems(), 1)
	require.ErrorIs(t, f.Problems()[0], ErrDuplicate)
	assert.Equal(t, "b.yaml:2: Node n1: the object is described twice: a.yaml:1 describes it too, and comes first", f.Problems()[0].Error())
	assert.Equal(t, 1, log.count("manifest rejected"))
}

func TestEditIntoBadAndBack(t *testing.T) {
	good := publicPool
	bad := map[string]string{
		"no YAML":         "apiVersion: v1\nkind: a: b\n",
		"not as its kind": lines("apiVersion: metallb.io/v1beta1", "kind: IPAddressPool", "metadata: {name: public, namespace: metallb-system}", "spec: {addresses: 192.0.2.0/24}"),
		"without a name":  lines("apiVersion: metallb.io/v1beta1", "kind: IPAddressPool", "metadata: {namespace: metallb-system}"),
		"without a kind":  lines("metadata: {name: public}"),
		"empty, as it is truncated before it is written": "",
	}
	for name, text := range bad {
		t.Run(name, func(t *testing.T) {
			m := newManifests(t, map[string]string{"pool.yaml": good})
			f, log, stop := runFiles(t, m, nil)
			pool := func() *v1beta1.IPAddressPool {
				obj, ok := f.store.get(key{IPAddressPools, "metallb-system", "public"})
				require.True(t, ok, "rejected is not deleted")
				return obj.(*v1beta1.IPAddressPool)
			}
			before := pool()
			m.write("pool.yaml", text)
			eventually(t, "the fault is found", func() bool { return len(f.Problems()) == 1 })
			assert.Same(t, before, pool(), "the last good version stays, untouched")
			m.write("other.yaml", webService) // another look at the same fault
			eventually(t, "the other file is read", func() bool { return exists(f, Services, "default", "web") })
			assert.Same(t, before, pool())
			assert.Equal(t, 1, log.count("manifest rejected"), "one line for each transition:\n%s", log)
			assert.Equal(t, 1, log.count("lastGoodInForce=true"))
			stop()

			// A restart in the middle of the edit.
			f, log, _ = runFiles(t, m, nil)
			assert.Equal(t, before.Spec, pool().Spec)
			assert.Equal(t, 1, log.count("manifest rejected"))

			m.write("pool.yaml", good+"  - 198.51.100.0/24\n")
			eventually(t, "the new version is in force", func() bool { return len(pool().Spec.Addresses) == 2 })
			assert.Empty(t, f.Problems())
			assert.Equal(t, 1, log.count("problem of a manifest is over"))
			eventually(t, "nothing is kept any more", func() bool {
				_, err := os.Stat(m.file(".herald/kept.json"))
				return os.IsNotExist(err)
			})

			m.write("pool.yaml", text)
			eventually(t, "bad again", func() bool { return len(f.Problems()) == 1 })
			m.remove("pool.yaml")
			eventually(t, "deleted is deleted", func() bool { return !exists(f, IPAddressPools, "metallb-system", "public") })
		})
	}
}

func TestBadFileAtStartLeavesTheOthersAndTheOverlays(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService, "pool.yaml": publicPool})
	f, _ := newFiles(t, m, nil)
	assign(t, f, "default", "web", "192.0.2.1")

	m.write("web.yaml", "a: b: c\n") // while nothing runs
	f, log := newFiles(t, m, nil)
	assert.True(t, exists(f, IPAddressPools, "metallb-system", "public"))
	assert.Equal(t, 1, log.count("lastGoodInForce=false"))
	m.write("web.yaml", webService)
	f, _ = newFiles(t, m, nil)
	assert.Equal(t, "192.0.2.1", address(service(t, f, "default", "web")), "the overlay waited")
}

func TestPartOfAFileRejected(t *testing.T) {
	two := func(a, b string) string {
		return lines("apiVersion: v1", "kind: Service", "metadata: {name: a}", "spec: {sessionAffinity: "+a+"}", "---",
			"apiVersion: v1", "kind: Service", "metadata: {name: b}", "spec: {sessionAffinity: "+b+"}")
	}
	m := newManifests(t, map[string]string{"two.yaml": two("None", "None")})
	f, _, _ := runFiles(t, m, nil)
	m.write("two.yaml", two("ClientIP", "[x]"))
	eventually(t, "the good half changes", func() bool {
		return service(t, f, "default", "a").Spec.SessionAffinity == "ClientIP"
	})
	assert.EqualValues(t, "None", service(t, f, "default", "b").Spec.SessionAffinity)
	require.Len(t, f.Problems(), 1)
	assert.Contains(t, f.Problems()[0].Error(), "two.yaml:6: Service default/b: ")
}

func TestRejectedPoolWithoutAGoodVersionIsNotDeleted(t *testing.T) {
	bad := lines("apiVersion: metallb.io/v1beta1", "kind: IPAddressPool", "metadata: {name: public, namespace: metallb-system, labels: {a: b}}", "spec: {addresses: 192.0.2.0/24}")
	m := newManifests(t, map[string]string{"pool.yaml": bad})
	f, log, stop := runFiles(t, m, nil)
	placeholder := func() *v1beta1.IPAddressPool {
		obj, ok := f.store.get(key{IPAddressPools, "metallb-system", "public"})
		require.True(t, ok)
		return obj.(*v1beta1.IPAddressPool)
	}
	assert.Empty(t, placeholder().Spec.Addresses)
	assert.Equal(t, map[string]string{"a": "b"}, placeholder().Labels)
	assert.Equal(t, 1, log.count("lastGoodInForce=false"))
	m.write("pool.yaml", "a: b: c\n")
	eventually(t, "another fault", func() bool { return log.count("manifest rejected") == 2 })
	assert.Empty(t, placeholder().Spec.Addresses, "nothing is known, still")
	stop()
	f, _, _ = runFiles(t, m, nil)
	assert.Empty(t, placeholder().Spec.Addresses, "a restart does not forget the pool either")
	m.write("pool.yaml", publicPool)
	eventually(t, "the pool is good", func() bool { return len(placeholder().Spec.Addresses) == 1 })
	m.write("pool.yaml", bad)
	eventually(t, "and bad", func() bool { return len(f.Problems()) == 1 })
	assert.Len(t, placeholder().Spec.Addresses, 1, "the last good version is known now")
}

func TestDirectoryVanishesAndReturns(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, log, _ := runFiles(t, m, func(cfg *FilesConfig) { cfg.Poll = 20 * time.Millisecond })
	assign(t, f, "default", "web", "192.0.2.1")
	away := m.path + ".away"
	require.NoError(t, os.Rename(m.path, away))
	eventually(t, "it is missed", func() bool { return log.count("cannot be read") > 0 })
	web := service(t, f, "default", "web")
	assert.Equal(t, "192.0.2.1", address(web))

	// Writes fail now, and make nothing where the directory was.
	cleared := web.DeepCopy()
	cleared.Status.LoadBalancer.Ingress = nil
	_, err := f.PatchService(t.Context(), web, cleared)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoDirExists(t, m.path)

	require.NoError(t, os.Mkdir(m.path, 0o755)) // the empty mount point
	assert.False(t, f.isBack())
	f.poll()
	_, err = f.PatchService(t.Context(), web, cleared)
	require.ErrorIs(t, err, errReplaced)
	require.Error(t, f.events.append(&corev1.Event{}))
	require.True(t, exists(f, Services, "default", "web"))
	require.NoError(t, os.Remove(m.path))
	require.NoError(t, os.Rename(away, m.path))
	m.write("web.yaml", webService+"  sessionAffinity: ClientIP\n")
	eventually(t, "it is picked up again", func() bool {
		return service(t, f, "default", "web").Spec.SessionAffinity == "ClientIP"
	})
	assert.Equal(t, "192.0.2.1", address(service(t, f, "default", "web")))
	assert.Equal(t, 1, log.count("level=WARN"), "one warning:\n%s", log)
	m.write("web.yaml", webService) // and notices work again
	eventually(t, "an edit after the return", func() bool {
		return service(t, f, "default", "web").Spec.SessionAffinity == corev1.ServiceAffinityNone
	})
}

func TestConfigMapSwap(t *testing.T) {
	m := newManifests(t, nil)
	publish := func(version, port string) {
		t.Helper()
		require.NoError(t, os.Mkdir(m.file(version), 0o755))
		require.NoError(t, os.WriteFile(m.file(version+"/web.yaml"), []byte(webService+"  externalTrafficPolicy: "+port+"\n"), 0o644))
		require.NoError(t, os.Symlink(version, m.file("..data_tmp")))
		require.NoError(t, os.Rename(m.file("..data_tmp"), m.file("..data")))
	}
	publish("..2026_1", "Cluster")
	require.NoError(t, os.Symlink("..data/web.yaml", m.file("web.yaml")))
	f, _, _ := runFiles(t, m, func(cfg *FilesConfig) { cfg.StateDir = t.TempDir(); cfg.Poll = time.Hour })
	assign(t, f, "default", "web", "192.0.2.1")
	publish("..2026_2", "Local")
	eventually(t, "the swap is seen", func() bool {
		return service(t, f, "default", "web").Spec.ExternalTrafficPolicy == "Local"
	})
	assert.Equal(t, "192.0.2.1", address(service(t, f, "default", "web")))
}

func TestDirectoryThatIsALinkIsSwapped(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, version), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, version, "n.yaml"), []byte(lines("apiVersion: v1", "kind: Node", "metadata: {name: "+version+"}")), 0o644))
	}
	link := filepath.Join(root, "current")
	require.NoError(t, os.Symlink("v1", link))
	f, _, _ := runFiles(t, manifests{t, link}, func(cfg *FilesConfig) { cfg.StateDir = t.TempDir(); cfg.Poll = time.Hour })
	require.True(t, exists(f, Nodes, "", "v1"))
	require.NoError(t, os.Symlink("v2", link+".new"))
	require.NoError(t, os.Rename(link+".new", link))
	eventually(t, "the swap is seen", func() bool { return exists(f, Nodes, "", "v2") && !exists(f, Nodes, "", "v1") })
	require.NoError(t, os.WriteFile(filepath.Join(root, "v2", "m.yaml"), []byte(lines("apiVersion: v1", "kind: Node", "metadata: {name: v3}")), 0o644))
	eventually(t, "the new target is watched", func() bool { return exists(f, Nodes, "", "v3") })
}

func TestPollFindsWhatNoNoticeTells(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": webService})
	f, _ := newFiles(t, m, nil)
	m.write("web.yaml", webService+"  sessionAffinity: ClientIP\n")
	f.poll() // the file is younger than its times can prove
	assert.EqualValues(t, "ClientIP", service(t, f, "default", "web").Spec.SessionAffinity)

	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(m.file("web.yaml"), old, old))
	f.poll()
	state := f.files["web.yaml"]
	f.poll()
	assert.Same(t, state, f.files["web.yaml"], "an old, unchanged file is not read again")
}

func TestRejectedDocumentsAtRunTimeBecomeEvents(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": lines("apiVersion: v1", "kind: Service", "metadata: {name: web}", "spec: 1")})
	_, _, stop := runFiles(t, m, func(cfg *FilesConfig) { cfg.Component, cfg.Host = "metallb-speaker", "n1" })
	stop()
	events := readEvents(t, m.file(".herald/events.metallb-speaker.n1.jsonl"))
	require.Len(t, events, 1)
	assert.Equal(t, corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "default", Name: "web", UID: syntheticUID("Service", "default", "web")}, events[0].InvolvedObject)
	assert.Equal(t, ReasonRejected, events[0].Reason)
	assert.Equal(t, "Warning", events[0].Type)
	assert.Contains(t, events[0].Message, "web.yaml:1: Service default/web: ")
	assert.Equal(t, corev1.EventSource{Component: "metallb-speaker", Host: "n1"}, events[0].Source)
	assert.False(t, events[0].LastTimestamp.IsZero())
}

func TestRunMayBeCalledOnce(t *testing.T) {
	m := newManifests(t, nil)
	f, _, stop := runFiles(t, m, nil)
	eventually(t, "it runs", f.running.Load)
	stop()
	require.ErrorContains(t, f.Run(t.Context()), "once")
}
