//go:build linux

package bfd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp/bfd"
	"github.com/heraldlb/herald/internal/netnstest"
)

// requirePeersEnv is the environment variable that turns the skip of a test into a
// failure when FRR or BIRD is not installed.
const requirePeersEnv = "HERALD_REQUIRE_PEERS"

// A remote is another implementation, running on host b of a LAN.
type remote interface {
	// configure sets the sessions, of which some may be disabled, without a restart.
	configure(peers []bfd.Peer)
	// sees returns its view of the session with a peer.
	sees(peer bfd.Peer) view
	start()
	kill()
	// multihopTTL is what its packets start with over several hops.
	multihopTTL() int
}

// view is what a remote says about a session.
type view struct {
	up bool
	// every is how often it sends, detect how long it waits.
	every, detect time.Duration
}

// program returns the path of a program or skips the test.
func program(t testing.TB, pkg, path string) string {
	t.Helper()
	found, err := exec.LookPath(path)
	if err != nil {
		text := fmt.Sprintf("%s is not installed: apt-get install -y --no-install-recommends %s", path, pkg)
		if os.Getenv(requirePeersEnv) != "" {
			t.Fatal(text)
		}
		t.Skipf("%s; set %s=1 to make this a failure", text, requirePeersEnv)
	}
	return found
}

// process is a daemon in a namespace; it ends with the test at the latest.
type process struct {
	t     testing.TB
	ns    *netnstest.NS
	cmd   *exec.Cmd
	ended chan struct{}
	log   bytes.Buffer
}

// start starts the daemon on a thread that lives as long as it does: the death of
// that thread, with the test, is the daemon's, if it stays root.
func (p *process) start(path string, args ...string) {
	p.t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.ns.Do(func() error {
			err := cmd.Start()
			started <- err
			if err != nil {
				return err
			}
			return cmd.Wait() // nil or not: it is killed in the end
		})
	}()
	require.NoError(p.t, <-started)
	p.cmd, p.ended = cmd, ended
}

// kill ends the process without giving it a chance to say something.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	if p.t.Failed() {
		p.t.Logf("%s said:\n%s", p.cmd.Path, p.log.String())
	}
	p.cmd = nil
}

