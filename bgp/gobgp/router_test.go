package gobgp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/bgp/bgptest"
	"github.com/heraldlb/herald/internal/netnstest"
)

// requirePeers is the environment variable that turns skips for missing routers
// into failures.
const requirePeers = "HERALD_REQUIRE_PEERS"

// routerConfig is what the tests want of BIRD or FRR.
type routerConfig struct {
	ASN     uint32
	NodeASN string // "64512", or "external" or "internal"
	Node    netip.Addr
	Self    netip.Addr
	Link    string // set: the peer is on this link, whatever its address

	Password   string
	Graceful   bool
	OldASN     bool // BIRD only: no AS numbers of four octets
	Connect    bool // the router connects, instead of waiting
	NodePort   uint16
	Multihop   bool
	Reflector  bool // BIRD only: reflects what internal peers say
	IPv4, IPv6 bool
	HoldTime   int

	Dir string
}

// router is a running router.
type router interface {
	start(t *testing.T, ns *netnstest.NS, cfg routerConfig)
	// reconfigure replaces the configuration without a restart.
	reconfigure(t *testing.T, cfg routerConfig)
	// routes returns what it holds, as a bgptest.Peer would describe it. BIRD and
	// FRR set a LOCAL_PREF of their own on external routes, which is left out.
	routes(t *testing.T) map[netip.Prefix]bgptest.Route
	// count returns the number of routes.
	count(t *testing.T) int
}

func routers() map[string]func() router {
	return map[string]func() router{
		"bird": func() router { return &bird{} },
		"frr":  func() router { return &frr{} },
	}
}

// lab is a node, which is the test process, and a router behind a link.
type lab struct {
	*testing.T
	node, far        *netnstest.NS
	link             string
	node4, node6     netip.Addr
	router4, router6 netip.Addr
	cfg              routerConfig
	router           router
}

// links numbers the links of the process, so that labs do not meet.
var links atomic.Uint32 //nolint:gochecknoglobals // only of the test process

func newLab(t *testing.T, r router) *lab {
	t.Helper()
	n := byte(links.Add(1))
	l := &lab{
		T: t, node: netnstest.Here(t), far: netnstest.New(t), router: r,
		link:    fmt.Sprintf("r%d", n),
		node4:   netip.AddrFrom4([4]byte{10, 9, n, 1}),
		router4: netip.AddrFrom4([4]byte{10, 9, n, 2}),
		node6:   netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::1", n)),
		router6: netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::2", n)),
	}
	netnstest.Veth(t, l.node, l.link, l.far, "eth0")
	l.node.AddAddr(t, l.link, l.node4.String()+"/24")
	l.node.AddAddr(t, l.link, l.node6.String()+"/64")
	l.far.AddAddr(t, "eth0", l.router4.String()+"/24")
	l.far.AddAddr(t, "eth0", l.router6.String()+"/64")
	l.cfg = routerConfig{ASN: 64513, NodeASN: "64512", Node: l.node4, Self: l.router4, IPv4: true, IPv6: true, HoldTime: 90, Dir: t.TempDir()}
	return l
}

func (l *lab) startRouter() { l.router.start(l.T, l.far, l.cfg) }

func (l *lab) peer() bgp.Peer {
	return bgp.Peer{
		Name: "router", LocalASN: 64512, PeerASN: l.cfg.ASN, Addr: l.cfg.Self, RouterID: netip.MustParseAddr("192.0.2.77"),
		Families: bgp.IPv4 | bgp.IPv6, ConnectRetry: new(time.Second),
	}
}

// run starts an engine that ends with the test, or with stop.
func (l *lab) run(e *Engine) (stop func() error) {
	l.Helper()
	return runEngine(l.T, e)
}

