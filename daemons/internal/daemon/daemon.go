// Package daemon is what the two reference daemons have in common: their flags, their logger, their version, and their
// HTTP listeners. Everything that decides anything is in the library packages.
package daemon

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/heraldlb/herald/k8sadapter/source"
)

// Exit codes of the daemons.
const (
	ExitOK       = 0 // all well
	ExitUsage    = 1 // wrong usage, input that cannot be read, or a failure while running
	ExitRejected = 2 // --once: at least one object was rejected; the others are printed
)

// serviceAccountNamespace is where a pod finds the name of its namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Flags are the flags that both daemons have. Names and defaults are MetalLB's where it has them. Register says what each
// means.
type Flags struct {
	Manifests, State, Namespace, Kubeconfig, LBClass string
	LogLevel, MetricsCertDir                         string
	Once, Version                                    bool
	QPS                                              float64
	Burst                                            int
	Port, HealthPort                                 int
}

// Register adds the flags to fs.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.StringVar(&f.Manifests, "manifests", "", "read objects from this `DIR` of YAML manifests, not from an API server")
	fs.StringVar(&f.State, "state", "", "with --manifests: keep statuses in this `DIR` (default: .herald in it)")
	fs.BoolVar(&f.Once, "once", false, "with --manifests: decide, print the decisions as YAML, write nothing, and exit")
	fs.StringVar(&f.Namespace, "namespace", os.Getenv("METALLB_NAMESPACE"), "`NAME` of MetalLB's namespace (env METALLB_NAMESPACE; default: the pod's own, with --manifests "+source.DefaultNamespace+")")
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "`FILE` to find the API server with (default: as a pod does)")
	fs.Float64Var(&f.QPS, "kube-api-qps", 50, "`NUMBER` of requests a second to the API server, over a longer time")
	fs.IntVar(&f.Burst, "kube-api-burst", 100, "`NUMBER` of requests to the API server at once")
	fs.StringVar(&f.LBClass, "lb-class", "", "serve Services of this loadBalancerClass `NAME` (default: those without one)")
	fs.IntVar(&f.Port, "port", 9120, "`PORT` of the metrics; 0 disables them")
	fs.StringVar(&f.MetricsCertDir, "metrics-cert-dir", "", "`DIR` with tls.crt and tls.key for the metrics (default: self-signed)")
	fs.IntVar(&f.HealthPort, "health-probe-port", 17472, "`PORT` of /healthz and /readyz; 0 disables them")
	fs.StringVar(&f.LogLevel, "log-level", "info", "`LEVEL`: all, debug, info, warn, error or none")
	fs.BoolVar(&f.Version, "version", false, "print the version and exit")
}

// Parse parses args and checks what can be checked without looking at anything. done says that the daemon has nothing
// more to do and exits with code.
func (f *Flags) Parse(fs *flag.FlagSet, args []string, stdout io.Writer) (code int, done bool) {
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return ExitOK, true
	case err != nil:
		return ExitUsage, true
	}
	if f.Version {
		_, _ = fmt.Fprintf(stdout, "%s %s\n", fs.Name(), Version())
		return ExitOK, true
	}
	var errs []error
	if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if f.Manifests == "" && (f.Once || f.State != "") {
		errs = append(errs, errors.New("--once and --state need --manifests DIR"))
	}
	if f.Manifests != "" && f.Kubeconfig != "" {
		errs = append(errs, errors.New("--manifests and --kubeconfig exclude each other"))
	}
	if f.QPS <= 0 || f.Burst <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps %v --kube-api-burst %d: must be greater than 0", f.QPS, f.Burst))
	}
	for name, port := range map[string]int{"--port": f.Port, "--health-probe-port": f.HealthPort} {
		if port < 0 || port > 65535 {
			errs = append(errs, fmt.Errorf("%s %d: not a port (0..65535)", name, port))
		}
	}
	if err := errors.Join(errs...); err != nil {
		_, _ = fmt.Fprintf(fs.Output(), "%s: %v\n", fs.Name(), err)
		return ExitUsage, true
	}
	return ExitOK, false
}

// Logger returns the logger that the flags ask for: JSON in a cluster, text beside a directory, on w.
func (f *Flags) Logger(w io.Writer) (*slog.Logger, error) {
	levels := map[string]slog.Level{
		"all": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	if f.LogLevel == "none" {
		return slog.New(slog.DiscardHandler), nil
	}
	level, ok := levels[f.LogLevel]
	if !ok {
		return nil, fmt.Errorf("--log-level %q: want all, debug, info, warn, error or none", f.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if f.Manifests != "" {
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(w, opts)), nil
}

// InNamespace is MetalLB's namespace: the flag (or its environment variable), the default beside a directory, or the
// namespace that the pod runs in.
func (f *Flags) InNamespace() (string, error) {
	if f.Namespace != "" {
		return f.Namespace, nil
	}
	if f.Manifests != "" {
		return source.DefaultNamespace, nil
	}
	text, err := os.ReadFile(serviceAccountNamespace)
	if err != nil {
		return "", fmt.Errorf("find MetalLB's namespace: %w; outside a pod give --namespace", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Version is the version from the build information: the module's version where there is one, else the revision of the
// source tree, else the Go version that built it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown (built without module support)"
	}
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "unreleased"
	}
	if rev := settings["vcs.revision"]; rev != "" {
		version += " revision " + rev
		if settings["vcs.modified"] == "true" {
			version += " with local changes"
		}
	}
	return fmt.Sprintf("%s (%s, %s/%s)", version, info.GoVersion, cmp.Or(settings["GOOS"], "unknown"), cmp.Or(settings["GOARCH"], "unknown"))
}
