package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

// DefaultNamespace is MetalLB's namespace unless a Config says otherwise.
const DefaultNamespace = "metallb-system"

// FilesConfig configures the provider that reads a directory.
type FilesConfig struct {
	// Dir is the directory of manifests. Required. Files ending in .yaml, .yml
	// and .json are read, in sub-directories too; what begins with a dot is not.
	Dir string
	// StateDir is where the daemons' writes are kept. Empty: Dir/.herald.
	StateDir string
	// Namespace is MetalLB's; metallb.io objects elsewhere are ignored. Empty:
	// DefaultNamespace.
	Namespace string
	// ReadOnly never touches StateDir: patches fail, and events are logged only.
	ReadOnly bool
	// Component and Host are the source of the events, as in a cluster:
	// "metallb-controller", or "metallb-speaker" and the node. Empty: "herald"
	// and no host.
	Component, Host string
	// Debounce is how long the directory must be quiet before it is read again.
	// Zero: 100 ms.
	Debounce time.Duration
	// Poll is how often the directory is looked at without being told of a
	// change, for file systems that tell nothing. Zero: 10 s.
	Poll time.Duration
	// Logger receives what a user without a cluster wants to know. Nil discards.
	Logger *slog.Logger
}

// Files serves a directory of manifests as an API server would. All methods
// are safe for concurrent use.
type Files struct {
	cfg    FilesConfig
	logger *slog.Logger
	store  *store
	events *eventLog

	// writing serialises what changes the state: reads of the directory and
	// patches. It is never held while a watcher is served.
	running   atomic.Bool
	writing   sync.Mutex
	loaded    bool
	vanished  bool
	root      os.FileInfo // of the directory when it was last read
	files     map[string]*fileState
	dirs      []string
	entries   map[key]*entry
	published map[key]publication
	overlays  map[string]*storedOverlay // by file name
	problems  map[string]*Problem       // by identity; rejected, ignored and warnings
	rejected  []*Problem
	warned    map[string]bool // faults of the state directory already reported
	keptText  string          // content of the file of kept versions
}

// publication records what the stored version of an object was made of.
type publication struct {
	obj     object
	overlay *overlay
}

// NewFiles checks cfg. It reads nothing: that begins with the first List, with
// Run or with Load.
func NewFiles(cfg FilesConfig) (*Files, error) {
	if cfg.Dir == "" {
		return nil, errors.New("source: files: Dir is required")
	}
	if cfg.Debounce < 0 || cfg.Poll < 0 {
		return nil, fmt.Errorf("source: files: Debounce %v and Poll %v must not be negative", cfg.Debounce, cfg.Poll)
	}
	if cfg.StateDir == "" {
		cfg.StateDir = filepath.Join(cfg.Dir, ".herald")
	}
	for _, dir := range []*string{&cfg.Dir, &cfg.StateDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return nil, fmt.Errorf("source: files: %w", err)
		}
		*dir = absolute
	}
	if cfg.StateDir == cfg.Dir {
		return nil, fmt.Errorf("source: files: StateDir must not be Dir itself (%s)", cfg.Dir)
	}
	setIfZero(&cfg.Namespace, DefaultNamespace)
	setIfZero(&cfg.Component, "herald")
	setIfZero(&cfg.Debounce, 100*time.Millisecond)
	setIfZero(&cfg.Poll, 10*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Files{
		cfg:       cfg,
		logger:    cfg.Logger,
		store:     newStore(defaultLogLength),
		events:    newEventLog(cfg),
		files:     make(map[string]*fileState),
		entries:   make(map[key]*entry),
		published: make(map[key]publication),
		overlays:  make(map[string]*storedOverlay),
		problems:  make(map[string]*Problem),
		warned:    make(map[string]bool),
	}
	f.events.prepare = func() error {
		f.writing.Lock()
		defer f.writing.Unlock()
		return f.prepareState()
	}
	return f, nil
}

// ListerWatcher serves a kind to client-go's reflectors and informers. Both
// the plain list-watch and the streaming list are supported; selectors are
// refused. The first List reads the directory when nothing has read it yet,
// and fails when that is impossible.
func (f *Files) ListerWatcher(kind Kind) cache.ListerWatcher {
	info, ok := infoOf(kind)
	if !ok {
		panic(fmt.Sprintf("source: no such kind: %q", kind))
	}
	return &listWatch{info: info, store: f.store, ready: f.ensureLoaded}
}

// Problems returns what is currently rejected, in the order of the files. The
// last good version of these documents, if one is known, is in force.
func (f *Files) Problems() []*Problem {
	f.writing.Lock()
	defer f.writing.Unlock()
	return slices.Clone(f.rejected)
}

