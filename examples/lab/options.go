package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// maxNodes is bounded by the plan of the addresses: node-K has 192.0.2.K.
const maxNodes = 90

// options are the command line.
type options struct {
	nodes               int
	controller, speaker string
	failovers           int
	mode                faultMode
	profile             string
	json                bool
	keep                bool
	verbose             bool
	dir                 string
	userNamespace       bool
}

// parseOptions reads the command line, makes paths absolute, and checks what
// can be checked without looking at the machine.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{mode: modeKill}
	fs := flag.NewFlagSet("lab", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, "Usage: lab [flags]\n\n"+
			"Builds a LAN out of network namespaces, runs Herald on its nodes, kills one of\n"+
			"them, and prints what a client sees. Nothing is left behind.\n\n")
		fs.PrintDefaults()
	}
	fs.IntVar(&o.nodes, "nodes", 3, "how many `N` nodes the LAN has")
	fs.StringVar(&o.controller, "controller", "", "`PATH` of the controller (default: beside the lab itself)")
	fs.StringVar(&o.speaker, "speaker", "", "`PATH` of the speaker (default: beside the lab itself)")
	fs.IntVar(&o.failovers, "failovers", 0, "measure `N` failovers instead of telling the story")
	fs.StringVar(&o.profile, "profile", "lan", "`TIMINGS` of the speakers' gossip: lan, wan or fast")
	fs.Var(&o.mode, "mode", "with --failovers: `HOW` the node fails: kill (power loss), leave (speaker stopped in order) or link (cable pulled)")
	fs.BoolVar(&o.json, "json", false, "with --failovers: print the figures as one line of JSON on standard output, the rest on standard error")
	fs.BoolVar(&o.keep, "keep", false, "stay up at the end, until Ctrl-C, and print how to enter the namespaces")
	fs.BoolVar(&o.verbose, "v", false, "show what the daemons log")
	fs.StringVar(&o.dir, "dir", "", "keep the daemons' logs in this `DIR`")
	fs.BoolVar(&o.userNamespace, "userns", false, "make a user namespace even as root")
	if err := fs.Parse(args); err != nil {
		return nil, errors.Join(errParsed, err)
	}
	if err := o.complete(fs); err != nil {
		return nil, err
	}
	return o, nil
}

// errParsed marks an error that the flag package has printed already.
var errParsed = errors.New("command line")

// usage reports an error of parseOptions and returns the exit status.
func usage(err error, stderr io.Writer) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case !errors.Is(err, errParsed):
		fmt.Fprintf(stderr, "lab: %v\nlab --help lists the flags\n", err)
	}
	return exitUsage
}

func (o *options) complete(fs *flag.FlagSet) error {
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.nodes < 2 || o.nodes > maxNodes {
		return fmt.Errorf("--nodes %d: want 2 to %d, for another node must take over", o.nodes, maxNodes)
	}
	if o.failovers < 0 {
		return fmt.Errorf("--failovers %d: want 1 or more", o.failovers)
	}
	if o.json && o.failovers == 0 {
		return errors.New("--json needs --failovers")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the lab itself: %w", err)
	}
	for path, name := range map[*string]string{&o.controller: "controller", &o.speaker: "speaker"} {
		if *path == "" {
			*path = filepath.Join(filepath.Dir(self), name)
		}
	}
	for _, path := range []*string{&o.controller, &o.speaker, &o.dir} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// checkDaemons fails when a daemon is not there to be run.
func (o *options) checkDaemons() error {
	for _, path := range []string{o.controller, o.speaker} {
		if _, err := exec.LookPath(path); err != nil {
			return fmt.Errorf("%w\n  do this: make demo, which builds it; or name it with --%s", err, filepath.Base(path))
		}
	}
	if o.dir != "" {
		if err := os.MkdirAll(o.dir, 0o755); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	return nil
}

// visible are the paths that the scratch file system must not hide.
func (o *options) visible() []string {
	paths := []string{o.controller, o.speaker}
	if o.dir != "" {
		paths = append(paths, o.dir)
	}
	if self, err := os.Executable(); err == nil {
		paths = append(paths, self)
	}
	return paths
}

// faultMode is how a node fails.
type faultMode string

const (
	modeKill  faultMode = "kill"  // everything on it gets SIGKILL, its cable is pulled
	modeLeave faultMode = "leave" // its speaker gets SIGTERM, the node stays up
	modeLink  faultMode = "link"  // its cable is pulled, its processes go on
)

// String implements flag.Value.
func (m *faultMode) String() string { return string(*m) }

// Set implements flag.Value.
func (m *faultMode) Set(text string) error {
	switch mode := faultMode(text); mode {
	case modeKill, modeLeave, modeLink:
		*m = mode
		return nil
	}
	return errors.New("want kill, leave or link")
}
