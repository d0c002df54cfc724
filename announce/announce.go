package announce

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrAddress is wrapped by the errors of SetAddrs for addresses that cannot be
// announced.
var ErrAddress = errors.New("announce: bad address")

// An Owner is who wants an address to be announced, such as a service. The
// package only compares owners.
type Owner string

// An Advertisement asks to announce an address on behalf of an owner.
type Advertisement struct {
	Addr  netip.Addr
	Owner Owner
	Links []string // names of links; empty: every link
}

// Defaults of Config.
const (
	DefaultRepeat   = 5
	DefaultInterval = 1100 * time.Millisecond
	DefaultRate     = 250_000
	DefaultResync   = 30 * time.Second

	// DefaultClaimGrace is longer than the burst that announces an address by default.
	DefaultClaimGrace = 5 * time.Second
)

// Config configures an [Announcer]. The zero value is good.
type Config struct {
	// Exclude are patterns (package regexp, unanchored) of links that are never
	// used. Nil means DefaultExclude; an empty list excludes nothing.
	Exclude []string

	// Repeat is how many rounds of gratuitous frames announce an address, the first
	// of them at once. Zero means DefaultRepeat.
	Repeat int

	// Interval is the time between two rounds. Zero means DefaultInterval.
	Interval time.Duration

	// Refresh announces every address again with one round after this time, give or
	// take a tenth, for networks whose switches forget MACs faster than their
	// routers do. Zero means never.
	Refresh time.Duration

	// Rate bounds the gratuitous frames that a link sends in a second, for each
	// protocol. Zero means DefaultRate, which announces 10,000 addresses in less
	// than 100 ms and takes a sixth of the smallest-frame rate of a 1 Gbit/s link.
	Rate int

	// Resync is how often links are listed even if no change was reported. Zero
	// means DefaultResync.
	Resync time.Duration

	// ConflictPolicy says what to do about another host that claims an address. The
	// zero value is Report.
	ConflictPolicy ConflictPolicy

	// ClaimGrace is how long claims of another host are thought to be part of a move.
	// In this time after an address was gained or announced anew, here, they are those
	// of its last holder. Of other claims those are no conflict after which the address
	// is given up or announced anew within this time: they are those of its next holder.
	// Zero means DefaultClaimGrace; less than a burst takes gives false alarms.
	ClaimGrace time.Duration

	// Known reports whether claims of a MAC are to be expected, because a live member
	// has it that is taking an address over or giving it up. They are no conflicts. It
	// is called by one goroutine, with no lock held and not for every frame. Nil knows
	// none: then ClaimGrace alone tells a move from a conflict.
	Known func(mac net.HardwareAddr) bool

	// Open gives the links and sockets; Run calls it once and closes what it
	// returns. Nil means the kernel's, which needs CAP_NET_RAW.
	Open func() (Network, error)

	// Rand is the source of jitter. Nil means a seeded one.
	Rand *rand.Rand

	// Logger gets changes of links (Info) and failures that are retried (Warn).
	// Nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	for _, f := range []struct {
		name string
		val  int64
	}{
		{"Repeat", int64(c.Repeat)},
		{"Interval", int64(c.Interval)},
		{"Refresh", int64(c.Refresh)},
		{"Rate", int64(c.Rate)},
		{"Resync", int64(c.Resync)},
		{"ClaimGrace", int64(c.ClaimGrace)},
	} {
		if f.val < 0 {
			errs = append(errs, fmt.Errorf("announce: Config.%s is negative (%d)", f.name, f.val))
		}
	}
	if c.Exclude == nil {
		c.Exclude = DefaultExclude()
	}
	setDefault(&c.Repeat, DefaultRepeat)
	setDefault(&c.Interval, DefaultInterval)
	setDefault(&c.Rate, DefaultRate)
	setDefault(&c.Resync, DefaultResync)
	setDefault(&c.ClaimGrace, DefaultClaimGrace)
	if c.Open == nil {
		c.Open = openKernel
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ConflictPolicy > Yield {
		errs = append(errs, fmt.Errorf("announce: Config.ConflictPolicy is unknown (%d)", c.ConflictPolicy))
	}
	return c, errors.Join(errs...)
}

