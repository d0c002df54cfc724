package speaker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// reasonAssigned is the reason of the Event that tells which node announces an address.
const reasonAssigned = "nodeAssigned"

func assigned(node string, p Protocol) string {
	return fmt.Sprintf("announcing from node %q with protocol %q", node, p)
}

// report sends Events for what has become true, and logs it. Unfit are the peers that are rejected on this node alone.
func (s *Speaker) report(snap Snapshot, decisions []Decision, unfit []config.Rejection) {
	objs := make(map[types.NamespacedName]*corev1.Service, len(snap.Services))
	for _, svc := range snap.Services {
		objs[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}] = svc
	}
	now := make(map[said]string)
	say := func(d Decision, kind, reason, message string) {
		key := said{service: d.Service, address: d.Address, protocol: d.Protocol, reason: reason}
		now[key] = message
		if s.said[key] != message {
			s.cfg.Source.Event(objs[d.Service], kind, reason, message)
		}
	}
	disputed := s.conflicts()
	up := make(map[string]bool)
	for _, l := range s.cfg.Announcer.Links() {
		up[l.Name] = true
	}
	for _, d := range decisions {
		if d.Protocol == BGP {
			s.sayRouters(snap, d, say)
			continue
		}
		if text := disputed[d.Address]; d.Announce && text != "" {
			say(d, corev1.EventTypeWarning, "addressConflict", text)
		}
		switch {
		case d.Announce && len(d.Interfaces) > 0 && !slices.ContainsFunc(d.Interfaces, func(l string) bool { return up[l] }):
			say(d, corev1.EventTypeWarning, "announceFailed",
				fmt.Sprintf("cannot announce %s from node %q with protocol %q: none of the links %v of its advertisements is up",
					d.Address, s.cfg.Node, Layer2, d.Interfaces))
		case d.Announce:
			say(d, corev1.EventTypeNormal, reasonAssigned, assigned(s.cfg.Node, Layer2))
		}
	}
	s.sayRejected(snap, unfit, now)
	orphans := uint64(0)
	routed := bgpState(decisions)
	for _, d := range decisions {
		if d.Protocol == Layer2 && d.Announcer == "" && d.Reason != NotLoadBalancer && !routed[said{service: d.Service, address: d.Address}] {
			orphans++
			if s.speaksFirst(snap) {
				say(d, corev1.EventTypeWarning, "noCandidate", fmt.Sprintf("no node can announce %s with protocol %q: %s", d.Address, Layer2, causes(d)))
			}
		}
	}
	s.stats.orphans.Store(orphans)
	for key := range now {
		if _, was := s.said[key]; !was && key.reason == reasonAssigned {
			s.log.Info("address announced", "service", key.service.String(), "addr", key.address, "protocol", key.protocol)
		}
	}
	for key := range s.said {
		if _, is := now[key]; !is && key.reason == reasonAssigned {
			s.log.Info("address withdrawn", "service", key.service.String(), "addr", key.address, "protocol", key.protocol)
		}
	}
	s.said = now
}

// sayRejected tells of rejected objects of BGP, which the controller does not read. Of what all nodes reject alike one node
// sends the Event, and each of what it rejects for itself.
func (s *Speaker) sayRejected(snap Snapshot, unfit []config.Rejection, now map[said]string) {
	type fault struct {
		key    said
		object runtime.Object
		loud   bool
	}
	var faults []fault
	note := func(r config.Rejection, loud bool) {
		key := said{
			service: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, reason: source.ReasonRejected + " " + r.Kind,
		}
		if before, twice := now[key]; twice {
			now[key] = before + "; " + r.Error()
			return
		}
		now[key] = r.Error()
		faults = append(faults, fault{key, r.Object, loud})
	}
	for _, r := range unfit {
		note(r, true)
	}
	for _, r := range snap.Config.Rejected {
		if r.Kind != v1beta1.KindIPAddressPool && r.Kind != v1beta1.KindL2Advertisement {
			note(r, s.speaksFirst(snap))
		}
	}
	for _, f := range faults {
		if message := now[f.key]; s.said[f.key] != message {
			s.log.Warn("object rejected", "cause", message)
			if f.loud {
				s.cfg.Source.Event(f.object, corev1.EventTypeWarning, source.ReasonRejected, message)
			}
		}
	}
}

// speaksFirst says whether this node speaks for all of them, of what all of them see alike: the first member by name does.
func (s *Speaker) speaksFirst(snap Snapshot) bool {
	return len(snap.Members) > 0 && snap.Members[0].Name == snap.Self
}

// causes says for every node why it is out, nodes of one cause together.
func causes(d Decision) string {
	if len(d.Excluded) == 0 {
		return "no node is known"
	}
	by := make(map[election.Reason][]string)
	for n, why := range d.Excluded {
		by[why] = append(by[why], n)
	}
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[why])
		parts = append(parts, fmt.Sprintf("%s: %s", why, strings.Join(by[why], ", ")))
	}
	return strings.Join(parts, "; ")
}
