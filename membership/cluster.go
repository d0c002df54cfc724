package membership

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"
)

var (
	// ErrStarted is returned by a second call of [Cluster.Run].
	ErrStarted = errors.New("membership: Run may be called once")
	// ErrNotRunning is returned by [Cluster.Drain] when Run is not running.
	ErrNotRunning = errors.New("membership: not running")
)

// Cluster is this node's membership in a gossip cluster. Use [New]. All methods
// may be called concurrently.
type Cluster struct {
	cfg         Config
	log         *slog.Logger
	roster      *roster
	counters    counters
	conflictLog limiter

	rejoin     signal // somebody asks to join the seeds now
	conflicted signal // two nodes claim one name
	dirty      signal // the description of this node has changed
	pushes     chan chan<- error

	started atomic.Bool
	ready   chan struct{} // closed when the sockets are open
	stopped chan struct{} // closed when Run has returned
	local   atomic.Pointer[netip.AddrPort]
	list    atomic.Pointer[memberlist.Memberlist] // while Run runs
	meta    atomic.Pointer[[]byte]                // own, encoded
	version atomic.Uint64                         // of own

	mu   sync.Mutex
	own  description
	ring *memberlist.Keyring
}

// New checks cfg, reporting all its faults together, and returns a cluster that
// does not run yet. It opens nothing and starts nothing.
func New(cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ring := &memberlist.Keyring{}
	for _, key := range cfg.Keys {
		if err := ring.AddKey(key); err != nil {
			return nil, fmt.Errorf("membership: %w", err)
		}
	}
	own := description{eligible: true}
	c := &Cluster{
		cfg: cfg,
		log: cfg.Logger,
		roster: newRoster(Member{
			Name: cfg.Name, Addr: cfg.Advertise.Addr(), Port: cfg.Advertise.Port(),
			Described: true, Eligible: own.eligible,
		}),
		rejoin:     newSignal(),
		conflicted: newSignal(),
		dirty:      newSignal(),
		pushes:     make(chan chan<- error),
		ready:      make(chan struct{}),
		stopped:    make(chan struct{}),
		own:        own,
		ring:       ring,
	}
	c.local.Store(&netip.AddrPort{})
	c.storeMeta()
	return c, nil
}

// Run opens the sockets, joins the seeds and takes part in the gossip until ctx
// ends. Then it tells the others that this node leaves (which takes about one
// second), closes the sockets and waits for all goroutines, so that another
// Cluster can be started on the same port at once.
//
// It returns nil after ctx has ended. It returns an error, and at once, if the
// sockets cannot be opened (an error that wraps syscall.EADDRINUSE if another
// process has the port) or if it is called a second time ([ErrStarted]). A
// member that cannot be reached is no error.
//
// Waiting for goroutines is a matter of milliseconds, unless a probe of a
// member that does not answer is under way: memberlist ends it after one
// ProbeInterval, or several if Stats().Health is not 0.
func (c *Cluster) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	defer close(c.stopped)
	w, err := openWire(ctx, &c.cfg)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end was asked for, that is why it failed
		}
		return err
	}
	c.local.Store(&w.local)
	c.roster.update(c.cfg.Name, func(m *Member) { m.Port = w.advertise.Port() })

	gossip := c.newGossipLog()
	workers := newTracker(c)
	told := c.version.Load()
	var list *memberlist.Memberlist
	workers.do(ctx, func() { list, err = memberlist.Create(c.gossipConfig(w, gossip)) })
	if err != nil {
		return errors.Join(fmt.Errorf("membership: %w", err), w.Shutdown())
	}
	c.list.Store(list)
	c.logStart(w)

	var loops sync.WaitGroup
	loops.Go(func() { newJoiner(c, list).run(ctx) })
	loops.Go(func() { c.pushLoop(ctx, list, told) })
	close(c.ready)
	<-ctx.Done()

	c.roster.freeze()
	gossip.leaving.Store(true)
	w.stopStreams()
	if err := list.Leave(c.spreadTimeout()); err != nil {
		c.log.Warn("membership: left without knowing that anybody heard it", "error", err)
	}
	loops.Wait()
	c.list.Store(nil)
	err = errors.Join(list.Shutdown(), workers.wait(c.cfg.Profile))
	gossip.ended.Store(true)
	c.log.Info("membership: left")
	return err
}

