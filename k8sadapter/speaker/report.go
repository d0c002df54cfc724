package speaker

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	up := make(map[string]bool)
	for _, l := range s.cfg.Announcer.Links() {
		up[l.Name] = true
	}
	for _, d := range decisions {
		if d.Protocol != Layer2 {
			continue
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
