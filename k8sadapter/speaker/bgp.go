package speaker

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/membership"
)

// ConflictingAdvertisements: two advertisements give different preferences to one route of one peer. It is a code of
// MetalLB's speaker.
const ConflictingAdvertisements election.Reason = "conflictingAdvertisements"

// router is a node as the BGP decision on one Service sees it.
type router struct {
	reason election.Reason // why it does not announce, "" when it does
	ads    []config.BGPAdvertisement
}

// router decides for one node whether it announces the Service to routers: the first reason counts, in the order of
// MetalLB's speaker (speaker/bgp_controller.go). Who else announces does not matter, nor whether sessions are up. A node
// that the API does not know is covered by no advertisement.
func (s Snapshot) router(sv *service, name string) router {
	if sv.reason != "" && sv.reason != election.SharedIPWithServiceSelector { // that one concerns layer 2 only
		return router{reason: sv.reason}
	}
	node := s.Nodes[name]
	if node == nil {
		return router{reason: election.NotOwner}
	}
	var ads []config.BGPAdvertisement
	here := false
	for _, a := range sv.bgpAds {
		if a.MatchesNode(node.Labels) {
			here = true
			if a.MatchesService(sv.obj.Labels) {
				ads = append(ads, a)
			}
		}
	}
	r := router{ads: ads}
	switch {
	case !here:
		r.reason = election.NotOwner
	case len(ads) == 0:
		r.reason = election.NoMatchingAdvertisement
	case conflicting(ads, sv):
		r.reason = ConflictingAdvertisements
	case config.NetworkUnavailable(node):
		r.reason = election.NodeNetworkUnavailable
	case !s.IgnoreExclude && config.ExcludedFromLB(node):
		r.reason = election.NodeLabeledExcludeBalancers
	case sv.obj.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && !sv.servingOn[name]:
		r.reason = election.NoLocalEndpoints
	case !sv.serving:
		r.reason = election.NoEndpoints
	}
	return r
}

// conflicting says whether two advertisements would give different preferences to one route of one peer.
func conflicting(ads []config.BGPAdvertisement, sv *service) bool {
	has4 := slices.ContainsFunc(sv.addrs, netip.Addr.Is4)
	has6 := slices.ContainsFunc(sv.addrs, netip.Addr.Is6)
	for _, r := range sv.pool.Alloc.Ranges {
		has4, has6 = has4 || r.From.Is4(), has6 || r.From.Is6()
	}
	for i, a := range ads {
		if slices.ContainsFunc(ads[i+1:], func(b config.BGPAdvertisement) bool { return a.ConflictsWith(b, has4, has6) }) {
			return true
		}
	}
	return false
}

// bgpDecisions are the decisions for all addresses of a Service on the routers. Self decides for itself, whoever is a
// member; of the other nodes only members can announce.
func (s Snapshot) bgpDecisions(sv *service, known []string, members map[string]membership.Member) []Decision {
	self := s.router(sv, s.Self)
	excluded := make(map[string]election.Reason, len(known))
	var candidates []string
	for _, n := range known {
		r := self
		if n != s.Self {
			r = s.router(sv, n)
			if _, alive := members[n]; !alive && r.reason == "" {
				r.reason = election.NotMember
			}
		}
		if r.reason == "" {
			candidates = append(candidates, n)
		} else {
			excluded[n] = r.reason
		}
	}
	out := make([]Decision, len(sv.addrs))
	for i, addr := range sv.addrs {
		out[i] = Decision{
			Service: sv.name, Protocol: BGP, Address: addr, Announce: self.reason == "", Reason: self.reason,
			Candidates: candidates, Excluded: excluded,
		}
		if out[i].Announce {
			out[i].Routes = routesOf(self.ads, addr)
		}
	}
	return out
}

// routesOf are the routes that the advertisements make of an address: those of one prefix and the same peers are one, with
// the communities of all.
func routesOf(ads []config.BGPAdvertisement, addr netip.Addr) []bgp.Route {
	routes := make([]bgp.Route, len(ads))
	for i, a := range ads {
		routes[i] = a.Route(addr)
	}
	if len(routes) == 1 {
		return routes
	}
	var t bgp.Table
	if _, err := t.Set("", routes); err != nil {
		return nil // not reached: package config makes good routes
	}
	return t.Routes()
}

// communityText are the communities of a route in MetalLB's order: by value, a standard one as its 32 bits and two zeros.
func communityText(r bgp.Route) []string {
	type entry struct {
		value bgp.LargeCommunity
		text  string
	}
	all := make([]entry, 0, len(r.Communities)+len(r.LargeCommunities))
	for _, c := range r.Communities {
		all = append(all, entry{bgp.LargeCommunity{Global: uint32(c)}, c.String()})
	}
	for _, c := range r.LargeCommunities {
		all = append(all, entry{c, c.String()})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Or(a.value.Compare(b.value), cmp.Compare(a.text, b.text)) })
	out := make([]string, len(all))
	for i, e := range all {
		out[i] = e.text
	}
	return out
}
