package speaker

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/membership"
)

// Protocol is how an address is announced.
type Protocol string

// The protocols, in the order in which decisions are printed.
const (
	BGP    Protocol = "bgp"
	Layer2 Protocol = "layer2"
)

// Reasons that concern a Service as a whole, beside those of package election. They are codes of MetalLB's speaker.
const (
	// NotLoadBalancer: the Service is of another load-balancer class.
	NotLoadBalancer election.Reason = "notLoadBalancer"
	// IPNotAllowed: no single pool holds all addresses of the Service.
	IPNotAllowed election.Reason = "ipNotAllowed"
)

// Snapshot is all that a decision depends on.
type Snapshot struct {
	// Self is the node for which Announce, Reason and Interfaces are decided.
	Self string
	// Config is the configuration in force.
	Config config.Config
	// Nodes are the nodes that the API knows, by name.
	Nodes map[string]*corev1.Node
	// Members are the nodes that are alive, sorted by name.
	Members []membership.Member
	// Services are all Services, of any type.
	Services []*corev1.Service
	// Slices are the EndpointSlices of each Service.
	Slices map[types.NamespacedName][]*discoveryv1.EndpointSlice
	// LBClass is the class served; see config.Ours.
	LBClass string
	// IgnoreExclude ignores the label node.kubernetes.io/exclude-from-external-load-balancers.
	IgnoreExclude bool
}

// Decision says for one address of one Service and one protocol who announces it, and why not the others.
type Decision struct {
	// Service, Protocol and Address are what is decided on.
	Service  types.NamespacedName
	Protocol Protocol
	Address  netip.Addr
	// Announce says whether Self announces the address.
	Announce bool
	// Announcer is the elected node (layer2), "" when there is none.
	Announcer string
	// Reason is the code why Self does not announce, "" when it does.
	Reason election.Reason
	// Candidates are the nodes that could announce, best first.
	Candidates []string
	// Excluded are all other known nodes, each with why.
	Excluded map[string]election.Reason
	// Interfaces are the links that Self may announce on; empty means every link.
	Interfaces []string
	// Routes are what Self tells routers of the address (bgp), sorted; none when it does not announce.
	Routes []bgp.Route
}

// service is one Service with what the elections of its addresses need.
type service struct {
	obj    *corev1.Service
	name   types.NamespacedName
	addrs  []netip.Addr
	reason election.Reason // why no address of the Service can be announced by anyone, "" if there is no such reason
	pool   config.Pool
	ads    []config.L2Advertisement
	bgpAds []config.BGPAdvertisement

	serving   bool            // some endpoint can serve
	servingOn map[string]bool // the nodes that such endpoints are on
	nodes     map[string]candidate
}

// candidate is a node as one Service sees it.
type candidate struct {
	reason  election.Reason // why it is out, "" when it is a candidate
	covered bool            // some advertisement covers it
	weight  int
	links   []string
}

// Decide decides on every address of every Service of type LoadBalancer, sorted by Service, protocol, address.
func Decide(s Snapshot) []Decision {
	known := s.knownNodes()
	members := make(map[string]membership.Member, len(s.Members))
	for _, m := range s.Members {
		members[m.Name] = m
	}
	services := make([]*service, 0, len(s.Services))
	for _, obj := range s.Services {
		if obj.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		sv := s.look(obj)
		sv.nodes = make(map[string]candidate, len(known))
		for _, n := range known {
			sv.nodes[n] = s.candidate(sv, n, members)
		}
		services = append(services, sv)
	}
	elected := elect(services, known)
	out := make([]Decision, 0, 2*len(services))
	for _, sv := range services {
		out = append(out, s.bgpDecisions(sv, known, members)...)
		for _, a := range sv.addrs {
			out = append(out, s.layer2(sv, a, elected[sv]))
		}
	}
	slices.SortFunc(out, func(a, b Decision) int {
		return cmp.Or(
			cmp.Compare(a.Service.Namespace, b.Service.Namespace), cmp.Compare(a.Service.Name, b.Service.Name),
			cmp.Compare(a.Protocol, b.Protocol), a.Address.Compare(b.Address))
	})
	return out
}

// knownNodes are the names of the nodes that the API or the membership knows, sorted.
func (s Snapshot) knownNodes() []string {
	names := make(map[string]struct{}, len(s.Nodes))
	for n := range s.Nodes {
		names[n] = struct{}{}
	}
	for _, m := range s.Members {
		names[m.Name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(names))
}

// look finds out what holds for a Service on every node: its addresses, its pool, its advertisements.
func (s Snapshot) look(obj *corev1.Service) *service {
	sv := &service{obj: obj, name: types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}}
	sv.serving, sv.servingOn = config.ServingNodes(s.Slices[sv.name])
	addrs, garbage := config.StatusAddrs(obj)
	for _, a := range addrs {
		if !slices.Contains(sv.addrs, a) {
			sv.addrs = append(sv.addrs, a)
		}
	}
	bad := len(addrs)+len(garbage) < len(obj.Status.LoadBalancer.Ingress) || len(garbage) > 0 // a host name counts, as in MetalLB
	switch {
	case !config.Ours(obj, s.LBClass):
		sv.reason = NotLoadBalancer
		return sv
	case bad:
		sv.reason = election.InvalidIP
		return sv
	}
	pool, ok := s.Config.PoolOf(sv.addrs, config.PoolHint(obj))
	if !ok {
		sv.reason = IPNotAllowed
		return sv
	}
	sv.pool, sv.bgpAds = pool, s.Config.BGPFor(pool)
	sv.ads = s.Config.L2For(pool, obj.Labels)
	if config.SharesIP(obj) && slices.ContainsFunc(sv.ads, func(a config.L2Advertisement) bool { return a.HasServiceSelectors }) {
		sv.reason = election.SharedIPWithServiceSelector
	}
	return sv
}

