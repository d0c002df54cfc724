package archtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Package is what the rules look at, a part of what `go list -json` prints.
type Package struct {
	ImportPath string
	Name       string
	Doc        string // first sentence of the package comment
	Dir        string
	Standard   bool   // part of the standard library
	DepOnly    bool   // not named by the patterns, only imported
	ForTest    string // the package that this one was recompiled for, when tests are listed
	Imports    []string
	Deps       []string // every import, of imports too
	GoFiles    []string

	TestImports  []string // direct imports of the _test files inside the package
	XTestImports []string // direct imports of the external test package
}

// Load runs `go list -deps -json` for the patterns in the module that holds dir.
func Load(ctx context.Context, dir string, patterns ...string) ([]Package, error) {
	args := append([]string{"list", "-deps", "-json"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w: %s", strings.Join(args, " "), dir, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return decode(bytes.NewReader(out))
}

// decode reads the stream of JSON objects that go list prints.
func decode(r io.Reader) ([]Package, error) {
	var packages []Package
	dec := json.NewDecoder(r)
	for {
		var p Package
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("decode the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// graph answers questions about imports.
type graph map[string]Package

func newGraph(packages []Package) graph {
	g := make(graph, len(packages))
	for _, p := range packages {
		g[p.ImportPath] = p
	}
	return g
}

// chain returns the shortest way from one package to another by imports, both
// ends included; nil when there is none.
func (g graph) chain(from, to string) []string {
	previous := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			return unwind(previous, to)
		}
		for _, next := range g[at].Imports {
			if _, seen := previous[next]; !seen {
				previous[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

func unwind(previous map[string]string, end string) []string {
	var way []string
	for at := end; at != ""; at = previous[at] {
		way = append([]string{at}, way...)
	}
	return way
}
