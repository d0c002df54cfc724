package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/metrics"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/membership"
)

// Source is where the speaker reads objects and sends Events. *source.Kube and *source.Files are Sources.
// Both methods are safe for concurrent use; Event never blocks and never fails.
type Source interface {
	ListerWatcher(kind source.Kind) cache.ListerWatcher
	Event(obj runtime.Object, eventType, reason, message string)
}

// Membership says which nodes are alive. Changed is a level signal of capacity 1: after it, Members is read anew.
// *membership.Cluster and *membership.Static are Memberships.
type Membership interface {
	Members() []membership.Member
	Changed() <-chan struct{}
}

// Announcer makes addresses answer on the links of this node. SetAddrs is told the whole desired state, never blocks,
// and does nothing for an equal one. Reannounce tells the network of all of it once more. *announce.Announcer is an
// Announcer.
type Announcer interface {
	Reannounce()
	SetAddrs(ads []announce.Advertisement) error
	Links() []announce.Link
	LinksChanged() <-chan struct{}
}

// Eligible is what a membership that gossips has in addition: a node says of itself whether it can announce, and on
// which links.
type Eligible interface {
	SetEligible(eligible bool)
	SetLinks(links []string)
}

// Drainer is what a membership that gossips has in addition: Drain tells the others that this node is about to leave, and
// returns when they had the time to take over.
type Drainer interface {
	Drain(ctx context.Context) error
}

// Rejoiner is what a membership that gossips has in addition: Rejoin looks for the other members now.
type Rejoiner interface{ Rejoin() }

// Config configures a Speaker.
type Config struct {
	// Node is the name of this node, as its Node object and the endpoints have it. Required.
	Node string
	// Source is where objects come from. Required.
	Source Source
	// Membership says which nodes are alive. Nil: the Nodes that the API knows, without those that are NotReady for
	// 40 s or tainted out-of-service.
	Membership Membership
	// Announcer answers for addresses. Required.
	Announcer Announcer
	// BGP are the sessions with routers. Nil: no router is told, whatever is decided.
	BGP Routers
	// LBClass is the value of spec.loadBalancerClass that is served. Empty: Services without a class.
	LBClass string
	// HeldUntil is when this node, which came back too often (election.Damper), may be elected again. Until then it leaves
	// its addresses to others, unless one has nobody else, or a member does not say of itself whether it is eligible.
	// Zero: at once. Without a Membership that is Eligible it does not count.
	HeldUntil time.Time
	// IgnoreExclude ignores the label node.kubernetes.io/exclude-from-external-load-balancers.
	IgnoreExclude bool
	// OnConfiguration, if set, is told after every decision what is wrong with the configuration, a text for each
	// rejected object. It must not block.
	OnConfiguration func(rejected []string)
	// OnAnnounced, if set, is told after every decision which Services this node announces on the LAN, and on which
	// links (none: every link). It must not block.
	OnAnnounced func(links map[types.NamespacedName][]string)
	// OnRoutes, if set, is told after every decision which Services this node announces to which peers. It must not block.
	OnRoutes func(peers map[types.NamespacedName][]string)
	// Logger receives state changes at Info and degraded operation at Warn. Nil discards.
	Logger *slog.Logger
}

// Speaker announces on one node what that node is elected for. Create it with New, run it with Run.
type Speaker struct {
	cfg   Config
	log   *slog.Logger
	store config.Store
	dirty chan struct{}

	services, endpoints, nodes, namespaces, pools, ads cache.SharedIndexInformer
	peers, bgpAds, bfdProfiles, communities, secrets   cache.SharedIndexInformer

	routing routing

	said   map[said]string
	met    map[string]struct{} // the members at the last look, nil before the first
	up     []string            // the links at the last look
	hold   hold
	frozen atomic.Bool
	// leaving guards frozen against SetEligible(true) after a Drain.
	leaving sync.Mutex
	state   atomic.Pointer[State]
	stats   counters
}

// State is what the speaker decided last.
type State struct {
	Decisions []Decision
	Rejected  []config.Rejection
	Peers     []bgp.Peer // of this node
}

// Stats are the speaker's counters, under MetalLB's meaning of them.
type Stats struct {
	Updates      uint64 // decisions on the whole state
	UpdateErrors uint64 // always 0: a decision cannot fail
	ConfigLoaded bool   // a configuration was applied since the start
	ConfigStale  bool   // an object of the configuration is rejected: its last good version is in force
	Orphans      uint64 // addresses that no node can announce, as this node sees it
}

type counters struct {
	updates       atomic.Uint64
	orphans       atomic.Uint64
	loaded, stale atomic.Bool
}

// said is an Event that is true now: it is sent when it begins to be, and not again.
type said struct {
	service  types.NamespacedName
	address  netip.Addr
	protocol Protocol
	reason   string
}

// settle is the least time between two decisions that objects cause, so that a burst of changes is one decision.
// Members and links are decided on at once.
const settle = 50 * time.Millisecond

// recheck is how often a decision is made without a cause: Nodes become dead by time alone (see NodeMembers).
const recheck = 10 * time.Second

