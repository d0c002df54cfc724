// Command vip keeps one address alive on a group of machines, such as the address of an API server: packages membership,
// election and announce, and nothing of Kubernetes. Run it on every machine of the group:
//
//	vip --name m1 --bind 192.0.2.1 --peers 192.0.2.2,192.0.2.3 --addr 192.0.2.50
//
// The machine that is elected answers ARP or NDP for the address; when it dies, another one does. The address is put on
// no interface: the machine must accept packets for it (a service that binds to it with IP_FREEBIND and a local route,
// or a proxy in front).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/membership"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "vip:", err)
		os.Exit(1)
	}
}

const gossipPort = 7946

type options struct {
	name       string
	bind, addr netip.Addr
	peers      []netip.AddrPort
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("vip", flag.ContinueOnError)
	fs.StringVar(&o.name, "name", "", "`NAME` of this machine")
	fs.TextVar(&o.bind, "bind", netip.Addr{}, "`ADDRESS` of this machine to gossip on")
	fs.TextVar(&o.addr, "addr", netip.Addr{}, "the `ADDRESS` to keep alive")
	fs.Func("peers", "`ADDRESSES` of the other machines, comma-separated", func(list string) error {
		for text := range strings.SplitSeq(list, ",") {
			a, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			o.peers = append(o.peers, netip.AddrPortFrom(a, gossipPort))
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.name == "" || !o.bind.IsValid() || !o.addr.IsValid() {
		return o, errors.New("--name, --bind and --addr are required")
	}
	return o, nil
}

func run(ctx context.Context, args []string, logger *slog.Logger) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	cluster, err := membership.New(membership.Config{
		Name: o.name, Bind: netip.AddrPortFrom(o.bind, gossipPort), Seeds: membership.Addresses(o.peers...), Logger: logger,
	})
	if err != nil {
		return err
	}
	a, err := announce.New(announce.Config{Logger: logger})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cluster.Run(ctx) })
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return follow(ctx, o, cluster, a, logger) })
	return g.Wait()
}

// follow tells the announcer, at every change of the members, whether this machine holds the address.
func follow(ctx context.Context, o options, cluster *membership.Cluster, a *announce.Announcer, logger *slog.Logger) error {
	for {
		var nodes []string
		for _, m := range cluster.Members() {
			if m.Eligible {
				nodes = append(nodes, m.Name)
			}
		}
		holder, _ := election.Winner(o.addr, nodes)
		var ads []announce.Advertisement
		if holder == o.name {
			ads = []announce.Advertisement{{Addr: o.addr, Owner: "vip"}}
		}
		if err := a.SetAddrs(ads); err != nil {
			return err
		}
		logger.Info("elected", "addr", o.addr, "holder", holder, "members", nodes)
		select {
		case <-ctx.Done():
			return nil
		case <-cluster.Changed():
		}
	}
}
