package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heraldlb/herald/internal/labnet"
)

// Host numbers beside the nodes', see planNode.
const (
	clientNumber     = 100
	controllerNumber = 99
)

// stopPatience is how long the daemons may take to end in order.
const stopPatience = 10 * time.Second

// cluster is the LAN with everything that runs on it.
type cluster struct {
	opts      *options
	manifests string // directory
	secret    string // directory with the gossip key
	logs      string // directory

	lan        *labnet.LAN
	client     *labnet.Host
	control    *labnet.Host
	nodes      []*node
	controller *daemon

	started []*daemon
	onDeath context.CancelCauseFunc
}

// node is a machine of the cluster.
type node struct {
	nodePlan
	host             *labnet.Host
	speaker, backend *daemon // the ones started last
}

// daemon is a process of which the lab knows whether it is meant to run.
type daemon struct {
	*labnet.Process
	dismissed atomic.Bool
	helper    bool // of the lab itself: nobody cares how it ends
}

// newCluster builds the network and writes the manifests; it starts nothing.
func newCluster(opts *options, scratch string) (*cluster, error) {
	c := &cluster{
		opts:      opts,
		manifests: filepath.Join(scratch, "manifests"),
		secret:    filepath.Join(scratch, "secret"),
		logs:      filepath.Join(scratch, "logs"),
		onDeath:   func(error) {},
	}
	if opts.dir != "" {
		c.logs = opts.dir
	}
	plans := make([]nodePlan, opts.nodes)
	for i := range plans {
		plans[i] = planNode(byte(i + 1))
	}
	if err := c.writeFiles(plans); err != nil {
		return nil, err
	}
	var err error
	if c.lan, err = labnet.NewLAN(); err != nil {
		return nil, err
	}
	if err := c.plugHosts(plans); err != nil {
		return nil, errors.Join(err, c.lan.Close())
	}
	return c, nil
}

func (c *cluster) writeFiles(plans []nodePlan) error {
	for _, dir := range []string{c.secret, c.logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(c.secret, "secretkey"), []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	return writeManifests(c.manifests, plans)
}

func (c *cluster) plugHosts(plans []nodePlan) error {
	var err error
	if c.client, err = c.addHost("client", planHost(clientNumber)); err != nil {
		return err
	}
	if c.control, err = c.addHost("controller", planHost(controllerNumber)); err != nil {
		return err
	}
	for _, plan := range plans {
		host, err := c.addHost(plan.Name, plan)
		if err != nil {
			return err
		}
		for _, prefix := range poolPrefixes() {
			if err := host.ServeLocally(prefix); err != nil {
				return err
			}
		}
		c.nodes = append(c.nodes, &node{nodePlan: plan, host: host})
	}
	return nil
}

func (c *cluster) addHost(name string, plan nodePlan) (*labnet.Host, error) {
	return c.lan.AddHost(labnet.HostConfig{
		Name:  name,
		MAC:   plan.MAC(),
		Addrs: []netip.Prefix{netip.PrefixFrom(plan.V4, 24), netip.PrefixFrom(plan.V6, 64)},
	})
}

// start starts the controller and everything on the nodes. From then on a
// daemon that ends without being told to is reported to onDeath.
func (c *cluster) start(onDeath context.CancelCauseFunc) error {
	c.onDeath = onDeath
	var err error
	c.controller, err = c.spawn("controller", c.control,
		exec.Command(c.opts.controller, "--manifests", c.manifests))
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := c.startNode(n); err != nil {
			return err
		}
	}
	return nil
}

// startNode starts everything that runs on a node.
func (c *cluster) startNode(n *node) error {
	var err error
	n.backend, err = c.spawn("web server on "+n.Name, n.host, labnet.BackendCommand(n.Name, servicePort))
	if err != nil {
		return err
	}
	return c.startSpeaker(n)
}

