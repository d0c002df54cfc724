// Package labnettest checks that a program which makes namespaces and processes
// leaves none of them behind.
//
//	trace := labnettest.TraceOf(pid) // while it runs
//	…                                // end it
//	trace.RequireGone(t)
package labnettest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience is how long the kernel may take to end what it must end.
const patience = 20 * time.Second

// Trace is what a process and its descendants hold at one moment: themselves,
// and the namespaces that they are in or hold open and that the observer is
// not in.
type Trace struct {
	processes  map[string]bool // number and start time
	namespaces map[string]bool // links such as net:[4026532000]
}

// TraceOf collects the trace of a process. It sees what /proc shows to the
// observer, so the observer should be root or the same user.
func TraceOf(pid int) Trace {
	all := processes()
	family := map[string]bool{strconv.Itoa(pid): true}
	for grown := true; grown; {
		grown = false
		for pid, p := range all {
			if family[p.parent] && !family[pid] {
				family[pid], grown = true, true
			}
		}
	}
	t := Trace{processes: map[string]bool{}, namespaces: map[string]bool{}}
	own := linksOf("self")
	for pid, p := range all {
		if !family[pid] {
			continue
		}
		t.processes[pid+"@"+p.started] = true
		for link := range linksOf(pid) {
			if !own[link] {
				t.namespaces[link] = true
			}
		}
	}
	return t
}

// Processes returns how many processes the trace has.
func (t Trace) Processes() int { return len(t.processes) }

// Namespaces returns how many namespaces of all kinds the trace has.
func (t Trace) Namespaces() int { return len(t.namespaces) }

// Left returns what is still there of the trace: processes that run, and
// processes of any kind that are in a namespace of it or hold one open.
func (t Trace) Left() []string {
	var left []string
	for pid, p := range processes() {
		if t.processes[pid+"@"+p.started] {
			left = append(left, "process "+pid)
		}
		for link := range linksOf(pid) {
			if t.namespaces[link] {
				left = append(left, link+" by process "+pid)
			}
		}
	}
	return left
}

// TestingT is the part of *testing.T that is needed here.
type TestingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// RequireGone waits until nothing is left of the trace: the kernel takes a
// namespace down a moment after its last process has ended.
func (t Trace) RequireGone(tb TestingT) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for {
		left := t.Left()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("left behind after %s: %s", patience, strings.Join(left, ", "))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type process struct{ parent, started string }

// processes reads /proc/PID/stat of every process that is no zombie.
func processes() map[string]process {
	all := map[string]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		// The name, in parentheses, may hold anything.
		text := string(data)
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
		if len(fields) > 19 && fields[0] != "Z" && fields[0] != "X" {
			all[filepath.Base(filepath.Dir(file))] = process{parent: fields[1], started: fields[19]}
		}
	}
	return all
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
