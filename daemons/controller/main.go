// Command controller gives every Service of type LoadBalancer an address. It needs no privilege.
//
// It reads from an API server or, with --manifests, from a directory of YAML manifests. --help lists the flags,
// docs/operating.md explains them.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/heraldlb/herald/daemons/internal/daemon"
	"github.com/heraldlb/herald/k8sadapter/controller"
	"github.com/heraldlb/herald/k8sadapter/metrics"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/status"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// component is the source of the Events, as MetalLB has it.
const component = "metallb-controller"

// leaseName is the Lease that the leading controller holds, in MetalLB's namespace.
const leaseName = "herald-controller"

// controllerFlags are the flags of the controller alone.
type controllerFlags struct {
	daemon.Flags
	leaderElect            bool
	podName                string
	secretName, deployment string
}

// run is the whole program: it returns the exit code when ctx is cancelled, or when something fails.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var flags controllerFlags
	fs := flag.NewFlagSet("controller", flag.ContinueOnError)
	fs.SetOutput(stderr)
	flags.Register(fs)
	fs.BoolVar(&flags.leaderElect, "leader-elect", true, "wait for the Lease "+leaseName+", or with --manifests for the lock of the state directory, before serving, so that several replicas can run")
	fs.StringVar(&flags.podName, "pod-name", os.Getenv("METALLB_POD_NAME"), "`NAME` of this pod, the identity for the Lease (env METALLB_POD_NAME; default: the host name)")
	fs.StringVar(&flags.secretName, "ml-secret-name", os.Getenv("METALLB_ML_SECRET_NAME"), "in a cluster: create the Secret `NAME` that encrypts the speakers' gossip, if there is none (env METALLB_ML_SECRET_NAME)")
	fs.StringVar(&flags.deployment, "deployment", os.Getenv("METALLB_DEPLOYMENT"), "`NAME` of the Deployment that owns that Secret (env METALLB_DEPLOYMENT)")
	if code, done := flags.Parse(fs, args, stdout); done {
		return code
	}
	log, err := flags.Logger(stderr)
	if err == nil {
		if flags.Once {
			err = once(ctx, flags, log, stdout)
		} else {
			err = serve(ctx, flags, log)
		}
	}
	switch {
	case err == nil:
		return daemon.ExitOK
	case errors.Is(err, controller.ErrRejected):
		return daemon.ExitRejected
	}
	_, _ = fmt.Fprintf(stderr, "controller: %v\n", err)
	return daemon.ExitUsage
}

// once decides on the directory, and prints what it decided.
func once(ctx context.Context, flags controllerFlags, log *slog.Logger, stdout io.Writer) error {
	src, err := files(flags, log)
	if err != nil {
		return err
	}
	set, err := src.Load(ctx)
	if err != nil {
		return err
	}
	return controller.Once(stdout, set, controller.OnceConfig{LBClass: flags.LBClass, Logger: log})
}

func files(flags controllerFlags, log *slog.Logger) (*source.Files, error) {
	namespace, err := flags.InNamespace()
	if err != nil {
		return nil, err
	}
	return source.NewFiles(source.FilesConfig{Dir: flags.Manifests, StateDir: flags.State, Namespace: namespace, Component: component, Logger: log})
}

// provider is a source that runs, of either kind.
type provider interface {
	controller.Source
	Run(ctx context.Context) error
}

// open returns the source that the flags ask for, where the metrics listen for it, and who may read them.
func open(flags controllerFlags, log *slog.Logger) (src provider, metricsHost string, auth metrics.Authorizer, err error) {
	if flags.Manifests != "" {
		src, err = files(flags, log)
		return src, "127.0.0.1", nil, err
	}
	kube, auth, err := daemon.Kube(flags.Flags, component, "", log)
	return kube, "", auth, err
}

// serve runs until ctx is cancelled.
func serve(ctx context.Context, flags controllerFlags, log *slog.Logger) error {
	log.Info("starting", "daemon", "controller", "version", daemon.Version())
	src, host, auth, err := open(flags, log)
	if err != nil {
		return err
	}
	decisions := metrics.NewLatency("controller_decision", "How long a decision on a Service took.")
	writes := metrics.NewLatency("controller_write", "How long a write of a Service's status took.")
	cfg := controller.Config{
		Source: src, LBClass: flags.LBClass, OnDecision: decisions.Observe, OnWrite: writes.Observe, Logger: log,
	}
	kube, inCluster := src.(*source.Kube)
	var runs []func(context.Context) error // what the leader runs
	if inCluster && flags.secretName != "" {
		if err := kube.EnsureGossipSecret(ctx, flags.secretName, flags.deployment); err != nil {
			return err
		}
	}
	if inCluster {
		state := status.NewConfiguration(status.ConfigurationConfig{
			Store: status.ConfigurationStates(kube.MetalLB(), kube.Namespace()), Name: "controller",
			Labels: map[string]string{status.LabelComponent: "controller"}, Condition: status.ConditionController, Logger: log,
		})
		l2 := status.NewPrune(status.ServiceL2Statuses(kube.MetalLB(), kube.Namespace()), log)
		bgp := status.NewPrune(status.ServiceBGPStatuses(kube.MetalLB(), kube.Namespace()), log)
		cfg.OnConfiguration, cfg.OnNodes = state.Set, func(nodes map[string]struct{}) { l2.Set(nodes); bgp.Set(nodes) }
		runs = append(runs, state.Run, l2.Run, bgp.Run)
	}
	ctrl, err := controller.New(cfg)
	if err != nil {
		return err
	}
	runs = append(runs, ctrl.Run)
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.Allocator(ctrl.Usage), decisions, writes,
		metrics.Client(func() metrics.Updates {
			s := ctrl.Stats()
			return metrics.Updates{Updates: s.Updates, Errors: s.UpdateErrors, Loaded: s.ConfigLoaded, Stale: s.ConfigStale}
		}))
	var leading atomic.Bool // a replica that waits for the Lease is ready to take over
	lead := func(ctx context.Context) error {
		leading.Store(true)
		g, ctx := errgroup.WithContext(ctx)
		for _, run := range runs {
			g.Go(func() error { return run(ctx) })
		}
		return g.Wait()
	}
	listeners, err := daemon.Open(ctx, flags.Flags, daemon.Endpoints{
		HealthHost: "", MetricsHost: host, Ready: func() bool { return !leading.Load() || ctrl.Ready() },
		Registry: reg, Authorizer: auth,
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		g.Go(func() error { return l.Serve(ctx) })
	}
	g.Go(func() error { return src.Run(ctx) })
	g.Go(func() error {
		dir, inFiles := src.(*source.Files)
		switch {
		case inCluster && flags.leaderElect:
			return kube.Lead(ctx, source.LeaseConfig{Name: leaseName, Identity: identity(flags.podName)}, lead)
		case inFiles && flags.leaderElect:
			return dir.Lead(ctx, lead)
		}
		return lead(ctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	log.Info("stopped", "daemon", "controller")
	return nil
}

// identity is unique among the replicas: two processes on one host differ by their process number.
func identity(podName string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%d", cmp.Or(podName, host), os.Getpid())
}