func (c *cluster) startSpeaker(n *node) error {
	var err error
	n.speaker, err = c.spawn("speaker on "+n.Name, n.host, exec.Command(c.opts.speaker,
		"--manifests", c.manifests,
		"--node-name", n.Name,
		"--ml-bindaddr", n.V4.String(),
		"--ml-profile", c.opts.profile,
		"--ml-secret-key-path", c.secret))
	return err
}

// spawn starts a process on a host.
func (c *cluster) spawn(name string, host *labnet.Host, cmd *exec.Cmd) (*daemon, error) {
	cfg := labnet.ProcessConfig{
		Name: name, Command: cmd, Space: host.Space(),
		LogFile: filepath.Join(c.logs, host.Name()+"-"+filepath.Base(cmd.Args[0])+".log"),
	}
	if c.opts.verbose {
		cfg.Echo = os.Stderr
	}
	p, err := labnet.Start(cfg)
	if err != nil {
		return nil, err
	}
	d := &daemon{Process: p, helper: strings.HasPrefix(cmd.Path, "/proc/self/")}
	c.started = append(c.started, d)
	go func() {
		<-p.Exited()
		if !d.dismissed.Load() {
			c.onDeath(fmt.Errorf("%s %w: %s", name, errDied, exitText(p.Err())))
		}
	}()
	return d, nil
}

// errDied marks the death of a process that was meant to run.
var errDied = errors.New("ended, though nobody told it to")

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// kill ends the process at once.
func (d *daemon) kill() error {
	d.dismissed.Store(true)
	return d.Kill()
}

// leave ends the process in order.
func (d *daemon) leave(ctx context.Context) error {
	d.dismissed.Store(true)
	return d.Stop(ctx)
}

// fail makes a node fail in the given way and returns when it began to.
func (c *cluster) fail(ctx context.Context, n *node, mode faultMode) (since time.Time, err error) {
	since = time.Now()
	switch mode {
	case modeLeave:
		// The clock runs from the signal; how long the speaker takes to end is
		// not the client's business.
		err = n.speaker.leave(ctx)
	case modeLink:
		err = n.host.Unplug()
	default:
		var wg sync.WaitGroup
		errs := make([]error, 3)
		wg.Go(func() { errs[0] = n.host.Unplug() })
		wg.Go(func() { errs[1] = n.speaker.kill() })
		wg.Go(func() { errs[2] = n.backend.kill() })
		wg.Wait()
		err = errors.Join(errs...)
	}
	return since, err
}

// heal brings a node back after fail.
func (c *cluster) heal(n *node, mode faultMode) error {
	switch mode {
	case modeLeave:
		return c.startSpeaker(n)
	case modeLink:
		return n.host.Plug()
	default:
		return errors.Join(n.host.Plug(), c.startNode(n))
	}
}

// stop ends everything in order, also when ctx is cancelled already, and takes
// the network down. The error names what did not end as it should.
func (c *cluster) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(c.started))
	for i, d := range c.started {
		select {
		case <-d.Exited():
			continue
		default:
		}
		wg.Go(func() {
			if d.helper {
				errs[i] = d.kill()
			} else {
				errs[i] = d.leave(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, c.lan.Close())...)
}

// printLogs prints the last lines of what every daemon said.
func (c *cluster) printLogs(w io.Writer) {
	seen := make(map[string]bool)
	for _, d := range c.started {
		if seen[d.LogFile()] {
			continue
		}
		seen[d.LogFile()] = true
		if tail := d.LogTail(15); tail != "" {
			fmt.Fprintf(w, "\n--- %s, last lines ---\n%s\n", d.Name(), tail)
		}
	}
}

// nodeByMAC returns the name of the node with a link-layer address.
func (c *cluster) nodeByMAC(mac string) string {
	for _, n := range c.nodes {
		if n.host.MAC().String() == mac {
			return n.Name
		}
	}
	return ""
}

func (c *cluster) node(name string) *node {
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (c *cluster) nodeNames() []string {
	names := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		names[i] = n.Name
	}
	return names
}
