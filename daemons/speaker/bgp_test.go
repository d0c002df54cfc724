package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/internal/netnstest"
)

// requirePeers is the environment variable that turns skips for a missing BIRD into failures.
const requirePeers = "HERALD_REQUIRE_PEERS"

const birdConfig = `
router id 192.0.2.254;
protocol device {}
protocol bgp node {
  local 192.0.2.254 as 64513;
  neighbor 192.0.2.1 as 64512;
  password "%s";
  passive;
  ipv4 { import all; export none; };
  ipv6 { import all; export none; };
}
`

const fabric = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: office, namespace: metallb-system}
spec: {addresses: [198.51.100.0/24, "2001:db8:77::/64"]}
---
apiVersion: v1
kind: Node
metadata: {name: kw-01}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: metallb-system}
spec:
  myASN: 64512
  peerASN: 64513
  peerAddress: 192.0.2.254
  connectTime: 1s
  dualStackAddressFamily: true
  passwordSecret: {name: tor-key}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: office, namespace: metallb-system}
spec: {communities: ["64512:7", "large:64512:1:2"], aggregationLength: 28}
`

const webService = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop, annotations: {metallb.io/ip-allocated-from-pool: office}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
status: {loadBalancer: {ingress: [{ip: "198.51.100.%[2]d"}, {ip: "2001:db8:77::%[2]d"}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: shop, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], nodeName: kw-01}]
`

const key = "{apiVersion: v1, kind: Secret, metadata: {name: tor-key, namespace: metallb-system}, type: kubernetes.io/basic-auth, stringData: {password: %s}}"

// site is a node with the speaker, and a router with BIRD, at the two ends of a link.
type site struct {
	*testing.T
	node, router *netnstest.NS
	manifests    string // directory of the speaker
	bird         string // directory of BIRD
	said         *words
}

// words is what a process says.
type words struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func newSite(t *testing.T) *site {
	t.Helper()
	for _, program := range []string{"bird", "birdc"} {
		if _, err := os.Stat("/usr/sbin/" + program); err != nil {
			if os.Getenv(requirePeers) != "" {
				t.Fatalf("%s is missing: install the Debian package bird2", program)
			}
			t.Skipf("%s is missing: install the Debian package bird2; set %s=1 to make this a failure", program, requirePeers)
		}
	}
	s := &site{T: t, node: netnstest.New(t), router: netnstest.New(t), manifests: t.TempDir(), bird: t.TempDir(), said: &words{}}
	netnstest.Veth(t, s.node, "eth0", s.router, "eth0")
	for ns, last := range map[*netnstest.NS]int{s.node: 1, s.router: 254} {
		ns.AddAddr(t, "eth0", fmt.Sprintf("192.0.2.%d/24", last))
		ns.AddAddr(t, "eth0", fmt.Sprintf("2001:db8::%d/64", last))
		ns.SetUp(t, "eth0", true)
	}
	return s
}

// start starts a program in a namespace, and returns what waits for its end.
func (s *site) start(ns *netnstest.NS, cmd *exec.Cmd) (wait func() error) {
	s.Helper()
	cmd.Stdout, cmd.Stderr = s.said, s.said
	require.NoError(s, ns.Do(cmd.Start))
	wait = sync.OnceValue(func() error {
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		return cmd.Wait()
	})
	s.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = wait()
	})
	return wait
}

func (s *site) configure(password string) {
	s.Helper()
	require.NoError(s, os.WriteFile(filepath.Join(s.bird, "bird.conf"), fmt.Appendf(nil, birdConfig, password), 0o600))
}

func (s *site) write(name, text string) {
	s.Helper()
	tmp := filepath.Join(s.manifests, ".new")
	require.NoError(s, os.WriteFile(tmp, []byte(text), 0o600))
	require.NoError(s, os.Rename(tmp, filepath.Join(s.manifests, name)))
}

// ask returns BIRD's answer.
func (s *site) ask(command ...string) (string, error) {
	out, err := exec.CommandContext(s.Context(), "/usr/sbin/birdc", append([]string{"-s", filepath.Join(s.bird, "bird.ctl")}, command...)...).CombinedOutput()
	return string(out), err
}

// routes are the prefixes that BIRD has, sorted.
func (s *site) routes() []string {
	text, err := s.ask("show", "route")
	if err != nil {
		return []string{err.Error()}
	}
	found := regexp.MustCompile(`(?m)^[0-9a-f.:]+/\d+`).FindAllString(text, -1)
	slices.Sort(found)
	return found
}