// candidate says whether a node may announce the Service on the LAN, and if not, why: the first reason counts.
func (s Snapshot) candidate(sv *service, name string, members map[string]membership.Member) candidate {
	m, alive := members[name]
	node := s.Nodes[name]
	c := candidate{}
	c.links, c.weight, c.covered = cover(sv.ads, node)
	switch {
	case sv.reason != "":
		c.reason = sv.reason
	case !alive:
		c.reason = election.NotMember
	case !m.Eligible:
		c.reason = election.NotEligible
	case config.NetworkUnavailable(node):
		c.reason = election.NodeNetworkUnavailable
	case !s.IgnoreExclude && config.ExcludedFromLB(node):
		c.reason = election.NodeLabeledExcludeBalancers
	case !c.covered:
		c.reason = election.NoMatchingAdvertisement
	case !sv.serving:
		c.reason = election.NoEndpoints
	case sv.obj.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && !sv.servingOn[name]:
		c.reason = election.NoLocalEndpoints
	case len(c.links) > 0 && !slices.ContainsFunc(c.links, m.HasLink):
		c.reason = election.LinkDown
	}
	return c
}

// cover is what the advertisements grant to a node: its links (none: every link) and the sum of their weights. A node
// that the API does not know is covered by none.
func cover(ads []config.L2Advertisement, node *corev1.Node) (links []string, weight int, covered bool) {
	if node == nil {
		return nil, 0, false
	}
	links, covered = config.LinksFor(ads, node.Labels)
	for _, ad := range ads {
		weight += ad.Score(node.Labels)
	}
	return links, weight, covered
}

// elect holds one election for each group of Services that share an address.
func elect(services []*service, known []string) map[*service]election.Decision {
	out := make(map[*service]election.Decision, len(services))
	for _, group := range groups(services) {
		key := group[0].addrs[0]
		for _, sv := range group[1:] {
			if sv.addrs[0].Less(key) {
				key = sv.addrs[0]
			}
		}
		candidates := make([]election.Candidate, len(known))
		for i, n := range known {
			candidates[i] = election.Candidate{Node: n}
			for _, sv := range group {
				c := sv.nodes[n]
				candidates[i].Weight += c.weight
				candidates[i].Reason = cmp.Or(candidates[i].Reason, c.reason)
			}
		}
		d := election.Decide(key, candidates)
		for _, sv := range group {
			out[sv] = d
		}
	}
	return out
}

// groups partitions the Services that have addresses, and that anyone may announce, by what they share. A Service that
// is out for all nodes alike is a group of its own: it takes no part in the others' election, and does not stop it.
func groups(services []*service) [][]*service {
	byAddr := make(map[netip.Addr]int)
	var out [][]*service
	for _, sv := range services {
		if len(sv.addrs) == 0 {
			continue
		}
		into := -1
		if sv.reason == "" {
			for _, a := range sv.addrs {
				g, ok := byAddr[a]
				switch {
				case !ok:
				case into < 0:
					into = g
				case into != g:
					for _, moved := range out[g] {
						for _, b := range moved.addrs {
							byAddr[b] = into
						}
					}
					out[into] = append(out[into], out[g]...)
					out[g] = nil
				}
			}
		}
		if into < 0 {
			into = len(out)
			out = append(out, nil)
		}
		out[into] = append(out[into], sv)
		if sv.reason == "" {
			for _, a := range sv.addrs {
				byAddr[a] = into
			}
		}
	}
	return slices.DeleteFunc(out, func(g []*service) bool { return len(g) == 0 })
}

// layer2 is the decision for one address on the LAN.
func (s Snapshot) layer2(sv *service, a netip.Addr, e election.Decision) Decision {
	self := sv.nodes[s.Self]
	d := Decision{
		Service: sv.name, Protocol: Layer2, Address: a, Announcer: e.Winner, Announce: e.Winner != "" && e.Winner == s.Self,
		Candidates: e.Candidates, Excluded: e.Excluded, Interfaces: self.links,
	}
	if !d.Announce {
		d.Reason = ownReason(sv, self)
	}
	return d
}

// ownReason is the code of MetalLB's speaker for a node that does not announce (speaker/layer2_controller.go), in its
// order: it tells a missing advertisement, and calls every other cause notOwner. Excluded has the exact one of each node.
func ownReason(sv *service, self candidate) election.Reason {
	switch {
	case sv.reason != "" && sv.reason != election.SharedIPWithServiceSelector:
		return sv.reason
	case !sv.serving:
		return election.NotOwner
	case sv.reason != "":
		return sv.reason
	case !self.covered:
		return election.NoMatchingAdvertisement
	default:
		return election.NotOwner
	}
}