func runEngine(t testing.TB, e *Engine) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var result error
	ended := false
	stop = func() error {
		cancel()
		if !ended {
			result, ended = <-done, true
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// wait waits for a condition that only polling can see.
func wait(t testing.TB, what string, condition func() bool) {
	t.Helper()
	waitFor(t, bgptest.Patience, what, condition)
}

// waitLong is for what takes a busy machine long.
func waitLong(t testing.TB, what string, condition func() bool) {
	t.Helper()
	waitFor(t, 5*bgptest.Patience, what, condition)
}

func waitFor(t testing.TB, patience time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// need looks for a program, and skips the test without it.
func need(t testing.TB, program, debian string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin/", "/usr/lib/frr/"} {
		if path, err := exec.LookPath(dir + program); err == nil {
			return path
		}
	}
	if os.Getenv(requirePeers) != "" {
		t.Fatalf("%s is missing: install the Debian package %s", program, debian)
	}
	t.Skipf("%s is missing: install the Debian package %s; set %s=1 to make this a failure", program, debian, requirePeers)
	return ""
}

// daemon starts a program in a namespace and ends it with the test. It is the child
// of a shell that reads from this process, so that it ends with this process too,
// even if that is killed.
func daemon(t *testing.T, ns *netnstest.NS, dir, path string, args ...string) {
	t.Helper()
	out, err := os.Create(filepath.Join(dir, filepath.Base(path)+".out"))
	require.NoError(t, err)
	cmd := exec.Command("/bin/sh", append([]string{"-c", `"$@" </dev/null & read _; kill $!; wait $!`, "sh", path}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	lifeline, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, ns.Do(cmd.Start))
	t.Cleanup(func() {
		if text, err := os.ReadFile(filepath.Join(dir, "bird.log")); err == nil && t.Failed() {
			t.Logf("BIRD's log:\n%s", tail(text))
		}
		_ = lifeline.Close()
		_ = cmd.Wait() // the status is that of a process that was told to end
		_ = out.Close()
		if t.Failed() {
			text, _ := os.ReadFile(out.Name())
			t.Logf("%s said:\n%s", path, tail(text))
		}
	})
}

func tail(text []byte) []byte { return text[max(0, len(text)-3000):] }

func render(t *testing.T, text string, cfg routerConfig) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, template.Must(template.New("").Parse(text)).Execute(&b, cfg))
	return b.Bytes()
}

// bird is BIRD 2.
type bird struct{ dir, birdc string }

const birdConfig = `
log "{{.Dir}}/bird.log" all;
debug protocols { routes, states };
router id 198.51.100.1;
protocol device {}
protocol bgp node {
  local {{if .Self.IsValid}}{{if not .Link}}{{.Self}}{{end}}{{end}} as {{.ASN}};
  neighbor {{if .Link}}{{.Node}}%eth0{{else}}{{.Node}}{{end}} {{if .NodePort}}port {{.NodePort}}{{end}} {{if eq .NodeASN "external" "internal"}}{{.NodeASN}}{{else}}as {{.NodeASN}}{{end}};
  {{if not .Connect}}passive;{{end}}
  {{if .Multihop}}multihop;{{end}}
  {{if .Password}}password "{{.Password}}";{{end}}
  {{if .OldASN}}enable as4 off;{{end}}
  {{if .Reflector}}rr client;{{end}}
  hold time {{.HoldTime}};
  connect delay time 1; connect retry time 1; error wait time 1, 1;
  graceful restart {{if .Graceful}}yes{{else}}off{{end}};
  {{if .IPv4}}ipv4 { import all; export {{if .Reflector}}all{{else}}none{{end}}; {{if .Self.Is6}}extended next hop on;{{end}} };{{end}}
  {{if .IPv6}}ipv6 { import all; export none; };{{end}}
}
`

func (b *bird) start(t *testing.T, ns *netnstest.NS, cfg routerConfig) {
	path := need(t, "bird", "bird2")
	b.birdc = need(t, "birdc", "bird2")
	b.dir = cfg.Dir
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "bird.conf"), render(t, birdConfig, cfg), 0o600))
	daemon(t, ns, b.dir, path, "-f", "-c", "bird.conf", "-s", "bird.ctl", "-P", "bird.pid")
	wait(t, "BIRD answers", func() bool {
		return exec.Command(b.birdc, "-s", filepath.Join(b.dir, "bird.ctl"), "show", "status").Run() == nil
	})
}

func (b *bird) reconfigure(t *testing.T, cfg routerConfig) {
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "bird.conf"), render(t, birdConfig, cfg), 0o600))
	b.ask(t, "configure")
}