func (f *Files) ensureLoaded(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.loaded {
		return nil
	}
	return f.reload(false)
}

// reload brings the store in line with the directory. trust allows to take a
// file as unchanged by its metadata. It fails only when there is nothing to
// fall back on, that is the first time. The caller holds writing.
func (f *Files) reload(trust bool) error {
	// The overlays are listed before the manifests: an overlay in this list
	// whose object is not among the manifests is an orphan, however quickly
	// another process may be adding both.
	names := f.readOverlays()
	if !f.loaded {
		f.readKept()
	}
	tree, err := scanTree(f.cfg.Dir, f.cfg.StateDir)
	if err != nil {
		return f.lost(err)
	}
	if f.replacedByNothing(tree) {
		return f.lost(errReplaced)
	}
	f.root = tree.root
	if f.vanished {
		f.vanished = false
		f.logger.Info("directory of manifests is back", "dir", f.cfg.Dir)
	}
	f.dirs = tree.dirs
	states := f.readFiles(tree, trust)
	m := merge(states, tree.unreadable, f.entries, f.cfg.Namespace)
	f.entries = m.entries
	f.publish()
	f.report(m)
	f.loaded = true
	if !f.cfg.ReadOnly {
		f.tend(m, names)
	}
	return nil
}

// tend keeps the state directory, after the manifests were read. names are the
// overlays that were there before.
func (f *Files) tend(m merged, names []string) {
	if len(f.overlays) > 0 {
		if err := f.prepareState(); err != nil {
			f.warnOnce("state directory cannot be written again", f.cfg.StateDir, err)
		}
	}
	f.writeKept()
	if m.complete {
		f.collectGarbage(names)
	}
}

// errReplaced says that the directory's place is taken by an empty one.
var errReplaced = errors.New("another directory, without manifests, has taken its place (unmounted?)")

// replacedByNothing recognises a directory that has vanished behind an empty
// one, as the mount point does when a disk is unmounted.
func (f *Files) replacedByNothing(t tree) bool {
	return f.root != nil && len(f.files) > 0 && len(t.files) == 0 && !os.SameFile(f.root, t.root)
}

// lost handles a directory that cannot be read.
func (f *Files) lost(err error) error {
	if !f.loaded {
		return fmt.Errorf("source: directory of manifests: %w", err)
	}
	if !f.vanished {
		f.vanished = true
		f.logger.Warn("directory of manifests cannot be read; its last state stays in force", "dir", f.cfg.Dir, "error", err)
	}
	return nil
}

func (f *Files) readFiles(t tree, trust bool) []*fileState {
	states := make([]*fileState, 0, len(t.files))
	files := make(map[string]*fileState, len(t.files))
	for _, file := range t.files {
		state := readState(file, f.files[file.rel], f.cfg.Namespace, trust)
		states = append(states, state)
		files[file.rel] = state
	}
	f.files = files
	return states
}

// publish brings the store in line with entries and overlays.
func (f *Files) publish() {
	var changed []key
	for k := range f.entries {
		if !f.isPublished(k) {
			changed = append(changed, k)
		}
	}
	for k := range f.published {
		if f.entries[k] == nil {
			changed = append(changed, k)
		}
	}
	slices.SortFunc(changed, compareKeys)
	for _, k := range changed {
		f.publishOne(k)
	}
}

func (f *Files) isPublished(k key) bool {
	p, ok := f.published[k]
	return ok && p.obj == f.entries[k].obj && p.overlay == f.overlayFor(k)
}

// publishOne stores one object with its overlay, or removes it.
func (f *Files) publishOne(k key) object {
	e := f.entries[k]
	if e == nil {
		delete(f.published, k)
		f.store.remove(k)
		return nil
	}
	obj := e.obj.DeepCopyObject().(object)
	o := f.overlayFor(k)
	if o != nil {
		o.apply(obj)
	}
	f.published[k] = publication{e.obj, o}
	return f.store.put(k, obj)
}

// overlayFor returns the overlay that applies to the object in force.
func (f *Files) overlayFor(k key) *overlay {
	if k.kind != Services && k.kind != IPAddressPools {
		return nil
	}
	stored, e := f.overlays[overlayName(k)], f.entries[k]
	if stored == nil || e == nil || !stored.overlay.appliesTo(e.obj, e.uidGiven) {
		return nil
	}
	return stored.overlay
}

func compareKeys(a, b key) int {
	kinds := Kinds()
	if d := slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind); d != 0 {
		return d
	}
	if d := strings.Compare(a.namespace, b.namespace); d != 0 {
		return d
	}
	return strings.Compare(a.name, b.name)
}
