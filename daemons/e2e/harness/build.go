package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// module is the directory of the module daemons/e2e, found from the directory
// of the package under test.
func module() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module github.com/heraldlb/herald/daemons/e2e\n")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside the module daemons/e2e: run the tests from there", dir)
		}
	}
}

// binary is the path of a program that build makes.
func binary(name string) (string, error) {
	dir, err := module()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "bin", name), nil
}

// programs are the import paths of what the tests run. The daemons are built
// from this module, so they are tried with the newest client-go while their own
// module asks for the oldest that works.
func programs() []string {
	return []string{
		"github.com/heraldlb/herald/daemons/e2e/controlplane",
		"github.com/heraldlb/herald/daemons/controller",
		"github.com/heraldlb/herald/daemons/speaker",
	}
}

// build makes the programs in the directory bin of the module. It is quick when
// they are up to date.
func build(ctx context.Context) error {
	dir, err := module()
	if err != nil {
		return err
	}
	for _, program := range programs() {
		if err := buildOne(ctx, dir, program); err != nil {
			return err
		}
	}
	return nil
}

// buildOne says every half minute that it still builds, and how far it is.
func buildOne(ctx context.Context, dir, program string) error {
	name := filepath.Base(program)
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-o", filepath.Join(dir, "bin", name), program)
	cmd.Dir = dir
	var out lineCounter
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", name, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	start := time.Now()
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return errors.Join(fmt.Errorf("build %s: %w", name, err), errors.New(out.tail()))
			}
			return nil
		case <-tick.C:
			fmt.Fprintf(os.Stderr, "building %s: %d packages compiled in %.0fs\n", name, out.lines(), time.Since(start).Seconds())
		}
	}
}
