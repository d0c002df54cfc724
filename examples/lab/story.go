package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/heraldlb/herald/internal/labnet"
)

// How long the lab waits before it gives up.
const (
	addressPatience  = 20 * time.Second
	settlePatience   = 90 * time.Second // speakers look for lost ones once a minute
	failoverPatience = 60 * time.Second
)

// afterglow is how long a client is watched after a takeover, to see that it
// lasts.
const afterglow = 300 * time.Millisecond

// story is one run of the lab.
type story struct {
	*cluster
	out  *console
	opts *options

	found []service
	views []view
}

// begin starts everything and waits until every address is served.
func (s *story) begin(ctx context.Context, onDeath context.CancelCauseFunc) error {
	first, last := s.nodes[0], s.nodes[len(s.nodes)-1]
	s.out.text("%s", s.out.bold(fmt.Sprintf("Herald lab: %d nodes and a client on a LAN made of network namespaces", len(s.nodes))))
	s.out.text("")
	s.out.step("the LAN is up: client %s, %s %s to %s %s; all of them in %s too",
		planHost(clientNumber).V4, first.Name, first.V4, last.Name, last.V4, "2001:db8:77::/64")
	if err := s.start(onDeath); err != nil {
		return err
	}
	s.out.step("started: the controller, and on every node a speaker and a web server")

	err := until(ctx, addressPatience, func(ctx context.Context) error {
		var err error
		if s.found, err = s.services(ctx); err != nil {
			return err
		}
		for _, svc := range s.found {
			if len(svc.addrs) == 0 {
				return fmt.Errorf("service %s has no address", svc.name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, svc := range s.found {
		s.out.step("Service %s got %s from pool %s", svc.name, join(svc.addrs), svc.pool)
	}
	if s.views, err = s.settle(ctx, s.found, s.nodeNames()); err != nil {
		return err
	}
	s.out.step("the client got a page through every address")
	return nil
}

// tell shows what everybody sees, kills a node, and shows it again.
func (s *story) tell(ctx context.Context) error {
	s.show(s.views)
	for _, v := range s.views {
		s.out.text("    http://%s/ says: %s", netip.AddrPortFrom(v.addr, servicePort), v.page.Page)
	}
	s.out.text("")

	target := s.views[len(s.views)-1]
	victim := s.node(target.page.Node)
	s.out.step("KILLED %s, which holds %s: SIGKILL to all that runs on it, its cable is pulled", victim.Name, s.held(victim.Name))
	result, err := s.failover(ctx, target, modeKill)
	if err != nil {
		return err
	}
	s.out.step("SERVED again by %s, %s after the kill: http://%s/ (%d requests in vain)",
		result.by, seconds(result.gap), target.addr, result.lost)

	alive := slices.DeleteFunc(s.nodeNames(), func(name string) bool { return name == victim.Name })
	if s.views, err = s.settle(ctx, s.found, alive); err != nil {
		return err
	}
	s.show(s.views)

	back := time.Now()
	s.out.step("%s is plugged in and started again", victim.Name)
	if err := s.heal(victim, modeKill); err != nil {
		return err
	}
	if s.views, err = s.settle(ctx, s.found, s.nodeNames()); err != nil {
		return err
	}
	s.out.step("it has its addresses back, %s after its start", seconds(time.Since(back)))
	s.show(s.views)
	s.out.text("%s", s.out.bold(fmt.Sprintf("In short: %d Services got addresses and were served; when %s died, %s was out of reach for %s.",
		len(s.found), victim.Name, target.addr, seconds(result.outage))))
	s.out.text("")
	return nil
}

// show prints a table of what everybody sees of every address.
func (s *story) show(views []view) {
	rows := [][]string{{"SERVICE", "ADDRESS", "ELECTED (THEN)", "ANNOUNCED BY", "PAGE FROM", "THE CLIENT'S NEIGHBOUR CACHE"}}
	for _, v := range views {
		order := v.order[0]
		if len(v.order) > 1 {
			order += " (" + v.order[1] + ")"
		}
		rows = append(rows, []string{
			v.service, v.addr.String(), order, orNobody(v.announcer), v.page.Node,
			fmt.Sprintf("%s = %s, %s", v.neighbour.MAC, v.holder, v.neighbour.State),
		})
	}
	s.out.table(rows)
}

// held lists the addresses that a node holds.
func (s *story) held(name string) string {
	var addrs []netip.Addr
	for _, v := range s.views {
		if v.holder == name {
			addrs = append(addrs, v.addr)
		}
	}
	return join(addrs)
}

// outcome is what a client saw of one failover.
type outcome struct {
	victim, by string
	// gap is the time from the fault to the first answer of another node.
	gap time.Duration
	// outage is the longest time without any answer.
	outage time.Duration
	// lost is the number of requests without an answer.
	lost int
}

// failover makes the node fail that serves an address, and watches the address
// from the client until another node serves it.
func (s *story) failover(ctx context.Context, target view, mode faultMode) (outcome, error) {
	victim := s.node(target.page.Node)
	watch := s.client.NewWatch(labnet.WatchConfig{Target: netip.AddrPortFrom(target.addr, servicePort)})
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- watch.Run(watching) }()
	result, err := s.watchFailover(ctx, watch, victim, mode)
	stop()
	return result, errors.Join(err, <-ended)
}

func (s *story) watchFailover(ctx context.Context, watch *labnet.Watch, victim *node, mode faultMode) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, failoverPatience)
	defer cancel()
	if _, err := watch.Await(ctx, func(r labnet.Sample) bool { return r.Node == victim.Name }); err != nil {
		return outcome{}, fmt.Errorf("before the fault: %w", err)
	}
	since, err := s.fail(ctx, victim, mode)
	if err != nil {
		return outcome{}, err
	}
	taken, err := watch.Await(ctx, func(r labnet.Sample) bool {
		return r.End.After(since) && r.Node != "" && r.Node != victim.Name
	})
	if err != nil {
		return outcome{}, fmt.Errorf("nobody took over from %s: %w", victim.Name, err)
	}
	if _, err := watch.Await(ctx, func(r labnet.Sample) bool {
		return r.Start.After(taken.End.Add(afterglow)) && r.Node != "" && r.Node != victim.Name
	}); err != nil {
		return outcome{}, fmt.Errorf("%s did not keep what it took over: %w", taken.Node, err)
	}
	result := outcome{victim: victim.Name, by: taken.Node, gap: taken.End.Sub(since)}
	result.outage, result.lost = labnet.Outage(watch.Samples(), since)
	return result, nil
}

func join(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, addr := range addrs {
		texts[i] = addr.String()
	}
	return strings.Join(texts, " and ")
}