// command runs a program to its end in the namespace.
func (p *process) command(path string, args ...string) (string, error) {
	cmd := exec.Command(path, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := p.ns.Do(cmd.Start); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// frr is FRR's bfdd, with the zebra that tells it of interfaces.
type frr struct {
	t           testing.TB
	dir         string
	vtysh       string
	zebra, bfdd process
	peers       []bfd.Peer
}

func newFRR(t testing.TB, ns *netnstest.NS) remote {
	t.Helper()
	f := &frr{t: t, vtysh: program(t, "frr", "vtysh"), dir: t.TempDir()}
	program(t, "frr", "/usr/lib/frr/bfdd")
	if os.Getuid() != 0 {
		t.Skip("FRR changes its user, which needs root")
	}
	account, err := user.Lookup("frr")
	require.NoError(t, err)
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	require.NoError(t, os.Chmod(filepath.Dir(f.dir), 0o755)) // that is closed to others
	require.NoError(t, os.Chown(f.dir, uid, gid))
	conf := filepath.Join(f.dir, "frr.conf")
	require.NoError(t, os.WriteFile(conf, nil, 0o644))
	f.zebra, f.bfdd = process{t: t, ns: ns}, process{t: t, ns: ns}
	t.Cleanup(f.zebra.kill)
	t.Cleanup(f.bfdd.kill)
	f.zebra.start("/usr/lib/frr/zebra", f.args("zebra")...)
	eventually(t, func() bool { return exists(filepath.Join(f.dir, "zserv.api")) }, "zebra does not start")
	return f
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func (f *frr) args(daemon string) []string {
	return []string{
		"--vty_socket", f.dir, "-i", filepath.Join(f.dir, daemon+".pid"), "-f", filepath.Join(f.dir, "frr.conf"),
		"-z", filepath.Join(f.dir, "zserv.api"), "--log", "stdout",
	}
}

func (f *frr) start() {
	f.t.Helper()
	_ = os.Remove(filepath.Join(f.dir, "bfdd.vty"))
	f.bfdd.start("/usr/lib/frr/bfdd", append(f.args("bfdd"), "--bfdctl", filepath.Join(f.dir, "bfdd.sock"))...)
	eventually(f.t, func() bool { return exists(filepath.Join(f.dir, "bfdd.vty")) }, "bfdd does not start")
	f.configure(f.peers)
}

func (f *frr) kill() { f.bfdd.kill() }

func (f *frr) multihopTTL() int { return 255 }

// line is the beginning of the configuration of a session.
func (f *frr) line(p bfd.Peer) string {
	line := "peer " + p.Addr.String()
	if p.Multihop {
		line += " multihop"
	}
	if p.Local.IsValid() {
		line += " local-address " + p.Local.String()
	}
	if p.Interface != "" {
		line += " interface " + p.Interface
	}
	return line
}

func (f *frr) configure(peers []bfd.Peer) {
	f.t.Helper()
	f.peers = peers
	if f.bfdd.cmd == nil {
		return // start will do it
	}
	lines := []string{"conf t", "bfd"}
	for _, p := range peers {
		shutdown := map[bool]string{true: "shutdown", false: "no shutdown"}[p.Disabled]
		lines = append(
			lines, f.line(p), shutdown,
			fmt.Sprintf("receive-interval %d", p.Receive.Milliseconds()),
			fmt.Sprintf("transmit-interval %d", p.Transmit.Milliseconds()),
			fmt.Sprintf("detect-multiplier %d", p.Multiplier),
		)
		if p.Passive {
			lines = append(lines, "passive-mode")
		}
		lines = append(lines, "exit")
	}
	f.run(lines...)
}

func (f *frr) run(lines ...string) string {
	f.t.Helper()
	args := []string{"--vty_socket", f.dir}
	for _, l := range lines {
		args = append(args, "-c", l)
	}
	out, err := f.bfdd.command(f.vtysh, args...)
	require.NoError(f.t, err, out)
	require.NotContains(f.t, out, "% ", out)
	return out
}

func (f *frr) sees(peer bfd.Peer) (v view) {
	f.t.Helper()
	var all []struct {
		Peer      string
		Multihop  bool
		Status    string
		Transmit  int `json:"transmit-interval"`
		Receive   int `json:"receive-interval"`
		RTransmit int `json:"remote-transmit-interval"`
		RReceive  int `json:"remote-receive-interval"`
		RMult     int `json:"remote-detect-multiplier"`
	}
	require.NoError(f.t, json.Unmarshal([]byte(f.run("show bfd peers json")), &all))
	for _, p := range all {
		if p.Peer == peer.Addr.String() && p.Multihop == peer.Multihop {
			return view{
				up:     p.Status == "up",
				every:  time.Duration(max(p.Transmit, p.RReceive)) * ms,
				detect: time.Duration(p.RMult*max(p.Receive, p.RTransmit)) * ms,
			}
		}
	}
	f.t.Fatalf("FRR does not know %v", peer)
	return view{}
}

// bird is BIRD 2.
type bird struct {
	process
	dir   string
	birdc string
	path  string
}

func newBIRD(t testing.TB, ns *netnstest.NS) remote {
	t.Helper()
	b := &bird{
		process: process{t: t, ns: ns}, dir: t.TempDir(),
		path: program(t, "bird2", "bird"), birdc: program(t, "bird2", "birdc"),
	}
	t.Cleanup(b.kill)
	return b
}

// RFC 5883 does not ask for 255, and BIRD leaves the kernel's default.
func (b *bird) multihopTTL() int { return 64 }

func (b *bird) file(name string) string { return filepath.Join(b.dir, name) }

func (b *bird) start() {
	b.t.Helper()
	b.process.start(b.path, "-f", "-c", b.file("conf"), "-s", b.file("ctl"), "-P", b.file("pid"))
	eventually(b.t, func() bool {
		out, err := b.command(b.birdc, "-s", b.file("ctl"), "show", "status")
		return err == nil && strings.Contains(out, "Daemon is up and running")
	}, "BIRD does not start")
}

// configure writes the configuration, and loads it if BIRD runs. All sessions of
// a kind have the same parameters.
func (b *bird) configure(peers []bfd.Peer) {
	b.t.Helper()
	var conf strings.Builder
	fmt.Fprintf(&conf, "log stderr all;\nrouter id 192.0.2.2;\nprotocol device {}\nprotocol bfd {\n")
	for _, kind := range []string{`interface "*"`, "multihop"} {
		p := peers[0]
		fmt.Fprintf(&conf, "\t%s { min rx interval %d ms; min tx interval %d ms; idle tx interval 1 s; multiplier %d; passive %s;%s };\n",
			kind, p.Receive.Milliseconds(), p.Transmit.Milliseconds(), p.Multiplier, map[bool]string{true: "on", false: "off"}[p.Passive], birdAuth(p.Auth))
	}
	for _, p := range peers {
		if p.Disabled {
			continue
		}
		fmt.Fprintf(&conf, "\tneighbor %v", p.Addr)
		if p.Interface != "" {
			fmt.Fprintf(&conf, " dev %q", p.Interface)
		}
		if p.Local.IsValid() {
			fmt.Fprintf(&conf, " local %v", p.Local)
		}
		if p.Multihop {
			fmt.Fprint(&conf, " multihop on")
		}
		fmt.Fprintln(&conf, ";")
	}
	fmt.Fprintln(&conf, "}")
	require.NoError(b.t, os.WriteFile(b.file("conf"), []byte(conf.String()), 0o600))
	if b.cmd != nil {
		out, err := b.command(b.birdc, "-s", b.file("ctl"), "configure")
		require.NoError(b.t, err, out)
		require.Contains(b.t, out, "Reconfigur", out)
	}
}

func birdAuth(a bfd.Auth) string {
	name := map[bfd.AuthType]string{
		bfd.AuthMD5: "keyed md5", bfd.AuthMeticulousMD5: "meticulous keyed md5",
		bfd.AuthSHA1: "keyed sha1", bfd.AuthMeticulousSHA1: "meticulous keyed sha1",
	}[a.Type]
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" authentication %s; password %q { id %d; };", name, string(a.Key), a.KeyID)
}

// sees reads lines such as
//
//	IP address  Interface  State  Since         Interval  Timeout
//	192.0.2.1   eth0       Up     12:00:00.000    0.050    0.150
func (b *bird) sees(peer bfd.Peer) (v view) {
	b.t.Helper()
	out, err := b.command(b.birdc, "-s", b.file("ctl"), "show", "bfd", "sessions")
	require.NoError(b.t, err, out)
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 6 && f[0] == peer.Addr.String() {
			every, err1 := time.ParseDuration(f[4] + "s")
			detect, err2 := time.ParseDuration(f[5] + "s")
			require.NoError(b.t, errors.Join(err1, err2))
			return view{f[2] == "Up", every, detect}
		}
	}
	return view{} // not (yet) configured
}
