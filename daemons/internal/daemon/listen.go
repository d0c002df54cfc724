package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldlb/herald/k8sadapter/metrics"
)

// Endpoints are what a daemon serves over HTTP.
type Endpoints struct {
	// HealthHost is where the probes listen. Empty: every address.
	HealthHost string
	// Ready says whether the daemon is ready.
	Ready func() bool
	// Explain, if set, is served at /debug/explain beside the probes.
	Explain http.Handler
	// MetricsHost is where the metrics listen. Empty: every address.
	MetricsHost string
	// Registry holds the metrics.
	Registry *prometheus.Registry
	// Authorizer says who may read the metrics; they are served over TLS then, as MetalLB's are. Nil: anyone who can
	// reach MetricsHost, without TLS.
	Authorizer metrics.Authorizer
}

// Listener is a bound listener with what it serves.
type Listener struct {
	net.Listener
	handler http.Handler
}

// Open binds the ports that the flags name, so that a daemon that cannot have one fails at its start. Either all of the
// listeners are open or none.
func Open(ctx context.Context, flags Flags, e Endpoints) (open []Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range open {
				err = errors.Join(err, l.Close())
			}
			open = nil
		}
	}()
	if flags.HealthPort != 0 {
		l, err := listen(ctx, e.HealthHost, flags.HealthPort, "--health-probe-port")
		if err != nil {
			return open, err
		}
		open = append(open, Listener{l, probes(e.Ready, e.Explain)})
	}
	if flags.Port != 0 {
		l, err := listen(ctx, e.MetricsHost, flags.Port, "--port")
		if err != nil {
			return open, err
		}
		if e.Authorizer != nil {
			cfg, err := metrics.TLS(flags.MetricsCertDir)
			if err != nil {
				return append(open, Listener{Listener: l}), fmt.Errorf("--metrics-cert-dir: %w", err)
			}
			l = tls.NewListener(l, cfg)
		}
		open = append(open, Listener{l, metrics.Handler(e.Registry, e.Authorizer)})
	}
	return open, nil
}

func listen(ctx context.Context, host string, port int, flagName string) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another port with %s, or 0 for none", addr, err, flagName)
	}
	return l, nil
}

// Serve serves until ctx is cancelled, and closes the listener.
func (l Listener) Serve(ctx context.Context) error {
	srv := &http.Server{Handler: l.handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(bound) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l.Listener)
	if stop() {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}

// probes serves /healthz (the process runs) and /readyz (ready says so).
func probes(ready func() bool, explain http.Handler) http.Handler {
	mux := http.NewServeMux()
	if explain != nil {
		mux.Handle("GET /debug/explain", explain)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready: the first list of objects is not complete", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}
