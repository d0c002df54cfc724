package speaker

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/metrics"
)

// Routers are the BGP sessions of this node. SetPeers and SetRoutes are told the whole desired state, never wait for the
// network, and do nothing for an equal one; what they refuse is an error that names it, and all else is applied. An engine
// of package bgp is Routers; one that is a bgp.Updater is told of changes only.
type Routers interface {
	SetPeers(peers []bgp.Peer) error
	SetRoutes(routes []bgp.Route) error
	Sessions() []bgp.Session
}

// routing is what is kept between two decisions about routers.
type routing struct {
	table  bgp.Table
	owners map[bgp.Owner]bool // those with routes in the table
	told   bool               // whether the routers were told before
}

// tellRouters tells the routers of this node what was decided: first the routes, so that a new session starts with all of
// them. It returns the peers of the node, and those that are rejected on it.
func (s *Speaker) tellRouters(snap Snapshot, decisions []Decision) (peers []bgp.Peer, rejected []config.Rejection) {
	peers, rejected = snap.Config.PeersFor(snap.Nodes[s.cfg.Node])
	if s.cfg.BGP == nil {
		return peers, rejected
	}
	if err := s.tellRoutes(decisions); err != nil {
		s.log.Warn("a route was refused", "error", err)
	}
	err := s.cfg.BGP.SetPeers(peers)
	refused := bgp.PeerErrors(err)
	if err != nil && len(refused) == 0 {
		s.log.Warn("the peers could not be set", "error", err)
	}
	return peers, slices.Concat(rejected, snap.Config.RejectPeers(refused, "there is no session with it, unless an earlier version has one"))
}

func (s *Speaker) tellRoutes(decisions []Decision) error {
	want := make(map[bgp.Owner][]bgp.Route)
	for _, d := range decisions {
		if d.Protocol == BGP && d.Announce {
			owner := bgp.Owner(d.Service.String())
			want[owner] = append(want[owner], d.Routes...)
		}
	}
	r := &s.routing
	var changes []bgp.Change
	owners := make(map[bgp.Owner]bool, len(want))
	for _, owner := range slices.Sorted(maps.Keys(want)) {
		changed, err := r.table.Set(owner, want[owner])
		if err != nil {
			return err
		}
		changes = append(changes, changed...)
		owners[owner] = true
	}
	for _, owner := range slices.Sorted(maps.Keys(r.owners)) {
		if !owners[owner] {
			changes = append(changes, r.table.Delete(owner)...)
		}
	}
	r.owners = owners
	updater, ok := s.cfg.BGP.(bgp.Updater)
	switch {
	case r.told && len(changes) == 0:
		return nil
	case r.told && ok:
		return updater.UpdateRoutes(latest(changes))
	}
	r.told = true
	return s.cfg.BGP.SetRoutes(r.table.Routes())
}

// latest are the last changes of each prefix: several owners of an aggregate may have changed it one after the other.
func latest(changes []bgp.Change) []bgp.Change {
	last := make(map[netip.Prefix]bgp.Change, len(changes))
	for _, c := range changes {
		last[c.Prefix] = c
	}
	return slices.SortedFunc(maps.Values(last), func(a, b bgp.Change) int { return a.Prefix.Compare(b.Prefix) })
}

// toldPeers are the peers that each Service is announced to, sorted: of all its prefixes, whoever else needs them.
// Whether the sessions are up does not matter.
func toldPeers(decisions []Decision, peers []bgp.Peer) map[types.NamespacedName][]string {
	byPrefix := make(map[netip.Prefix]map[string]bool)
	for _, d := range decisions {
		for i := range d.Routes {
			for _, p := range peers {
				if d.Routes[i].Selects(p.Name) {
					if byPrefix[d.Routes[i].Prefix] == nil {
						byPrefix[d.Routes[i].Prefix] = make(map[string]bool)
					}
					byPrefix[d.Routes[i].Prefix][p.Name] = true
				}
			}
		}
	}
	sets := make(map[types.NamespacedName]map[string]bool)
	for _, d := range decisions {
		for _, r := range d.Routes {
			if told := byPrefix[r.Prefix]; len(told) > 0 {
				if sets[d.Service] == nil {
					sets[d.Service] = make(map[string]bool)
				}
				maps.Copy(sets[d.Service], told)
			}
		}
	}
	out := make(map[types.NamespacedName][]string, len(sets))
	for svc, set := range sets {
		out[svc] = slices.Sorted(maps.Keys(set))
	}
	return out
}

// BGPSessions returns the sessions of this node for the metrics. It is safe for concurrent use.
func (s *Speaker) BGPSessions() []metrics.BGPSession {
	state := s.state.Load()
	if s.cfg.BGP == nil || state == nil {
		return nil
	}
	peers := make(map[string]bgp.Peer, len(state.Peers))
	for _, p := range state.Peers {
		peers[p.Name] = p
	}
	var out []metrics.BGPSession
	for _, session := range s.cfg.BGP.Sessions() {
		p, ok := peers[session.Peer]
		if !ok {
			continue // goes at this moment
		}
		out = append(out, metrics.BGPSession{Peer: sessionLabel(&p), VRF: p.VRF, Session: session})
	}
	return out
}

// sessionLabel is the label peer of MetalLB's metrics: address and port, or the link of an unnumbered peer.
func sessionLabel(p *bgp.Peer) string {
	if p.Interface != "" {
		return p.Interface
	}
	return netip.AddrPortFrom(p.Addr, p.EffectivePort()).String()
}

// bgpState says of every Service address whether some node announces it to routers.
func bgpState(decisions []Decision) map[said]bool {
	out := make(map[said]bool)
	for _, d := range decisions {
		if d.Protocol == BGP && len(d.Candidates) > 0 {
			out[said{service: d.Service, address: d.Address}] = true
		}
	}
	return out
}

// sayRouters sends the Events about routers.
func (s *Speaker) sayRouters(snap Snapshot, d Decision, say func(d Decision, kind, reason, message string)) {
	switch {
	case d.Announce:
		say(d, corev1.EventTypeNormal, reasonAssigned, assigned(s.cfg.Node, BGP))
	case d.Reason == ConflictingAdvertisements && s.speaksFirst(snap):
		say(d, corev1.EventTypeWarning, string(ConflictingAdvertisements),
			"BGPAdvertisements with different localPref match the Service: make them equal, or separate them by peers, nodes or aggregation length")
	}
}

// sortRejections puts rejections in the order of a Config.
func sortRejections(rejected []config.Rejection) []config.Rejection {
	slices.SortStableFunc(rejected, func(a, b config.Rejection) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return rejected
}