func (s *site) eventually(what string, condition func() bool) {
	s.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			protocols, _ := s.ask("show", "protocols", "all", "node")
			s.Fatalf("not in time: %s; BIRD has %v\n%s\nthe speaker and BIRD said:\n%s", what, s.routes(), protocols, s.said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *site) has(what string, want ...string) {
	s.Helper()
	s.eventually(what, func() bool { return slices.Equal(want, s.routes()) })
}

// metric returns the line of a series of the speaker.
func (s *site) metric(name string) string {
	s.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = s.node.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://127.0.0.1:9120/metrics", nil)
	require.NoError(s, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(s, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name+"{") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// TestBIRD runs the speaker on a directory against BIRD: routes of both families over one signed session, a Service that
// comes and goes, an aggregate that two need, a password that changes and one that is missing, and the end.
func TestBIRD(t *testing.T) {
	s := newSite(t)
	s.configure("sesame")
	s.start(s.router, exec.Command("/usr/sbin/bird", "-f", "-c", filepath.Join(s.bird, "bird.conf"), "-s", filepath.Join(s.bird, "bird.ctl"), "-P", filepath.Join(s.bird, "bird.pid")))
	s.eventually("BIRD answers", func() bool { _, err := s.ask("show", "status"); return err == nil })

	s.write("fabric.yaml", fabric)
	s.write("key.yaml", fmt.Sprintf(key, "sesame"))
	s.write("web.yaml", fmt.Sprintf(webService, "web", 7))
	cmd := exec.Command(os.Args[0], "--manifests", s.manifests, "--node-name", "kw-01")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	ended := s.start(s.node, cmd)

	four, six := "198.51.100.0/28", func(n int) string { return fmt.Sprintf("2001:db8:77::%d/128", n) }
	s.has("the routes arrive", four, six(7))
	text, err := s.ask("show", "route", "all")
	require.NoError(t, err)
	for _, want := range []string{
		"BGP.as_path: 64512", "BGP.next_hop: 192.0.2.1", "BGP.next_hop: 2001:db8::1", "BGP.community: (64512,7)", "BGP.large_community: (64512, 1, 2)",
	} {
		assert.Contains(t, text, want)
	}
	protocol, err := s.ask("show", "protocols", "all", "node")
	require.NoError(t, err)
	assert.Contains(t, protocol, "Neighbor ID:      192.0.2.1", "the address of the node")
	assert.Equal(t, `metallb_bgp_session_up{peer="192.0.2.254:179",vrf=""} 1`, s.metric("metallb_bgp_session_up"))
	assert.Equal(t, `metallb_bgp_announced_prefixes_total{peer="192.0.2.254:179",vrf=""} 2`, s.metric("metallb_bgp_announced_prefixes_total"))

	s.write("api.yaml", fmt.Sprintf(webService, "api", 9))
	s.has("a Service comes", four, six(7), six(9))
	require.NoError(t, os.Remove(filepath.Join(s.manifests, "web.yaml")))
	s.has("a Service goes, and the aggregate stays", four, six(9))
	assert.Equal(t, `metallb_bgp_opens_sent{peer="192.0.2.254:179",vrf=""} 1`, s.metric("metallb_bgp_opens_sent"), "all in one session")

	s.configure("open")
	_, err = s.ask("configure")
	require.NoError(t, err)
	s.write("key.yaml", fmt.Sprintf(key, "open"))
	s.eventually("the session is up with the new password", func() bool {
		return s.metric("metallb_bgp_opens_sent") != `metallb_bgp_opens_sent{peer="192.0.2.254:179",vrf=""} 1` && slices.Equal(s.routes(), []string{four, six(9)})
	})

	require.NoError(t, os.Remove(filepath.Join(s.manifests, "key.yaml")))
	s.has("without its Secret the peer is held back")
	assert.Empty(t, s.metric("metallb_bgp_session_up"))
	s.write("key.yaml", fmt.Sprintf(key, "open"))
	s.has("and with it comes back", four, six(9))

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, ended())
	s.has("the speaker leaves and withdraws")
	for _, secret := range []string{"sesame", "password=open"} {
		assert.NotContains(t, s.said.String(), secret)
	}
}
