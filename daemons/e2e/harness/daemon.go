package harness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/heraldlb/herald/internal/labnet"
)

// The service accounts of daemons/deploy.
const (
	ControllerAccount = "controller"
	SpeakerAccount    = "speaker"
)

// tokenSeconds is how long the tokens of daemons are good: longer than any test.
const tokenSeconds = 3600

// Daemon is a running controller or speaker.
type Daemon struct {
	process *process
	program string
	args    []string
	spawn   func(*exec.Cmd) error
	health  string // host:port of /healthz and /readyz
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// StartController starts the controller under its own service account and waits
// until it is ready. url is where it finds the API: "" for the server itself, or
// what [Server.Intercept] returned.
func (s *Server) StartController(t testing.TB, url string, args ...string) *Daemon {
	t.Helper()
	port := freePort(t)
	args = append([]string{
		"--kubeconfig", s.kubeconfigOf(t, ControllerAccount, url), "--namespace", Namespace,
		"--port", "0", "--health-probe-port", port,
	}, args...)
	d := &Daemon{health: "127.0.0.1:" + port, dial: (&net.Dialer{}).DialContext}
	d.start(t, "controller", (*exec.Cmd).Start, args)
	d.AwaitReady(t)
	return d
}

// StartSpeaker starts a speaker under its own service account on a host of a
// LAN and waits until it is ready. url is what [Server.Relay] returned for it.
func (s *Server) StartSpeaker(t testing.TB, host *labnet.Host, url string, args ...string) *Daemon {
	t.Helper()
	const port = "17472"
	args = append([]string{
		"--kubeconfig", s.kubeconfigOf(t, SpeakerAccount, url), "--namespace", Namespace,
		"--node-name", host.Name(), "--port", "0", "--health-probe-port", port,
	}, args...)
	d := &Daemon{health: "127.0.0.1:" + port, dial: host.Space().DialContext}
	d.start(t, "speaker", host.Space().Start, args)
	d.AwaitReady(t)
	return d
}

func (d *Daemon) start(t testing.TB, name string, start func(*exec.Cmd) error, args []string) {
	t.Helper()
	program, err := binary(name)
	require.NoError(t, err)
	d.program, d.args, d.spawn = program, args, start
	d.process, err = startProcess(name, exec.Command(program, args...), start, filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = d.process.kill()
		if t.Failed() {
			t.Logf("%s %s\n%s", name, strings.Join(args, " "), d.process.tail(60))
		}
	})
}

// AwaitReady waits until /readyz answers 200.
func (d *Daemon) AwaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, d.process.name+" is ready", func() string {
		if err := d.process.running(); err != nil {
			t.Fatal(err)
		}
		return d.probe(t.Context(), "/readyz")
	})
}

// Revive does what a kubelet does: it starts the daemon again when it has ended.
// It reports whether it had.
func (d *Daemon) Revive(t testing.TB) bool {
	t.Helper()
	if d.process.running() == nil {
		return false
	}
	var err error
	d.process, err = startProcess(d.process.name, exec.Command(d.program, d.args...), d.spawn, d.process.logPath)
	require.NoError(t, err)
	return true
}

// Healthy fails the test when the daemon has ended or /healthz does not answer 200.
func (d *Daemon) Healthy(t testing.TB) {
	t.Helper()
	require.NoError(t, d.process.running())
	require.Empty(t, d.probe(t.Context(), "/healthz"), "/healthz of %s", d.process.name)
}

// probe returns "" when the path answers 200, else what is wrong.
func (d *Daemon) probe(ctx context.Context, path string) string {
	transport := &http.Transport{DialContext: d.dial, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.health+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Status
	}
	return ""
}

// Stop ends the daemon with SIGTERM and requires exit status 0.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stopTimeout)
	defer cancel()
	require.NoError(t, d.process.stop(ctx))
}

// Kill ends the daemon with SIGKILL.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, d.process.kill())
}

// Usage returns what a daemon that was stopped took: CPU time, and the most
// memory that it held, in bytes.
func (d *Daemon) Usage(t testing.TB) (cpu time.Duration, rss int64) {
	t.Helper()
	state := d.process.cmd.ProcessState
	usage, ok := state.SysUsage().(*syscall.Rusage)
	require.True(t, ok, "%T", state.SysUsage())
	return state.UserTime() + state.SystemTime(), usage.Maxrss * 1024
}

// Log returns what the daemon wrote so far.
func (d *Daemon) Log() string { return d.process.log() }

// kubeconfigOf writes a kubeconfig with a token of a service account, as the
// TokenRequest API gives it to a kubelet for a pod, and returns its path.
func (s *Server) kubeconfigOf(t testing.TB, account, url string) string {
	t.Helper()
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := s.Kube.CoreV1().ServiceAccounts(Namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	require.NoError(t, err, "token of service account %s", account)
	if url == "" {
		url = s.config.Host
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["e2e"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: s.config.CAData}
	cfg.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	cfg.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: account}
	cfg.CurrentContext = "e2e"
	path := filepath.Join(t.TempDir(), account+".kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*cfg, path))
	return path
}

// freePort picks a port that nothing in the sandbox listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	addr, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok, fmt.Sprintf("%T", l.Addr()))
	return strconv.Itoa(addr.Port)
}
