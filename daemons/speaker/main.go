// Command speaker announces, on one node, the Service addresses that this node is elected for on the LAN, and those that it
// tells routers of by BGP. It needs CAP_NET_RAW.
//
// It reads from an API server or, with --manifests, from a directory of YAML manifests. --help lists the flags,
// docs/operating.md explains them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/daemons/internal/daemon"
	"github.com/heraldlb/herald/k8sadapter/metrics"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/speaker"
	"github.com/heraldlb/herald/membership"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// component is the source of the Events, as MetalLB has it.
const component = "metallb-speaker"

// speakerFlags are the flags of the speaker alone.
type speakerFlags struct {
	daemon.Flags
	gossip        daemon.GossipFlags
	bgp           daemon.BGPFlags
	node, members string
	podName       string
	runDir        string
	ignoreExclude bool
	conflicts     announce.ConflictPolicy
}

// run is the whole program: it returns the exit code when ctx is cancelled, or when something fails.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var flags speakerFlags
	fs := flag.NewFlagSet("speaker", flag.ContinueOnError)
	fs.SetOutput(stderr)
	flags.Register(fs)
	flags.gossip.Register(fs)
	flags.bgp.Register(fs)
	fs.StringVar(&flags.node, "node-name", os.Getenv("METALLB_NODE_NAME"), "`NAME` of this node (env METALLB_NODE_NAME)")
	fs.StringVar(&flags.podName, "pod-name", os.Getenv("METALLB_POD_NAME"), "`NAME` of this pod, the owner of its status objects (env METALLB_POD_NAME)")
	fs.StringVar(&flags.runDir, "run-dir", "", "`DIR` that outlives this process, to remember how often it started: a node that keeps coming back waits (default: off)")
	fs.StringVar(&flags.members, "members", "", "with --once: the `NODES` that are alive, comma-separated")
	fs.BoolVar(&flags.ignoreExclude, "ignore-exclude-lb", false, "ignore the label node.kubernetes.io/exclude-from-external-load-balancers")
	fs.TextVar(&flags.conflicts, "conflict-policy", announce.Report, "`POLICY` when another host claims an announced address: report, defend or yield")
	if code, done := flags.Parse(fs, args, stdout); done {
		return code
	}
	log, err := flags.Logger(stderr)
	switch {
	case err != nil:
	case flags.node == "":
		err = errors.New("--node-name or METALLB_NODE_NAME must name this node")
	case flags.Once:
		err = once(ctx, flags, log, stdout)
	default:
		err = serve(ctx, flags, log)
	}
	switch {
	case err == nil:
		return daemon.ExitOK
	case errors.Is(err, speaker.ErrRejected):
		return daemon.ExitRejected
	}
	_, _ = fmt.Fprintf(stderr, "speaker: %v\n", err)
	return daemon.ExitUsage
}

// once decides on the directory for one node, and prints what it decided.
func once(ctx context.Context, flags speakerFlags, log *slog.Logger, stdout io.Writer) error {
	src, err := files(flags, log)
	if err != nil {
		return err
	}
	set, err := src.Load(ctx)
	if err != nil {
		return err
	}
	return speaker.Once(stdout, set, speaker.OnceConfig{
		Node: flags.node, Members: strings.Split(flags.members, ","), LBClass: flags.LBClass,
		IgnoreExclude: flags.ignoreExclude, Logger: log,
	})
}

func files(flags speakerFlags, log *slog.Logger) (*source.Files, error) {
	namespace, err := flags.InNamespace()
	if err != nil {
		return nil, err
	}
	return source.NewFiles(source.FilesConfig{Dir: flags.Manifests, StateDir: flags.State, Namespace: namespace, Component: component, Host: flags.node, Logger: log})
}

// provider is a source that runs, of either kind.
type provider interface {
	speaker.Source
	Run(ctx context.Context) error
}

// open returns the source that the flags ask for, where the metrics listen for it, who may read them, and where to look
// for the other speakers.
func open(flags speakerFlags, log *slog.Logger) (provider, string, metrics.Authorizer, membership.SeedSource, error) {
	if flags.Manifests != "" {
		src, err := files(flags, log)
		if err != nil {
			return nil, "", nil, nil, err
		}
		return src, "127.0.0.1", nil, src.NodeSeeds(flags.gossip.Port), nil
	}
	kube, auth, err := daemon.Kube(flags.Flags, component, flags.node, log)
	if err != nil {
		return nil, "", nil, nil, err
	}
	seeds, err := kube.PodSeeds(flags.gossip.Labels, flags.gossip.Port)
	return kube, "", auth, seeds, err
}

// serve runs until ctx is cancelled. It leaves in order: not eligible, the others take over, silent, gone.
func serve(ctx context.Context, flags speakerFlags, log *slog.Logger) error {
	log.Info("starting", "daemon", "speaker", "node", flags.node, "version", daemon.Version())
	if err := flags.gossip.Resolve(); err != nil { // the seeds need the port
		return err
	}
	src, host, auth, seeds, err := open(flags, log)
	if err != nil {
		return err
	}
	cluster, err := flags.gossip.Cluster(flags.node, flags.Manifests == "", seeds, log)
	if err != nil {
		return err
	}
	ann, err := announce.New(announce.Config{ConflictPolicy: flags.conflicts, Logger: log})
	if err != nil {
		return err
	}
	routers, err := flags.bgp.Engine(log)
	if err != nil {
		return err
	}
	cfg := speaker.Config{
		Node: flags.node, Source: src, Announcer: ann, BGP: routers, LBClass: flags.LBClass, IgnoreExclude: flags.ignoreExclude, Logger: log,
	}
	if cluster != nil {
		cfg.Membership, cfg.HeldUntil = cluster, daemon.HeldUntil(flags.runDir, flags.node, time.Now(), log)
	}
	runs := []func(context.Context) error{src.Run, ann.Run, routers.Run}
	if cluster != nil {
		runs = append(runs, cluster.Run)
	}
	if kube, ok := src.(*source.Kube); ok {
		runs = append(runs, daemon.SpeakerStatuses(ctx, kube, flags.podName, &cfg, log)...)
	}
	spk, err := speaker.New(cfg)
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.Layer2(ann.Stats), metrics.BGP(spk.BGPSessions), metrics.Announcements(spk.Announced), metrics.Orphans(func() uint64 { return spk.Stats().Orphans }),
		metrics.Client(func() metrics.Updates {
			s := spk.Stats()
			return metrics.Updates{Updates: s.Updates, Errors: s.UpdateErrors, Loaded: s.ConfigLoaded, Stale: s.ConfigStale}
		}))
	listeners, err := daemon.Open(ctx, flags.Flags, daemon.Endpoints{
		HealthHost: "127.0.0.1", MetricsHost: host, Ready: spk.Ready, Explain: spk.Explain(), Registry: reg, Authorizer: auth,
	})
	if err != nil {
		return err
	}

	for _, l := range listeners {
		runs = append(runs, l.Serve)
	}
	drain := func(ctx context.Context) {
		log.Info("leaving")
		spk.Drain(ctx)
	}
	if err := daemon.Run(ctx, drain, append(runs, spk.Run)...); err != nil {
		return err
	}
	log.Info("stopped", "daemon", "speaker")
	return nil
}
