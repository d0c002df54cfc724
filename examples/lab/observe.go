package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/internal/labnet"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// metricsPort is where a daemon serves its metrics.
const metricsPort = 9120

// pollInterval is how often a condition is looked at while the lab waits for it.
const pollInterval = 50 * time.Millisecond

// service is a Service with what the controller gave it.
type service struct {
	name  string // namespace/name
	pool  string
	addrs []netip.Addr
}

// view is what can be seen of one address from outside: nothing here is what a
// daemon keeps to itself.
type view struct {
	service   string
	addr      netip.Addr
	order     []string // the nodes in the order of the election
	announcer []string // who says that it announces the address, by its metrics
	page      labnet.Answer
	neighbour labnet.Neighbour
	holder    string // the node with the neighbour's link-layer address
}

// services reads the Services as the daemons do: the manifests, with the
// statuses that the controller wrote.
func (c *cluster) services(ctx context.Context) ([]service, error) {
	files, err := source.NewFiles(source.FilesConfig{Dir: c.manifests, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	set, err := files.Load(ctx)
	if err != nil {
		return nil, err
	}
	var services []service
	for _, svc := range set.Services {
		s := service{
			name: svc.Namespace + "/" + svc.Name,
			pool: svc.Annotations["metallb.io/ip-allocated-from-pool"],
		}
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			addr, err := netip.ParseAddr(ingress.IP)
			if err != nil {
				return nil, fmt.Errorf("status of Service %s: %w", s.name, err)
			}
			s.addrs = append(s.addrs, addr)
		}
		services = append(services, s)
	}
	slices.SortFunc(services, func(a, b service) int { return strings.Compare(a.name, b.name) })
	return services, nil
}

// announcers asks the metrics of every node that answers which addresses it
// announces.
func (c *cluster) announcers(ctx context.Context) map[netip.Addr][]string {
	all := make(map[netip.Addr][]string)
	for _, n := range c.nodes {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		answer, err := n.host.Fetch(limited, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), metricsPort), "/metrics")
		cancel()
		if err != nil {
			continue // dead, or not up yet
		}
		for _, addr := range parseAnnounced(answer.Page) {
			all[addr] = append(all[addr], n.Name)
		}
	}
	return all
}

// parseAnnounced returns the addresses of metallb_speaker_announced.
func parseAnnounced(metrics string) []netip.Addr {
	series := regexp.MustCompile(`(?m)^metallb_speaker_announced\{[^}]*\bip="([^"]+)"[^}]*\} 1$`)
	var addrs []netip.Addr
	for _, match := range series.FindAllStringSubmatch(metrics, -1) {
		if addr, err := netip.ParseAddr(match[1]); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// look fetches a page through every address and collects what can be seen. It
// fails when an address does not answer.
func (c *cluster) look(ctx context.Context, services []service, alive []string) ([]view, error) {
	announced := c.announcers(ctx)
	var views []view
	for _, svc := range services {
		for _, addr := range svc.addrs {
			v := view{service: svc.name, addr: addr, announcer: announced[addr]}
			// The first address of a Service decides for all of them.
			v.order = election.Rank(nil, svc.addrs[0], alive)
			limited, cancel := context.WithTimeout(ctx, time.Second)
			var err error
			v.page, err = c.client.Fetch(limited, netip.AddrPortFrom(addr, servicePort), "/")
			cancel()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", svc.name, err)
			}
			var known bool
			if v.neighbour, known, err = c.client.Neighbour(addr); err != nil {
				return nil, err
			}
			if known {
				v.holder = c.nodeByMAC(v.neighbour.MAC.String())
			}
			views = append(views, v)
		}
	}
	return views, nil
}

// check returns nil when everybody agrees about an address: exactly one node
// announces it, it is the first in the order of the election, the client has
// its link-layer address, and the page comes from it.
func (v view) check() error {
	want := v.order[0]
	switch {
	case !slices.Equal(v.announcer, []string{want}):
		return fmt.Errorf("%s %s: elected is %s, but announced by %s", v.service, v.addr, want, orNobody(v.announcer))
	case v.holder != want:
		return fmt.Errorf("%s %s: announced by %s, but the client has %s in its neighbour cache", v.service, v.addr, want, v.neighbour.MAC)
	case v.page.Node != want:
		return fmt.Errorf("%s %s: announced by %s, but the page came from %s", v.service, v.addr, want, v.page.Node)
	}
	return nil
}

func orNobody(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, " and ")
}

// settle waits until every address is where it belongs while the given nodes
// are alive, and returns what is seen then.
func (c *cluster) settle(ctx context.Context, services []service, alive []string) (views []view, err error) {
	err = until(ctx, settlePatience, func(ctx context.Context) error {
		var err error
		if views, err = c.look(ctx, services, alive); err != nil {
			return err
		}
		errs := make([]error, len(views))
		for i, v := range views {
			errs[i] = v.check()
		}
		return errors.Join(errs...)
	})
	return views, err
}

// until calls condition until it returns nil. When patience ends it returns
// what the condition said last.
func until(ctx context.Context, patience time.Duration, condition func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		err := condition(limited)
		if err == nil {
			return nil
		}
		if limited.Err() == nil || last == nil {
			last = err // not the error of being cut short, if there is a better one
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return errors.Join(ctx.Err(), context.Cause(ctx))
			}
			return fmt.Errorf("waited %s: %w", patience, last)
		case <-time.After(pollInterval):
		}
	}
}