// New validates cfg and returns a Speaker that does nothing until Run, except that the Membership hears of HeldUntil: it
// must not tell the others first that this node is eligible.
func New(cfg Config) (*Speaker, error) {
	var errs []error
	if cfg.Node == "" {
		errs = append(errs, errors.New("speaker: Config.Node is required (--node-name or METALLB_NODE_NAME)"))
	}
	if cfg.Source == nil {
		errs = append(errs, errors.New("speaker: Config.Source is required"))
	}
	if cfg.Announcer == nil {
		errs = append(errs, errors.New("speaker: Config.Announcer is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Speaker{
		cfg: cfg, log: cfg.Logger.With("node", cfg.Node), dirty: make(chan struct{}, 1), said: make(map[said]string),
	}
	s.hold = newHold(cfg.Membership, cfg.HeldUntil)
	s.services = s.informer(source.Services, &corev1.Service{})
	s.endpoints = s.informer(source.EndpointSlices, &discoveryv1.EndpointSlice{})
	s.nodes = s.informer(source.Nodes, &corev1.Node{})
	s.namespaces = s.informer(source.Namespaces, &corev1.Namespace{})
	s.pools = s.informer(source.IPAddressPools, &v1beta1.IPAddressPool{})
	s.ads = s.informer(source.L2Advertisements, &v1beta1.L2Advertisement{})
	s.peers = s.informer(source.BGPPeers, &v1beta2.BGPPeer{})
	s.bgpAds = s.informer(source.BGPAdvertisements, &v1beta1.BGPAdvertisement{})
	s.bfdProfiles = s.informer(source.BFDProfiles, &v1beta1.BFDProfile{})
	s.communities = s.informer(source.Communities, &v1beta1.Community{})
	s.secrets = s.informer(source.Secrets, &corev1.Secret{})
	return s, nil
}

func (s *Speaker) informer(kind source.Kind, example runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(s.cfg.Source.ListerWatcher(kind), example, 0, cache.Indexers{})
}

// Run decides and announces until ctx is cancelled, and returns nil then. When it returns, the announcer is told to
// announce nothing. It may be called once.
func (s *Speaker) Run(ctx context.Context) error {
	if err := s.watch(); err != nil {
		return fmt.Errorf("speaker: register for changes: %w", err)
	}
	watching, end := context.WithCancel(source.WithKlog(ctx, s.log))
	wait, ok := source.RunInformers(watching,
		s.services, s.endpoints, s.nodes, s.namespaces, s.pools, s.ads, s.peers, s.bgpAds, s.bfdProfiles, s.communities, s.secrets)
	defer func() {
		end()
		wait()
	}()
	if !ok {
		return nil
	}
	defer func() { _ = s.cfg.Announcer.SetAddrs(nil) }() // nothing to refuse in an empty list
	s.loop(ctx)
	return nil
}

func (s *Speaker) loop(ctx context.Context) {
	var members <-chan struct{}
	if s.cfg.Membership != nil {
		members = s.cfg.Membership.Changed()
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	s.hold.started = time.Now()
	alone := time.After(lonely)
	s.linksChanged()
	s.apply()
	s.log.Info("speaker started", "services", len(s.services.GetStore().List()), "members", len(s.members()))
	var later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
			if later == nil {
				later = time.After(settle)
			}
			continue
		case <-later:
		case <-members:
		case <-s.cfg.Announcer.LinksChanged():
			s.linksChanged()
		case <-s.conflictsChanged():
		case <-tick.C:
		case <-alone:
			if s.hold.eligible == nil || s.hold.over {
				continue
			}
		}
		later = nil
		s.apply()
	}
}

// Drain lets the other nodes take over what this one announces: it says that this node is no longer eligible, and goes on
// answering until they have had the time to announce. After it the caller cancels the context of Run. Without a
// membership that gossips there is nobody to tell, and Drain returns at once.
func (s *Speaker) Drain(ctx context.Context) {
	drainer, ok := s.cfg.Membership.(Drainer)
	if !ok {
		return
	}
	s.leaving.Lock()
	s.frozen.Store(true)
	s.leaving.Unlock()
	if err := drainer.Drain(ctx); err != nil {
		s.log.Warn("could not tell the others in time: they will notice by themselves", "error", err)
	}
}

// Announced returns what this node announces, for the metric metallb_speaker_announced. It is safe for concurrent use.
func (s *Speaker) Announced() []metrics.Announced {
	state := s.state.Load()
	if state == nil {
		return nil
	}
	var out []metrics.Announced
	for _, d := range state.Decisions {
		if d.Announce {
			out = append(out, metrics.Announced{Service: d.Service.String(), Protocol: string(d.Protocol), Node: s.cfg.Node, Address: d.Address.String()})
		}
	}
	return out
}

// linksChanged tells the other nodes which links of this one are up, and looks for them when a link came up: this node may
// have been cut off.
func (s *Speaker) linksChanged() {
	var up []string
	for _, l := range s.cfg.Announcer.Links() {
		up = append(up, l.Name)
	}
	if s.hold.eligible != nil {
		s.hold.eligible.SetLinks(up)
	}
	rejoiner, ok := s.cfg.Membership.(Rejoiner)
	if ok && slices.ContainsFunc(up, func(l string) bool { return !slices.Contains(s.up, l) }) {
		rejoiner.Rejoin()
	}
	s.up = up
}

// meet notes who is a member, and says whether somebody is who was not at the last look.
func (s *Speaker) meet(members []membership.Member) (newcomer bool) {
	now := make(map[string]struct{}, len(members))
	for _, m := range members {
		now[m.Name] = struct{}{}
		if _, known := s.met[m.Name]; !known && s.met != nil {
			newcomer = true
		}
	}
	s.met = now
	return newcomer
}

func (s *Speaker) members() []membership.Member {
	if s.cfg.Membership == nil {
		return NodeMembers(source.Listed[*corev1.Node](s.nodes), time.Now())
	}
	return s.cfg.Membership.Members()
}

// apply decides on what is known now, and tells the announcer.
func (s *Speaker) apply() {
	if s.frozen.Load() {
		return // leaving: what is announced stays until Run ends
	}
	snap := s.snapshot()
	decisions := Decide(snap)
	if err := s.cfg.Announcer.SetAddrs(advertisements(decisions)); err != nil {
		s.log.Warn("the announcer refused an address", "error", err)
	}
	peers, unfit := s.tellRouters(snap, decisions)
	rejected := sortRejections(slices.Concat(snap.Config.Rejected, unfit))
	s.report(snap, decisions, unfit)
	if s.meet(snap.Members) {
		// Who was away may have claimed what this node holds: after a partition both parts did, and this one saw no change.
		s.cfg.Announcer.Reannounce()
	}
	s.callHooks(rejected, decisions, peers)
	s.state.Store(&State{Decisions: decisions, Rejected: rejected, Peers: peers})
	s.stats.updates.Add(1)
	s.stats.loaded.Store(true)
	s.stats.stale.Store(len(rejected) > 0)
	s.admit(snap, decisions)
}

func (s *Speaker) callHooks(rejected []config.Rejection, decisions []Decision, peers []bgp.Peer) {
	if s.cfg.OnConfiguration != nil {
		s.cfg.OnConfiguration(config.Texts(rejected))
	}
	if s.cfg.OnRoutes != nil {
		s.cfg.OnRoutes(toldPeers(decisions, peers))
	}
	if s.cfg.OnAnnounced != nil {
		links := make(map[types.NamespacedName][]string)
		for _, d := range decisions {
			if d.Protocol == Layer2 && d.Announce {
				links[d.Service] = d.Interfaces
			}
		}
		s.cfg.OnAnnounced(links)
	}
}

func (s *Speaker) snapshot() Snapshot {
	snap := Snapshot{
		Self: s.cfg.Node, LBClass: s.cfg.LBClass, IgnoreExclude: s.cfg.IgnoreExclude,
		Config: s.store.Update(config.Objects{
			Pools:            source.Listed[*v1beta1.IPAddressPool](s.pools),
			L2Advertisements: source.Listed[*v1beta1.L2Advertisement](s.ads),
			Namespaces:       source.Listed[*corev1.Namespace](s.namespaces),

			BGPPeers:          source.Listed[*v1beta2.BGPPeer](s.peers),
			BGPAdvertisements: source.Listed[*v1beta1.BGPAdvertisement](s.bgpAds),
			BFDProfiles:       source.Listed[*v1beta1.BFDProfile](s.bfdProfiles),
			Communities:       source.Listed[*v1beta1.Community](s.communities),
			Secrets:           source.Listed[*corev1.Secret](s.secrets),
			Nodes:             source.Listed[*corev1.Node](s.nodes),
		}),
		Nodes:    make(map[string]*corev1.Node),
		Members:  s.members(),
		Services: source.Listed[*corev1.Service](s.services),
		Slices:   slicesByService(source.Listed[*discoveryv1.EndpointSlice](s.endpoints)),
	}
	for _, n := range source.Listed[*corev1.Node](s.nodes) {
		snap.Nodes[n.Name] = n
	}
	return snap
}

func advertisements(decisions []Decision) []announce.Advertisement {
	var ads []announce.Advertisement
	for _, d := range decisions {
		if d.Protocol == Layer2 && d.Announce {
			ads = append(ads, announce.Advertisement{Addr: d.Address, Owner: announce.Owner(d.Service.String()), Links: d.Interfaces})
		}
	}
	return ads
}

// State returns what was decided last; nil before the first decision. It is safe for concurrent use.
func (s *Speaker) State() *State { return s.state.Load() }

// Ready says whether the speaker has decided at least once.
func (s *Speaker) Ready() bool { return s.stats.loaded.Load() }

// Stats returns the counters as they stand. It is safe for concurrent use.
func (s *Speaker) Stats() Stats {
	return Stats{
		Updates: s.stats.updates.Load(), ConfigLoaded: s.stats.loaded.Load(), ConfigStale: s.stats.stale.Load(),
		Orphans: s.stats.orphans.Load(),
	}
}