func (c *Cluster) newGossipLog() *gossipLog {
	return &gossipLog{
		log:     c.log,
		refused: func() { c.counters.refused.Add(1) },
		suspected: func(name string) {
			if c.roster.suspect(name) {
				c.counters.suspicions.Add(1)
			}
		},
	}
}

func (c *Cluster) gossipConfig(w *wire, gossip *gossipLog) *memberlist.Config {
	callbacks := delegate{c: c}
	conf := memberlist.DefaultLANConfig()
	c.cfg.Profile.apply(conf)
	conf.Name = c.cfg.Name
	conf.Label = c.cfg.Label
	conf.BindAddr, conf.BindPort = w.local.Addr().String(), int(w.local.Port())
	conf.AdvertiseAddr, conf.AdvertisePort = w.advertise.Addr().String(), int(w.advertise.Port())
	conf.Transport = w
	conf.Keyring = c.ring
	conf.DeadNodeReclaimTime = reclaimTime
	conf.Delegate, conf.Events, conf.Conflict = callbacks, callbacks, callbacks
	conf.Alive, conf.Ping = callbacks, callbacks
	conf.Logger = log.New(gossip, "", 0)
	return conf
}

func (c *Cluster) logStart(w *wire) {
	encrypted := len(c.ring.GetKeys()) > 0
	c.log.Info("membership: running", "bind", w.local, "advertise", w.advertise, "encrypted", encrypted)
	switch {
	case !encrypted:
		c.log.Warn("membership: gossip is neither encrypted nor authenticated; set a secret")
	case !c.cfg.Profile.GossipVerifyIncoming || !c.cfg.Profile.GossipVerifyOutgoing:
		c.log.Warn("membership: gossip without encryption is accepted or sent, as the profile says")
	}
}

// Ready is closed when Run has opened its sockets and takes part in the gossip.
// It says nothing of other members.
func (c *Cluster) Ready() <-chan struct{} { return c.ready }

// LocalAddr returns where the sockets are bound, with the port that was chosen
// if Bind's was 0. It is the zero AddrPort before Ready is closed.
func (c *Cluster) LocalAddr() netip.AddrPort { return *c.local.Load() }

// Members returns a copy of the list of members, sorted by name, this node
// always among them. Before Run it is this node alone; after Run's context has
// ended it stays what it was, so that a node that leaves does not believe that
// it is alone.
func (c *Cluster) Members() []Member { return c.roster.members() }

// Changed returns a channel that holds a signal if the list of members, or
// anything in it, has changed since the last signal was taken. There is one
// signal for any number of changes, and one channel for all callers. It is
// never closed.
func (c *Cluster) Changed() <-chan struct{} { return c.roster.changed }

// Rejoin asks to join all seeds now, also those that are members as far as this
// node knows, rather than when the rejoin interval is over; for instance because
// the SeedSource has something new, or a link came up and this node may have been
// cut off. It does not wait, and requests made during an attempt are one.
func (c *Cluster) Rejoin() { c.rejoin.raise() }

// SetKeys replaces the keys: the first encrypts, all decrypt. It works while
// Run runs. To change a key without a partition go in three rounds over all
// nodes: (old, new), (new, old), (new).
//
// It can turn encryption on for a cluster that had no keys, but not off
// ([ErrEncryptionOff]). On any error the keys stay what they were.
func (c *Cluster) SetKeys(keys [][]byte) error {
	keys, err := cloneKeys(keys)
	if err != nil {
		return fmt.Errorf("membership: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(keys) == 0 {
		if len(c.ring.GetKeys()) > 0 {
			return ErrEncryptionOff
		}
		return nil
	}
	if err := installKeys(c.ring, keys); err != nil {
		return fmt.Errorf("membership: %w", err)
	}
	c.log.Info("membership: keys replaced", "keys", len(keys))
	return nil
}
