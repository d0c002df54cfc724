package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run keeps the objects in line with the directory until ctx ends, and writes
// events out. It joins its goroutines before it returns. It fails at once when
// the directory cannot be read; a directory that vanishes later is waited for.
// Run may be called once.
func (f *Files) Run(ctx context.Context) error {
	if f.running.Swap(true) {
		return errors.New("source: files: Run may be called once")
	}
	if err := f.ensureLoaded(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	var joined sync.WaitGroup
	joined.Go(func() { f.events.run(ctx) })
	defer joined.Wait()
	n := f.newNotifier()
	defer n.close()
	f.follow(ctx, n)
	return nil
}

// maxDebounce bounds, in multiples of the debounce time, how long a directory
// that never gets quiet is left unread.
const maxDebounce = 10

// follow reads again what changes.
func (f *Files) follow(ctx context.Context, n *notifier) {
	poll := time.NewTicker(f.cfg.Poll)
	defer poll.Stop()
	back := time.NewTicker(min(f.cfg.Poll, time.Second))
	defer back.Stop()
	quiet := time.NewTimer(0) // what changed while the watches were set up
	defer quiet.Stop()
	pending := pendingChange{all: true}
	n.arm(f)
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-n.events():
			if pending.note(f, event) {
				quiet.Reset(pending.wait(f.cfg.Debounce))
			}
		case err := <-n.errors():
			f.logger.Debug("watching the directory: events were lost", "error", err)
			pending.all = true
			quiet.Reset(pending.wait(f.cfg.Debounce))
		case <-quiet.C:
			f.catchUp(pending)
			pending = pendingChange{}
			n.arm(f)
		case <-poll.C:
			if !f.isVanished() {
				f.poll()
				n.arm(f)
			}
		case <-back.C:
			// A directory that returns may still be filled: wait for quiet.
			if f.isBack() {
				n.arm(f)
				pending.all = true
				quiet.Reset(pending.wait(f.cfg.Debounce))
			}
		}
	}
}

// pendingChange gathers events until the directory is quiet.
type pendingChange struct {
	since    time.Time
	all      bool
	overlays map[string]bool
}

// note takes an event in; it returns false for those that mean nothing.
func (p *pendingChange) note(f *Files, event fsnotify.Event) bool {
	dir, name := filepath.Split(event.Name)
	switch {
	case filepath.Clean(dir) == f.cfg.StateDir:
		if !isOverlayName(name) {
			return false // temporary files, event logs, the lock
		}
		if p.overlays == nil {
			p.overlays = make(map[string]bool)
		}
		p.overlays[name] = true
	case filepath.Clean(dir) == filepath.Dir(f.cfg.Dir) && event.Name != f.cfg.Dir:
		return false // a neighbour of a directory that is a link
	case strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".swp"):
		return false
	default:
		p.all = true
	}
	return true
}

// wait returns how long to wait for quiet.
func (p *pendingChange) wait(debounce time.Duration) time.Duration {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return max(0, min(debounce, debounce*maxDebounce-time.Since(p.since)))
}

// catchUp reads what changed: the overlays alone, when it was only them.
func (f *Files) catchUp(p pendingChange) {
	f.writing.Lock()
	defer f.writing.Unlock()
	if p.all {
		f.reloadRunning(false)
		return
	}
	for name := range p.overlays {
		old := f.overlays[name]
		f.readOverlay(name)
		for _, stored := range []*storedOverlay{old, f.overlays[name]} {
			if stored == nil {
				continue
			}
			if k, ok := stored.overlay.key(); ok && f.entries[k] != nil && !f.isPublished(k) {
				f.publishOne(k)
			}
		}
	}
}

func (f *Files) poll() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.reloadRunning(true)
}

// reloadRunning reads the directory once it has been read before, when there
// is always something to fall back on.
func (f *Files) reloadRunning(trust bool) {
	if err := f.reload(trust); err != nil {
		f.logger.Warn("directory of manifests cannot be read", "error", err)
	}
}

func (f *Files) isVanished() bool {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.vanished
}

// isBack tells whether a directory that vanished can be read again.
func (f *Files) isBack() bool {
	f.writing.Lock()
	defer f.writing.Unlock()
	if !f.vanished {
		return false
	}
	t, err := scanTree(f.cfg.Dir, f.cfg.StateDir)
	return err == nil && !f.replacedByNothing(t)
}

// notifier watches the directories of the tree with inotify. Without it (the
// kernel's limits are reached, the file system tells nothing) the poll remains.
type notifier struct {
	watcher *fsnotify.Watcher // nil: none to be had
	watched map[string]os.FileInfo
	failed  bool
}

func (f *Files) newNotifier() *notifier {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.logger.Warn("no notice of changes; the directory is polled", "every", f.cfg.Poll, "error", err)
		return &notifier{}
	}
	return &notifier{watcher: watcher, watched: make(map[string]os.FileInfo)}
}

func (n *notifier) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // it has no state that could be lost
	}
}

func (n *notifier) events() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n *notifier) errors() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

// arm watches the directories that the last walk saw, the state directory, and
// the place of a directory that is a link. A path whose directory is another
// one now is watched anew.
func (n *notifier) arm(f *Files) {
	if n.watcher == nil {
		return
	}
	wanted := make(map[string]os.FileInfo)
	for _, dir := range f.watchList() {
		if info, err := os.Stat(dir); err == nil {
			wanted[dir] = info
		}
	}
	for dir, info := range n.watched {
		if now := wanted[dir]; now == nil || !os.SameFile(now, info) {
			_ = n.watcher.Remove(dir) // it may have gone by itself
			delete(n.watched, dir)
		}
	}
	for dir, info := range wanted {
		if n.watched[dir] != nil {
			continue
		}
		if err := n.watcher.Add(dir); err != nil {
			if !n.failed {
				n.failed = true
				f.logger.Warn("no notice of changes in a directory; it is polled", "dir", dir, "every", f.cfg.Poll, "error", err)
			}
			continue
		}
		n.watched[dir] = info
	}
}

func (f *Files) watchList() []string {
	f.writing.Lock()
	defer f.writing.Unlock()
	dirs := append([]string{f.cfg.StateDir}, f.dirs...)
	if _, err := os.Stat(f.cfg.StateDir); err != nil && !strings.HasPrefix(f.cfg.StateDir, f.cfg.Dir) {
		dirs = append(dirs, filepath.Dir(f.cfg.StateDir))
	}
	if info, err := os.Lstat(f.cfg.Dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
		dirs = append(dirs, filepath.Dir(f.cfg.Dir))
	}
	return dirs
}
