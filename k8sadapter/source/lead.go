package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLeadLost is returned by [Files.Lead] when another process took the lead, because the state directory was replaced
// by another one: what was led has ended, and the process must start anew.
var ErrLeadLost = errors.New("source: files: the lead was lost")

// leadName is the file of the state directory that the leading process keeps locked.
const leadName = ".leader"

// leadRetry is the time between two attempts to take the lead, and between two looks whether it still holds.
const leadRetry = 500 * time.Millisecond

// Lead waits until no other process leads on the same state directory, reads the directory again, so that lead sees all
// that its predecessor has written, and runs lead. Two controllers that both gave addresses in one directory would
// undo each other's decisions for ever. The kernel gives the lock back when the process ends, however it ends.
//
// Where the state directory cannot hold a lock (it is not writable, the file system has none), Lead warns and runs lead
// without: nothing can be written there, or nobody can be kept away. It returns nil when ctx was cancelled, the
// error of lead, or [ErrLeadLost]; in every case lead has returned.
func (f *Files) Lead(ctx context.Context, lead func(ctx context.Context) error) error {
	if err := f.ensureLoaded(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	held, err := f.waitForLead(ctx)
	if err != nil {
		return nil //nolint:nilerr // cancelled before the lead was ours: nothing was done
	}
	if held == nil {
		return lead(ctx)
	}
	defer func() { f.close(held) }() // held: whichever file it is by then
	if err := f.catchUpNow(); err != nil {
		return err
	}
	leading, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- lead(leading) }()
	look := time.NewTicker(leadRetry)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-look.C:
			renewed, lost := f.renewLead(held)
			if lost {
				end()
				return errors.Join(<-ended, ErrLeadLost)
			}
			held = renewed
		}
	}
}

// waitForLead returns the locked file, or nil when there can be none. It fails when ctx ends.
func (f *Files) waitForLead(ctx context.Context) (*os.File, error) {
	told := false
	for ctx.Err() == nil {
		held, err := f.tryLead()
		switch {
		case err == nil:
			if told {
				f.logger.Info("the lead is free: this process serves the directory now", "dir", f.cfg.Dir)
			}
			return held, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.logger.Warn("cannot lock the state directory (choose another with --state): no other controller must serve it",
				"dir", f.cfg.StateDir, "error", err)
			return nil, nil
		case !told:
			told = true
			f.logger.Info("another process serves the directory: waiting until it ends", "dir", f.cfg.Dir)
		}
		select {
		case <-ctx.Done():
		case <-time.After(leadRetry):
		}
	}
	return nil, ctx.Err()
}

// tryLead locks the file in the state directory as it is now.
func (f *Files) tryLead() (*os.File, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := f.prepareState(); err != nil {
		return nil, err
	}
	path := filepath.Join(f.cfg.StateDir, leadName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.close(file)
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// renewLead looks whether the locked file is still in its place. When the state directory was removed or replaced, the
// lead is taken anew where it is now; lost says that another process was quicker.
func (f *Files) renewLead(held *os.File) (renewed *os.File, lost bool) {
	path := filepath.Join(f.cfg.StateDir, leadName)
	mine, err := held.Stat()
	if err != nil {
		return held, false
	}
	if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
		return held, false
	}
	fresh, err := f.tryLead()
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return held, true
	case err != nil:
		return held, false // the directory is gone: nobody can lead there before it is back
	}
	f.close(held)
	return fresh, false
}

// catchUpNow reads the directory and what other processes have written.
func (f *Files) catchUpNow() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.reload(false)
}
