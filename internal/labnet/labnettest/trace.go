// Package labnettest checks that a program which makes namespaces and processes
// leaves none of them behind.
//
//	trace := labnettest.Begin(t) // before the program is started
//	…                            // start it, use it
//	trace.Observe()              // optional: remember its namespaces
//	…                            // end it
//	trace.RequireGone(t)
package labnettest

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// variable is the environment variable by which a process and its descendants
// are known. Numbers are no use for that: the kernel gives those of processes
// and namespaces away again, to whatever runs beside the test.
const variable = "HERALD_TEST_TRACE"

// patience is how long the kernel may take to end what it must end.
const patience = 20 * time.Second

// T is the part of *testing.T that is needed here.
type T interface {
	Helper()
	Setenv(key, value string)
	Fatalf(format string, args ...any)
}

// Trace knows the processes that the test has started since Begin, and theirs,
// as long as they hand their environment down.
type Trace struct {
	entry      []byte          // of the environment
	namespaces map[string]bool // links such as net:[4026532000]
	patience   time.Duration
}

// Begin marks the processes that the test starts from now on.
func Begin(t T) *Trace {
	t.Helper()
	token := rand.Text()
	t.Setenv(variable, token)
	return &Trace{entry: []byte(variable + "=" + token), namespaces: map[string]bool{}, patience: patience}
}

// Observe remembers the namespaces that the processes are in or hold open and
// that the test is not in, and returns how many processes and namespaces there
// are. It sees what /proc shows: the test should be root or the same user.
func (tr *Trace) Observe() (processes, namespaces int) {
	own := linksOf("self")
	pids := tr.pids()
	for _, pid := range pids {
		for link := range linksOf(pid) {
			if !own[link] {
				tr.namespaces[link] = true
			}
		}
	}
	return len(pids), len(tr.namespaces)
}

// Left returns what is still there: processes, and mounts that keep a namespace
// that was observed.
func (tr *Trace) Left() []string {
	var left []string
	for _, pid := range tr.pids() {
		cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		left = append(left, "process "+pid+" ("+strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))+")")
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for link := range tr.namespaces {
		if bytes.Contains(mounts, []byte(" "+link+" ")) {
			left = append(left, "mount of "+link)
		}
	}
	return left
}

// RequireGone waits until nothing is left: the kernel ends what is in a PID
// namespace a moment after its process 1.
func (tr *Trace) RequireGone(t T) {
	t.Helper()
	deadline := time.Now().Add(tr.patience)
	for {
		left := tr.Left()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind after %s: %s", tr.patience, strings.Join(left, ", "))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// pids returns the numbers of the marked processes. A zombie is none.
func (tr *Trace) pids() []string {
	var pids []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile, or another user's
		}
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(entry, tr.entry) {
				pids = append(pids, filepath.Base(filepath.Dir(file)))
				break
			}
		}
	}
	return pids
}

// linksOf returns the namespaces that a process is in or holds open.
func linksOf(pid string) map[string]bool {
	links := map[string]bool{}
	for _, dir := range []string{"ns", "fd"} {
		files, _ := filepath.Glob("/proc/" + pid + "/" + dir + "/*")
		for _, file := range files {
			link, err := os.Readlink(file)
			if err != nil {
				continue
			}
			for _, kind := range []string{"net:", "pid:", "mnt:", "user:"} {
				if strings.HasPrefix(link, kind) {
					links[link] = true
				}
			}
		}
	}
	return links
}
