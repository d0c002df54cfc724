package gobgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heraldlb/herald/bgp"
)

// DefaultConnectRetry is what a peer without ConnectRetry gets.
const DefaultConnectRetry = 10 * time.Second

// Config configures an [Engine]. The zero value is good where every peer has a
// router ID.
type Config struct {
	// RouterID is the BGP identifier towards peers that have none of their own;
	// [bgp.RouterID] makes one.
	RouterID netip.Addr
	// BFD says that somebody calls SetPath for the peers that have a BFDProfile.
	// Without it such peers are refused.
	BFD bool
	// Logger gets records with the key "peer"; nil discards. Changes of sessions
	// are Info, GoBGP's own words are Debug.
	Logger *slog.Logger
}

// Engine runs BGP sessions. See package bgp for what its methods promise.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	changed chan struct{}
	kick    chan struct{} // sessions has one that was not started
	keep    atomic.Bool

	mu       sync.RWMutex
	sessions map[string]*session
	routes   routeTable
	running  bool
	stopped  bool
}

// New returns an engine without peers. It does no I/O and starts nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.RouterID.IsValid() {
		if err := bgp.CheckRouterID(cfg.RouterID); err != nil {
			return nil, fmt.Errorf("gobgp: RouterID %s: %w: %w", cfg.RouterID, bgp.ErrInvalid, err)
		}
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		cfg: cfg, log: log,
		changed:  make(chan struct{}, 1),
		kick:     make(chan struct{}, 1),
		sessions: make(map[string]*session),
		routes:   newRouteTable(),
	}, nil
}

// SetPeers implements [bgp.Speaker].
func (e *Engine) SetPeers(peers []bgp.Peer) error {
	good, faults := e.check(peers)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return bgp.ErrStopped
	}
	keep := make(map[string]bool, len(good)+len(faults))
	for _, f := range faults {
		keep[f.Peer] = true // its last good version, if there is one
	}
	for _, p := range good {
		keep[p.Name] = true
		if s := e.sessions[p.Name]; s != nil {
			s.setPeer(p)
		} else {
			e.sessions[p.Name] = newSession(e, p)
		}
	}
	for name, s := range e.sessions {
		if !keep[name] {
			delete(e.sessions, name)
			close(s.gone)
		}
	}
	signal(e.kick)
	signal(e.changed)
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// UpdateRoutes implements [bgp.Updater].
func (e *Engine) UpdateRoutes(changes []bgp.Change) error {
	return e.change(func(t *routeTable) ([]netip.Prefix, error) { return t.update(changes) })
}

// SetRoutes implements [bgp.Speaker]. Its cost for equal routes is that of
// comparing them.
func (e *Engine) SetRoutes(routes []bgp.Route) error {
	return e.change(func(t *routeTable) ([]netip.Prefix, error) { return t.replace(routes) })
}

func (e *Engine) change(f func(*routeTable) ([]netip.Prefix, error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return bgp.ErrStopped
	}
	dirty, err := f(&e.routes)
	if len(dirty) > 0 {
		for _, s := range e.sessions {
			s.enqueue(dirty)
		}
	}
	return err
}

// SetPath implements [bgp.PathSetter].
func (e *Engine) SetPath(peer string, path bgp.Path) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	s := e.sessions[peer]
	if s == nil {
		return fmt.Errorf("gobgp: path of %q: %w", peer, bgp.ErrUnknownPeer)
	}
	s.setPath(path)
	return nil
}

// Keep implements [bgp.Keeper].
func (e *Engine) Keep() { e.keep.Store(true) }

// Changed implements [bgp.Speaker].
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Sessions implements [bgp.Speaker].
func (e *Engine) Sessions() []bgp.Session {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]bgp.Session, 0, len(e.sessions))
	for _, s := range e.sessions {
		list = append(list, s.snapshot())
	}
	slices.SortFunc(list, func(a, b bgp.Session) int { return cmp.Compare(a.Peer, b.Peer) })
	return list
}

// Stats sums up.
func (e *Engine) Stats() bgp.Stats {
	stats := bgp.Summarize(e.Sessions())
	e.mu.RLock()
	defer e.mu.RUnlock()
	stats.Routes = len(e.routes.entries)
	return stats
}

// Run implements [bgp.Engine]. It takes about a second at most to return when
// peers do not read what they are sent.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.running {
		e.mu.Unlock()
		return errors.New("gobgp: Run was called before")
	}
	e.running = true
	e.mu.Unlock()

	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for ctx.Err() == nil {
		for _, s := range e.unstarted() {
			wg.Go(func() {
				if err := newWorker(s).run(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		select {
		case <-ctx.Done():
		case <-e.kick:
		}
	}
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	wg.Wait()
	return errors.Join(errs...)
}

// unstarted returns the sessions that have no worker, and counts them as having one.
func (e *Engine) unstarted() []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*session
	for _, s := range e.sessions {
		if !s.started {
			s.started = true
			list = append(list, s)
		}
	}
	return list
}

// signal makes a channel of capacity 1 readable.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
