package source

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// storedOverlay is an overlay as it stands on the disk.
type storedOverlay struct {
	overlay *overlay
	sum     [sha256.Size]byte
}

// corruptSuffix is appended to the name of a file that had to be moved aside.
const corruptSuffix = ".corrupt"

// keptName is the file that holds the last good version of documents that are
// no longer good, so that a restart in the middle of an edit loses nothing.
const keptName = "kept.json"

// readOverlays brings the overlays in memory in line with the state directory
// and returns the names of their files.
func (f *Files) readOverlays() []string {
	entries, err := os.ReadDir(f.cfg.StateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.warnOnce("state directory cannot be read; what is known of it stays in force", f.cfg.StateDir, err)
		return nil
	}
	if err != nil && len(f.overlays) > 0 {
		return nil // it has vanished: prepareState writes it again
	}
	var names []string
	for _, entry := range entries {
		if isOverlayName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	for _, name := range names {
		f.readOverlay(name)
	}
	for name := range f.overlays {
		if _, there := slices.BinarySearch(names, name); !there { // ReadDir sorts
			delete(f.overlays, name)
		}
	}
	return names
}

// prepareState makes sure that the state directory exists. When it has
// vanished while running, what is known is written again, all of it at once.
// It refuses to make anything in the place of a directory of manifests that
// has vanished: that would fill the mount point of a disk. The caller holds
// writing.
func (f *Files) prepareState() error {
	if _, err := os.Stat(f.cfg.StateDir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.HasPrefix(f.cfg.StateDir, f.cfg.Dir+string(filepath.Separator)) {
		info, err := os.Stat(f.cfg.Dir)
		if err != nil {
			return err
		}
		if f.root != nil && !os.SameFile(f.root, info) {
			return errReplaced
		}
	}
	parent := filepath.Dir(f.cfg.StateDir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	if len(f.overlays) == 0 {
		return mkdir(f.cfg.StateDir)
	}
	f.warnOnce("state directory has vanished; it is written again", f.cfg.StateDir, fs.ErrNotExist)
	fresh, err := os.MkdirTemp(parent, ".herald-")
	if err != nil {
		return err
	}
	for name, stored := range f.overlays {
		if _, err := writeOverlay(filepath.Join(fresh, name), stored.overlay); err != nil {
			return errors.Join(err, os.RemoveAll(fresh))
		}
	}
	if err := errors.Join(os.Chmod(fresh, 0o755), os.Rename(fresh, f.cfg.StateDir)); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return nil
}

// mkdir makes a directory, unless another process was quicker.
func mkdir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// writeOverlay writes one overlay and returns it as it is on the disk.
func writeOverlay(path string, o *overlay) (*storedOverlay, error) {
	data, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	if err := writeFile(path, data); err != nil {
		return nil, err
	}
	return &storedOverlay{o, sha256.Sum256(data)}, nil
}

// readOverlay brings one overlay in line with its file. The caller publishes.
func (f *Files) readOverlay(name string) {
	path := filepath.Join(f.cfg.StateDir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		delete(f.overlays, name)
		return
	}
	if err != nil {
		f.warnOnce("overlay cannot be read", path, err)
		return
	}
	sum := sha256.Sum256(data)
	if old := f.overlays[name]; old != nil && old.sum == sum {
		return
	}
	o, _, err := decodeOverlay(name, data)
	if err != nil {
		delete(f.overlays, name)
		f.moveAside(path, err)
		return
	}
	f.overlays[name] = &storedOverlay{o, sum}
}

// moveAside takes a damaged file out of the way, keeping it for inspection.
func (f *Files) moveAside(path string, cause error) {
	if f.cfg.ReadOnly {
		f.warnOnce("file of the state directory is damaged; ignored", path, cause)
		return
	}
	f.warnOnce("file of the state directory is damaged; moved aside", path, cause)
	if err := os.Rename(path, path+corruptSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.warnOnce("damaged file cannot be moved aside", path, err)
	}
}

// warnOnce reports a fault of the state directory, unless the same fault of
// the same file was reported before.
func (f *Files) warnOnce(message, path string, err error) {
	id := message + "\x00" + path + "\x00" + err.Error()
	if !f.warned[id] {
		f.warned[id] = true
		f.logger.Warn("fault of the state directory", "what", message, "file", path, "error", err)
	}
}

// collectGarbage removes the overlays, out of those that were there before the
// manifests were read, that belong to no object, and left-over temporary files.
func (f *Files) collectGarbage(names []string) {
	for _, name := range names {
		stored := f.overlays[name]
		if stored == nil {
			continue
		}
		k, _ := stored.overlay.key()
		if f.overlayFor(k) == stored.overlay {
			continue
		}
		path := filepath.Join(f.cfg.StateDir, name)
		if err := removeIfThere(path); err != nil {
			f.warnOnce("overlay of an object that is gone cannot be removed", path, err)
			continue
		}
		delete(f.overlays, name)
		f.logger.Debug("overlay removed with its object", "kind", stored.overlay.Kind,
			"namespace", stored.overlay.Namespace, "name", stored.overlay.Name)
	}
	f.collectTemp()
}

// collectTemp removes temporary files that a killed process left.
func (f *Files) collectTemp() {
	entries, err := os.ReadDir(f.cfg.StateDir)
	if err != nil {
		return // there is none yet
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), tempPrefix) || time.Since(info.ModTime()) < time.Hour {
			continue
		}
		path := filepath.Join(f.cfg.StateDir, entry.Name())
		if err := removeIfThere(path); err != nil {
			f.warnOnce("left-over file cannot be removed", path, err)
		}
	}
}

// keptObject is one entry of the file of kept versions.
type keptObject struct {
	File     string          `json:"file"`
	Line     int             `json:"line,omitempty"`
	UIDGiven bool            `json:"uidGiven,omitempty"`
	Object   json.RawMessage `json:"object"`
}

// holdsSecret says that an object must not be written where others can read it.
// Its last good version does not outlive the process: a peer is then held back.
func holdsSecret(obj object) bool {
	switch o := obj.(type) {
	case *corev1.Secret:
		return true
	case *v1beta2.BGPPeer:
		return o.Spec.Password != ""
	}
	return false
}

// writeKept stores the versions that are kept although their documents are no
// longer good. Without any there is no file.
func (f *Files) writeKept() {
	var keys []key
	for k, e := range f.entries {
		if e.kept && !holdsSecret(e.obj) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	list := make([]keptObject, 0, len(keys))
	for _, k := range keys {
		e := f.entries[k]
		data, err := json.Marshal(e.obj)
		if err != nil {
			f.warnOnce("last good version cannot be kept for a restart", e.file, err)
			continue
		}
		list = append(list, keptObject{e.file, e.line, e.uidGiven, data})
	}
	path := filepath.Join(f.cfg.StateDir, keptName)
	if len(list) == 0 {
		if err := removeIfThere(path); err != nil {
			f.warnOnce("file of last good versions cannot be removed", path, err)
		}
		f.keptText = ""
		return
	}
	data, err := json.MarshalIndent(list, "", " ")
	if err != nil || string(data) == f.keptText {
		return
	}
	if err := errors.Join(f.prepareState(), writeFile(path, data)); err != nil {
		f.warnOnce("last good versions cannot be kept for a restart", path, err)
		return
	}
	f.keptText = string(data)
}

// readKept makes the kept versions of an earlier process the last known ones.
func (f *Files) readKept() {
	path := filepath.Join(f.cfg.StateDir, keptName)
	data, err := os.ReadFile(path)
	if err != nil {
		return // normally there is none
	}
	var list []keptObject
	if err := json.Unmarshal(data, &list); err != nil {
		f.moveAside(path, err)
		return
	}
	f.keptText = string(data)
	for _, item := range list {
		h := readHeader(item.Object)
		info, ok := infoFor(schema.FromAPIVersionAndKind(h.apiVersion, h.gvk.Kind))
		if !ok {
			continue
		}
		obj := info.newObject()
		if err := json.Unmarshal(item.Object, obj); err != nil || obj.GetName() == "" {
			continue
		}
		k := key{info.kind, obj.GetNamespace(), obj.GetName()}
		f.entries[k] = &entry{obj: obj, uidGiven: item.UIDGiven, file: item.File, line: item.Line, kept: true}
	}
}
