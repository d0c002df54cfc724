package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// DefaultPort is the gossip port of MetalLB and of memberlist.
const DefaultPort = 7946

const (
	defaultRejoinInterval = 60 * time.Second
	defaultDrainSettle    = time.Second

	// reclaimTime is how long a dead member keeps its name from a node with
	// another address. memberlist's default is "until forgotten", during which
	// a node that came back with another address sees the others and is not
	// seen by them (memberlist#157).
	reclaimTime = time.Millisecond
)

// SeedSource says where other members may be found. Seeds may block until ctx
// ends; it is asked before every attempt to join. The node's own address may be
// among the seeds. A source that returns an error is asked again.
type SeedSource interface {
	Seeds(ctx context.Context) ([]netip.AddrPort, error)
}

// SeedFunc makes a [SeedSource] of a function.
type SeedFunc func(ctx context.Context) ([]netip.AddrPort, error)

// Seeds calls f.
func (f SeedFunc) Seeds(ctx context.Context) ([]netip.AddrPort, error) { return f(ctx) }

// Addresses is a [SeedSource] that never changes.
func Addresses(seeds ...netip.AddrPort) SeedSource {
	return SeedFunc(func(context.Context) ([]netip.AddrPort, error) { return seeds, nil })
}

// Config is what a [Cluster] is made of.
type Config struct {
	// Name is the name of the node, unique in the cluster. Required. In
	// Kubernetes it is the name of the Node, so that endpoints and candidates
	// can be matched.
	Name string
	// Bind is where the sockets are opened, UDP and TCP. Required. A loopback
	// address is accepted, as it was asked for. Port 0 takes a free port; see
	// [Cluster.LocalAddr].
	Bind netip.AddrPort
	// Advertise is where the others reach this node. The zero Addr means
	// Bind's, and port 0 means Bind's. It is required if Bind's address is
	// unspecified (0.0.0.0, ::), because guessing among the addresses of a
	// host goes wrong.
	Advertise netip.AddrPort

	// Keys encrypt the gossip: the first encrypts, all decrypt. Each has 16, 24
	// or 32 octets; see [DeriveKey]. None means no encryption and no
	// authentication.
	Keys [][]byte
	// Label keeps clusters on one network apart. Empty, the default, is what
	// MetalLB uses.
	Label string
	// Seeds says where other members may be found. nil means that this node
	// waits to be found.
	Seeds SeedSource
	// RejoinInterval is the time between attempts to join seeds that are not
	// members; each wait is up to 10 % shorter or longer. 0 means 60 s.
	RejoinInterval time.Duration
	// DrainSettle is how long [Cluster.Drain] waits after the others have been
	// told. 0 means 1 s, less than 0 not at all.
	DrainSettle time.Duration
	// Profile holds the parameters of the protocol. The zero value means
	// [LAN].
	Profile Profile

	// Transport opens the sockets. nil means the real network.
	Transport Transport
	// Logger receives memberlist's log as well. nil discards.
	Logger *slog.Logger
	// Rand makes the jitter of joining. nil means one with a random seed. It is
	// used by Run only.
	Rand *rand.Rand
}

// complete returns a checked copy with the defaults filled in.
func (c Config) complete() (Config, error) {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("no name: Name must be the name of this node"))
	}
	errs = append(errs, c.completeAddresses())
	var err error
	if c.Keys, err = cloneKeys(c.Keys); err != nil {
		errs = append(errs, err)
	}
	if len(c.Label) > memberlist.LabelMaxSize {
		errs = append(errs, fmt.Errorf("label has %d octets, may have %d", len(c.Label), memberlist.LabelMaxSize))
	}
	if c.RejoinInterval < 0 {
		errs = append(errs, fmt.Errorf("rejoin interval is %v, must not be negative", c.RejoinInterval))
	}
	if c.Profile == (Profile{}) {
		c.Profile = LAN()
	} else if err := c.Profile.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("profile: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, fmt.Errorf("membership: %w", err)
	}
	c.fillDefaults()
	return c, nil
}

func (c *Config) fillDefaults() {
	if c.Seeds == nil {
		c.Seeds = Addresses()
	}
	if c.RejoinInterval == 0 {
		c.RejoinInterval = defaultRejoinInterval
	}
	if c.DrainSettle == 0 {
		c.DrainSettle = defaultDrainSettle
	}
	if c.Transport == nil {
		c.Transport = realNetwork{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("node", c.Name)
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
}

// completeAddresses checks Bind and Advertise and derives what is missing.
func (c *Config) completeAddresses() error {
	c.Bind = unmapPort(c.Bind)
	bind, advertise := c.Bind.Addr(), c.Advertise.Addr().Unmap()
	if !bind.IsValid() {
		return errors.New("no bind address: Bind must be an address of this node")
	}
	port := c.Advertise.Port()
	if port == 0 {
		port = c.Bind.Port()
	}
	if !advertise.IsValid() {
		advertise = bind
	}
	c.Advertise = netip.AddrPortFrom(advertise, port)
	switch {
	case bind.Zone() != "" || bind.IsLinkLocalUnicast() || bind.IsMulticast():
		return fmt.Errorf("bind address %s: link-local and multicast addresses cannot be used", bind)
	case advertise.IsUnspecified():
		return fmt.Errorf("bind address %s: set Advertise to the address at which the others reach this node", bind)
	case advertise.Zone() != "" || advertise.IsLinkLocalUnicast() || advertise.IsMulticast():
		return fmt.Errorf("advertise address %s: link-local and multicast addresses cannot be used", advertise)
	case advertise.IsLoopback() && !bind.IsLoopback():
		return fmt.Errorf("advertise address %s: nobody else reaches a loopback address (bind to one if that is wanted)", advertise)
	case !bind.IsUnspecified() && bind.Is4() != advertise.Is4():
		return fmt.Errorf("bind address %s and advertise address %s are of different families", bind, advertise)
	}
	return nil
}

// seeds asks the source, and returns its answer in canonical form, without
// repetitions.
func (c *Config) seeds(ctx context.Context) ([]netip.AddrPort, error) {
	seeds, err := c.Seeds.Seeds(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]netip.AddrPort, 0, len(seeds))
	for _, seed := range seeds {
		if seed = unmapPort(seed); seed.IsValid() && seed.Port() != 0 {
			list = append(list, seed)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list), nil
}

func unmapPort(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