func (b *bird) ask(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(b.birdc, append([]string{"-s", filepath.Join(b.dir, "bird.ctl")}, command...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// log returns what BIRD has written.
func (b *bird) log(t *testing.T) string {
	text, err := os.ReadFile(filepath.Join(b.dir, "bird.log"))
	require.NoError(t, err)
	return string(text)
}

func (b *bird) count(t *testing.T) int {
	total := 0
	for line := range strings.Lines(b.ask(t, "show", "route", "count")) {
		if n, _, ok := strings.Cut(line, " of "); ok && strings.Contains(line, "in table") {
			v, err := strconv.Atoi(n)
			require.NoError(t, err)
			total += v
		}
	}
	return total
}

func (b *bird) routes(t *testing.T) map[netip.Prefix]bgptest.Route {
	found := make(map[netip.Prefix]bgptest.Route)
	var prefix netip.Prefix
	for line := range strings.Lines(b.ask(t, "show", "route", "all")) {
		if p, err := netip.ParsePrefix(strings.SplitN(line, " ", 2)[0]); err == nil {
			prefix = p
			found[prefix] = bgptest.Route{}
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !strings.HasPrefix(key, "BGP.") {
			continue
		}
		r := found[prefix]
		birdAttribute(t, &r, strings.TrimPrefix(key, "BGP."), value)
		found[prefix] = r
	}
	return found
}

func birdAttribute(t *testing.T, r *bgptest.Route, key, value string) {
	switch key {
	case "as_path":
		r.ASPath = numbers(t, value)
	case "next_hop":
		for field := range strings.FieldsSeq(value) { // ":: fe80::1" when there is a link-local one only
			hop, err := netip.ParseAddr(field)
			require.NoError(t, err)
			if !hop.IsUnspecified() {
				r.NextHop = hop
				break
			}
		}
	case "local_pref":
		r.LocalPref = &numbers(t, value)[0]
	case "med":
		r.MED = &numbers(t, value)[0]
	case "community":
		for n := numbers(t, value); len(n) > 0; n = n[2:] {
			r.Communities = append(r.Communities, bgp.Community(n[0]<<16|n[1]))
		}
	case "large_community":
		for n := numbers(t, value); len(n) > 0; n = n[3:] {
			r.LargeCommunities = append(r.LargeCommunities, bgp.LargeCommunity{Global: n[0], Local1: n[1], Local2: n[2]})
		}
	}
}

func numbers(t *testing.T, text string) []uint32 {
	var list []uint32
	for _, field := range regexp.MustCompile(`\d+`).FindAllString(text, -1) {
		n, err := strconv.ParseUint(field, 10, 32)
		require.NoError(t, err)
		list = append(list, uint32(n))
	}
	return list
}

// frr is FRR: zebra and bgpd.
type frr struct{ dir string }

const frrConfig = `
hostname router
log file {{.Dir}}/frr.log
{{if .Link}}interface eth0
 ipv6 nd ra-interval 1
 no ipv6 nd suppress-ra
exit
{{end}}router bgp {{.ASN}}
 bgp router-id 198.51.100.2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 no bgp network import-check
 {{if .Graceful}}bgp graceful-restart{{end}}
 {{$n := .Node.String}}{{if .Link}}{{$n = "eth0"}} neighbor eth0 interface remote-as {{.NodeASN}}{{else}} neighbor {{$n}} remote-as {{.NodeASN}}{{end}}
 neighbor {{$n}} timers {{.HoldTime}} {{.HoldTime}}
 neighbor {{$n}} timers connect 1
 {{if not .Connect}}{{if not .Link}}neighbor {{$n}} passive{{end}}{{end}}
 {{if .NodePort}}neighbor {{$n}} port {{.NodePort}}{{end}}
 {{if .Multihop}}neighbor {{$n}} ebgp-multihop 5{{end}}
 {{if .Password}}neighbor {{$n}} password {{.Password}}{{end}}
{{if .IPv4}} address-family ipv4 unicast
  neighbor {{$n}} activate
  neighbor {{$n}} soft-reconfiguration inbound
 exit-address-family
{{end}}{{if .IPv6}} address-family ipv6 unicast
  neighbor {{$n}} activate
  neighbor {{$n}} soft-reconfiguration inbound
 exit-address-family
{{end}}`

func (f *frr) start(t *testing.T, ns *netnstest.NS, cfg routerConfig) {
	zebra, bgpd := need(t, "zebra", "frr"), need(t, "bgpd", "frr")
	need(t, "vtysh", "frr")
	if os.Geteuid() != 0 {
		t.Skip("FRR changes its user, which only root can")
	}
	owner, err := user.Lookup("frr")
	require.NoError(t, err)
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	f.dir = cfg.Dir
	conf := filepath.Join(f.dir, "frr.conf")
	require.NoError(t, os.WriteFile(conf, render(t, frrConfig, cfg), 0o644))
	for _, path := range []string{f.dir, conf} {
		require.NoError(t, os.Chown(path, uid, gid))
	}
	for dir := f.dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) { // frr has to get through
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	for _, path := range []string{zebra, bgpd} {
		name := filepath.Base(path)
		daemon(t, ns, f.dir, path, "--vty_socket", f.dir, "-i", filepath.Join(f.dir, name+".pid"), "-f", conf, "-z", filepath.Join(f.dir, "zserv.api"))
		wait(t, name+" answers", func() bool {
			_, err := os.Stat(filepath.Join(f.dir, name+".vty"))
			return err == nil
		})
	}
}

func (f *frr) ask(t *testing.T, commands ...string) []byte {
	t.Helper()
	args := []string{"--vty_socket", f.dir}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	cmd := exec.Command("vtysh", args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "vtysh %q: %s%s", commands, out.Bytes(), errs.Bytes())
	return out.Bytes()
}

func (f *frr) reconfigure(t *testing.T, cfg routerConfig) {
	var commands []string
	for line := range strings.Lines(string(render(t, frrConfig, cfg))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hostname") && !strings.HasPrefix(line, "log") {
			commands = append(commands, line)
		}
	}
	f.ask(t, append([]string{"configure terminal"}, commands...)...)
}

type frrPath struct {
	ASPath    struct{ String string } `json:"aspath"`
	Metric    *uint32                 `json:"metric"`
	LocPrf    *uint32                 `json:"locPrf"`
	Community struct{ String string } `json:"community"`
	Large     struct{ String string } `json:"largeCommunity"`
	Nexthops  []struct{ IP netip.Addr }
}

func (f *frr) list(t *testing.T) []netip.Prefix {
	var all []netip.Prefix
	for _, family := range []string{"ipv4", "ipv6"} {
		var table struct {
			Routes map[netip.Prefix]json.RawMessage
		}
		if out := f.ask(t, "show bgp "+family+" unicast json"); len(bytes.TrimSpace(out)) > 0 {
			require.NoError(t, json.Unmarshal(out, &table), "%s", out)
		}
		for p := range table.Routes {
			all = append(all, p)
		}
	}
	return all
}

func (f *frr) count(t *testing.T) int {
	total := 0
	for _, family := range []string{"ipv4", "ipv6"} {
		var summary struct {
			Peers map[string]struct{ PfxRcd int }
		}
		require.NoError(t, json.Unmarshal(f.ask(t, "show bgp "+family+" unicast summary json"), &summary))
		for _, p := range summary.Peers {
			total += p.PfxRcd
		}
	}
	return total
}

func (f *frr) routes(t *testing.T) map[netip.Prefix]bgptest.Route {
	found := make(map[netip.Prefix]bgptest.Route)
	for _, p := range f.list(t) {
		family := "ipv4"
		if p.Addr().Is6() {
			family = "ipv6"
		}
		var entry struct{ Paths []frrPath }
		out := f.ask(t, fmt.Sprintf("show bgp %s unicast %s json", family, p))
		require.NoError(t, json.Unmarshal(out, &entry), "%s", out)
		if len(entry.Paths) != 1 || len(entry.Paths[0].Nexthops) == 0 {
			continue // just gone
		}
		path := entry.Paths[0]
		r := bgptest.Route{ASPath: numbers(t, path.ASPath.String), LocalPref: path.LocPrf, MED: path.Metric, NextHop: path.Nexthops[0].IP}
		for n := numbers(t, path.Community.String); len(n) > 0; n = n[2:] {
			r.Communities = append(r.Communities, bgp.Community(n[0]<<16|n[1]))
		}
		for n := numbers(t, path.Large.String); len(n) > 0; n = n[3:] {
			r.LargeCommunities = append(r.LargeCommunities, bgp.LargeCommunity{Global: n[0], Local1: n[1], Local2: n[2]})
		}
		found[p] = r
	}
	return found
}