func setDefault[T comparable](field *T, val T) {
	var zero T
	if *field == zero {
		*field = val
	}
}

// An Announcer answers for a set of addresses on the links of a host. Its
// methods may be called concurrently, before, during and after Run.
type Announcer struct {
	cfg     Config
	exclude *regexp.Regexp
	log     *slog.Logger

	table    atomic.Pointer[table]
	counters counters
	links    atomic.Pointer[[]Link]

	linksChanged chan struct{} // capacity 1, for the user
	addrsChanged chan struct{} // capacity 1, for Run
	started      atomic.Bool
	start        time.Time // when it was made

	macs             atomic.Pointer[map[mac]struct{}] // of all links of the host
	claims           chan claim                       // from the packet path to the watcher
	heldChanged      chan struct{}                    // capacity 1, for the watcher
	conflicts        atomic.Pointer[[]Conflict]
	conflictsChanged chan struct{} // capacity 1, for the user
	inquiries        atomic.Pointer[inquiries]

	// mu orders changes of the table with changes of the ports, so that each
	// address is announced once on each port. The packet path never takes it.
	mu    sync.Mutex
	ports []*port
	lanes []*lane // by slot; nil: free
}

// New validates the configuration. It opens nothing; Run does.
func New(cfg Config) (*Announcer, error) {
	cfg, err := cfg.withDefaults()
	exclude, patternErr := compileExclude(cfg.Exclude)
	if err := errors.Join(err, patternErr); err != nil {
		return nil, err
	}
	a := &Announcer{
		cfg:          cfg,
		exclude:      exclude,
		log:          cfg.Logger,
		linksChanged: make(chan struct{}, 1),
		addrsChanged: make(chan struct{}, 1),
		start:        time.Now(),

		claims:           make(chan claim, claimBuffer),
		heldChanged:      make(chan struct{}, 1),
		conflictsChanged: make(chan struct{}, 1),
	}
	a.table.Store(&table{})
	a.links.Store(new([]Link))
	a.macs.Store(new(map[mac]struct{}))
	a.conflicts.Store(new([]Conflict))
	a.inquiries.Store(new(inquiries))
	return a, nil
}

// SetAddrs replaces the set of announced addresses. Addresses that are new, or
// newly allowed on a link, are announced there at once and in a burst; addresses
// that are gone are no longer answered when SetAddrs returns, but for frames that
// were under way. It never waits for the network and does nothing if the set is
// what it was.
//
// Several owners may ask for one address: it stays until the last is gone, and
// is announced on the union of their links. Links that do not exist (yet) are no
// error; see Links.
//
// If an address cannot be announced (not unicast, a zone), the error wraps
// ErrAddress, names every such address, and the whole set is refused.
func (a *Announcer) SetAddrs(ads []Advertisement) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.table.Load()
	next, err := newTable(ads, old)
	if err != nil {
		return err
	}
	if next.equal(old) {
		return nil
	}
	a.table.Store(next)
	for _, p := range a.ports {
		p.announce(next.arrivals(old, p.link.Name))
	}
	notify(a.addrsChanged)
	notify(a.heldChanged)
	return nil
}

// Reannounce announces every held address anew with a burst on all of its links, although nothing has changed here: others
// may have learned otherwise, as from a node that believed to be alone while the network was in two parts and claimed
// everything. It never waits for the network.
func (a *Announcer) Reannounce() {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.table.Load()
	for _, p := range a.ports {
		p.announce(t.all)
	}
	notify(a.addrsChanged)
}

// Links returns the links that are in use at the moment, by index. A link that
// is down, has no carrier, is excluded or otherwise unfit is not among them.
// It is empty until Run has looked.
func (a *Announcer) Links() []Link {
	links := slices.Clone(*a.links.Load())
	for i := range links {
		links[i].HardwareAddr = slices.Clone(links[i].HardwareAddr)
	}
	return links
}

// LinksChanged carries a token after the result of Links has changed. It has a
// capacity of one and is for one receiver.
func (a *Announcer) LinksChanged() <-chan struct{} { return a.linksChanged }

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// linkAttrs describes a link in the log.
func linkAttrs(l Link) slog.Attr {
	return slog.Group("link", "name", l.Name, "index", l.Index, "mac", l.HardwareAddr.String())
}
