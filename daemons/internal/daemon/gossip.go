package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/heraldlb/herald/membership"
)

// DefaultGossipPort is where speakers gossip, TCP and UDP: memberlist's and MetalLB's default.
const DefaultGossipPort = 7946

// memberlistFile tunes the gossip; it may be absent. Its format is MetalLB's.
const memberlistFile = "/etc/metallb/memberlist/config.json"

// GossipFlags are the flags that concern the membership. Names and defaults are MetalLB's. Register says what each means.
type GossipFlags struct {
	BindAddr, Labels, SecretKeyPath string
	Profile                         string // lan, wan or fast
	Port                            uint16 // TCP and UDP
	WAN                             bool   // as Profile wan

	portGiven bool // by a flag, which counts more than the environment
}

// Register adds the flags to fs.
func (f *GossipFlags) Register(fs *flag.FlagSet) {
	fs.StringVar(&f.BindAddr, "ml-bindaddr", os.Getenv("METALLB_ML_BIND_ADDR"), "`ADDRESS` of this node to gossip on (env METALLB_ML_BIND_ADDR); without one, the API's Nodes are the members")
	f.Port = DefaultGossipPort
	fs.Func("ml-bindport", "`PORT` to gossip on, TCP and UDP (env METALLB_ML_BIND_PORT; default 7946)", f.setPort)
	fs.StringVar(&f.Labels, "ml-labels", os.Getenv("METALLB_ML_LABELS"), "`SELECTOR` of the speaker pods, to find the other speakers (env METALLB_ML_LABELS)")
	fs.StringVar(&f.SecretKeyPath, "ml-secret-key-path", os.Getenv("METALLB_ML_SECRET_KEY_PATH"), "`DIR` with the file secretkey, to encrypt the gossip (env METALLB_ML_SECRET_KEY_PATH)")
	fs.BoolVar(&f.WAN, "ml-wan-config", false, "gossip with memberlist's WAN timings; as --ml-profile wan")
	fs.StringVar(&f.Profile, "ml-profile", "lan", "`TIMINGS` of the gossip, the same on all nodes: lan, wan, or fast (a dead node is replaced in about a second)")
}

func (f *GossipFlags) setPort(text string) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("%q is no port (1..65535)", text)
	}
	f.Port, f.portGiven = uint16(port), true
	return nil
}

// Resolve takes the port from METALLB_ML_BIND_PORT where no flag gave one. It is called after the flags are parsed, and
// before Port is used.
func (f *GossipFlags) Resolve() error {
	env := os.Getenv("METALLB_ML_BIND_PORT")
	if env == "" || f.portGiven {
		return nil
	}
	if err := f.setPort(env); err != nil {
		return fmt.Errorf("METALLB_ML_BIND_PORT: %w", err)
	}
	return nil
}

// Cluster returns the membership that the flags ask for, or nil where the API's Nodes are to be the members: without an
// address to gossip on or, in a cluster, without a selector to find the others with.
func (f *GossipFlags) Cluster(node string, inCluster bool, seeds membership.SeedSource, log *slog.Logger) (*membership.Cluster, error) {
	if f.BindAddr == "" || inCluster && f.Labels == "" {
		log.Info("gossip is off: the Nodes that the API knows are the members",
			"hint", "give --ml-bindaddr and, in a cluster, --ml-labels to detect dead nodes in seconds")
		return nil, nil
	}
	addr, err := netip.ParseAddr(f.BindAddr)
	if err != nil {
		return nil, fmt.Errorf("--ml-bindaddr %q: %w", f.BindAddr, err)
	}
	key, err := f.key(log)
	if err != nil {
		return nil, err
	}
	profile, err := f.profile()
	if err != nil {
		return nil, err
	}
	cfg := membership.Config{
		Name: node, Bind: netip.AddrPortFrom(addr, f.Port), Seeds: seeds, Profile: profile, Logger: log,
	}
	if key != nil {
		cfg.Keys = [][]byte{key}
	}
	return membership.New(cfg)
}

func (f *GossipFlags) key(log *slog.Logger) ([]byte, error) {
	if f.SecretKeyPath == "" {
		log.Warn("the gossip is not encrypted: anyone on the network can claim addresses", "hint", "give --ml-secret-key-path")
		return nil, nil
	}
	file := filepath.Join(f.SecretKeyPath, "secretkey")
	secret, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the gossip secret: %w; create the Secret with a key %q and mount it at --ml-secret-key-path %s",
			err, "secretkey", f.SecretKeyPath)
	}
	if len(secret) == 0 {
		log.Warn("the gossip is not encrypted: its secret is empty", "file", file)
		return nil, nil
	}
	return membership.DeriveKey(secret), nil
}

func (f *GossipFlags) profile() (membership.Profile, error) {
	var base membership.Profile
	switch {
	case f.WAN && f.Profile != "lan" && f.Profile != "wan":
		return base, fmt.Errorf("--ml-wan-config and --ml-profile %s exclude each other", f.Profile)
	case f.WAN || f.Profile == "wan":
		base = membership.WAN()
	case f.Profile == "lan":
		base = membership.LAN()
	case f.Profile == "fast":
		base = membership.Fast()
	default:
		return base, fmt.Errorf("--ml-profile %q: want lan, wan or fast", f.Profile)
	}
	text, err := os.ReadFile(memberlistFile)
	if errors.Is(err, fs.ErrNotExist) {
		return base, nil
	}
	if err != nil {
		return base, fmt.Errorf("read the memberlist file: %w", err)
	}
	profile, err := membership.ParseProfile(base, text)
	if err != nil {
		return base, fmt.Errorf("%s: %w", memberlistFile, err)
	}
	return profile, nil
}
