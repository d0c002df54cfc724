package announce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// settle is the least time between two listings of the links, so that a host
// that starts hundreds of pods does not list all its links for each of them.
const settle = 50 * time.Millisecond

// Run answers and announces until ctx is done, then closes every socket, joins
// every goroutine and returns nil. No packet says goodbye: addresses fall silent.
// It may be called once.
//
// It fails if the sockets may not be opened (the error wraps os.ErrPermission and
// names CAP_NET_RAW) or the links cannot be listed at the start. Later failures
// are counted, logged and retried.
func (a *Announcer) Run(ctx context.Context) (err error) {
	if a.started.Swap(true) {
		return errors.New("announce: Run was called before; make a new Announcer")
	}
	nw, err := a.cfg.Open()
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	var watching sync.WaitGroup
	defer func() {
		err = errors.Join(err, closePorts(a.setPorts(nil)))
		a.releaseLanes()
		a.setLinks(nil)
		watching.Wait()
		err = errors.Join(err, nw.Close())
	}()
	if err := a.sync(nw); err != nil {
		return err
	}
	watching.Go(func() { (&watcher{a: a, disputes: make(map[spot]*dispute)}).run(ctx) })
	a.loop(ctx, nw)
	return nil
}

// loop reacts until ctx is done.
func (a *Announcer) loop(ctx context.Context, nw Network) {
	var (
		synced  = time.Now()
		resync  = synced.Add(a.cfg.Resync)
		refresh = a.nextRefresh()
		timer   = time.NewTimer(0)
	)
	defer timer.Stop()
	for {
		next := resync
		for _, t := range append(a.portTimes(), refresh) {
			if !t.IsZero() && t.Before(next) {
				next = t
			}
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-nw.Changed():
			resync = synced.Add(settle)
		case <-a.addrsChanged:
			for _, p := range a.ports {
				p.memberships.stale = true
			}
		case <-timer.C:
		}
		now := time.Now()
		if !now.Before(resync) {
			if err := a.sync(nw); err != nil {
				a.counters.list.Add(1)
				a.log.Warn("cannot list links, will retry", "err", err)
			}
			synced = time.Now()
			resync = synced.Add(a.cfg.Resync)
		}
		if !refresh.IsZero() && !now.Before(refresh) {
			a.refresh()
			refresh = a.nextRefresh()
		}
		for _, p := range a.ports {
			p.work(nw)
		}
	}
}

func (a *Announcer) portTimes() []time.Time {
	times := make([]time.Time, 0, len(a.ports)+1)
	for _, p := range a.ports {
		times = append(times, p.next())
	}
	return times
}

// nextRefresh returns when to refresh, a tenth early or late, or the zero time.
func (a *Announcer) nextRefresh() time.Time {
	every := a.cfg.Refresh
	if every == 0 {
		return time.Time{}
	}
	return time.Now().Add(every - every/10 + time.Duration(a.cfg.Rand.Int64N(int64(every/5)+1)))
}

// refresh announces everything with one round, everywhere.
func (a *Announcer) refresh() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.ports {
		p.refresh(a.table.Load())
	}
}

// sync makes the ports match the links of the host: a link that is not what it
// was when its port was opened gets a new one, and with it a new announcement.
func (a *Announcer) sync(nw Network) error {
	links, err := nw.Links()
	if err != nil {
		return fmt.Errorf("announce: list links: %w", err)
	}
	a.setMACs(links)
	links = slices.DeleteFunc(links, func(l Link) bool { return unusable(l, a.exclude) != "" })
	slices.SortFunc(links, func(x, y Link) int { return x.Index - y.Index })

	ports := make([]*port, 0, len(links))
	for _, l := range links {
		if i := slices.IndexFunc(a.ports, func(p *port) bool { return p.link.same(l) }); i >= 0 {
			ports = append(ports, a.ports[i])
			a.ports[i].hurry()
		} else {
			ports = append(ports, newPort(a, l))
		}
	}
	// Close before opening: a link may have come back under another name or index.
	gone := slices.DeleteFunc(a.setPorts(ports), func(p *port) bool { return slices.Contains(ports, p) })
	for _, p := range gone {
		a.log.Info("link is not used any more as it was", linkAttrs(p.link))
	}
	if err := closePorts(gone); err != nil {
		a.log.Warn("cannot clean up", "err", err)
	}
	a.releaseLanes()
	for _, p := range ports {
		if !p.opened {
			a.log.Info("link is used", linkAttrs(p.link))
			p.opened = true
			p.open(nw)
		}
		p.work(nw)
	}
	a.setLinks(links)
	return nil
}

// closePorts closes ports side by side, since the kernel takes some 10 ms for each
// packet socket, most of it waiting.
func closePorts(ports []*port) error {
	errs := make([]error, len(ports))
	var wg sync.WaitGroup
	for i, p := range ports {
		wg.Go(func() { errs[i] = p.close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// setPorts replaces the ports and returns the previous ones.
func (a *Announcer) setPorts(ports []*port) (old []*port) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, a.ports = a.ports, ports
	notify(a.heldChanged)
	return old
}

// setLinks publishes the eligible links.
func (a *Announcer) setLinks(links []Link) {
	if !slices.EqualFunc(*a.links.Load(), links, Link.same) {
		a.links.Store(&links)
		notify(a.linksChanged)
	}
}
