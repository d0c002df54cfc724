package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// Namespace is where the daemons and their objects live.
const Namespace = "metallb-system"

// startTimeout bounds the start of the API server; it takes three seconds on an
// idle machine.
const startTimeout = 3 * time.Minute

// stopTimeout bounds a graceful stop of any process.
const stopTimeout = time.Minute

// Server is a Kubernetes API server with its etcd. Its methods are to be called
// from the goroutine of a test.
type Server struct {
	Kube    kubernetes.Interface // typed, as administrator
	Dynamic dynamic.Interface    // for the kinds of metallb.io, as administrator

	dir     string
	config  *rest.Config
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	process *process
}

// NewServer starts an empty control plane and stops it when the test ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir()}
	t.Cleanup(func() {
		if s.process != nil {
			_ = s.process.kill()
		}
		if t.Failed() && s.process != nil {
			t.Logf("last lines of the control plane:\n%s", s.process.tail(20))
		}
	})
	s.Start(t)
	require.NoError(t, s.connect())
	return s
}

// NewCluster starts a control plane and applies the manifests of daemons/deploy.
func NewCluster(t testing.TB) *Server {
	t.Helper()
	s := NewServer(t)
	for _, object := range Manifests(t) {
		s.Apply(t, object)
	}
	return s
}

// Start starts the server, again if need be, and waits until it is ready. The
// port, the data and the credentials stay the same.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	program, err := binary("controlplane")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	logPath := filepath.Join(s.dir, "log")
	require.NoError(t, os.RemoveAll(logPath))
	s.process, err = startProcess("controlplane", exec.Command(program, "--dir", s.dir), (*exec.Cmd).Start, logPath)
	require.NoError(t, err)
	require.NoError(t, s.awaitReady(ctx))
}

// awaitReady waits for the line "ready", which controlplane prints after /readyz
// answered 200.
func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(s.process.log(), "\nready ") {
		if err := s.process.running(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w; its last lines:\n%s", ctx.Err(), s.process.tail(20))
		case <-tick.C:
		}
	}
	return nil
}

// Stop stops the server gracefully: an outage begins.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stopTimeout)
	defer cancel()
	require.NoError(t, s.process.stop(ctx))
}

// Kill ends the server without warning.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, s.process.kill())
}

// Config returns a copy of the administrator's client configuration.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (s *Server) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

func (s *Server) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "herald-e2e"
	s.config = config
	if s.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.Kube.Discovery()))
	return nil
}
