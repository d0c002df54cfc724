package speaker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/election"
)

// report sends Events for what has become true, and logs it.
func (s *Speaker) report(snap Snapshot, decisions []Decision) {
	objs := make(map[types.NamespacedName]*corev1.Service, len(snap.Services))
	for _, svc := range snap.Services {
		objs[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}] = svc
	}
	now := make(map[said]string)
	say := func(d Decision, kind, reason, message string) {
		key := said{service: d.Service, address: d.Address, reason: reason}
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
		if d.Protocol != Layer2 {
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
			say(d, corev1.EventTypeNormal, "nodeAssigned", fmt.Sprintf("announcing from node %q with protocol %q", s.cfg.Node, Layer2))
		}
	}
	orphans := uint64(0)
	for _, d := range decisions {
		if d.Protocol == Layer2 && d.Announcer == "" && d.Reason != NotLoadBalancer {
			orphans++
			if s.speaksFirst(snap) {
				say(d, corev1.EventTypeWarning, "noCandidate", fmt.Sprintf("no node can announce %s with protocol %q: %s", d.Address, Layer2, causes(d)))
			}
		}
	}
	s.stats.orphans.Store(orphans)
	for key := range now {
		if _, was := s.said[key]; !was && key.reason == "nodeAssigned" {
			s.log.Info("address announced", "service", key.service.String(), "addr", key.address)
		}
	}
	for key := range s.said {
		if _, is := now[key]; !is && key.reason == "nodeAssigned" {
			s.log.Info("address withdrawn", "service", key.service.String(), "addr", key.address)
		}
	}
	s.said = now
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
