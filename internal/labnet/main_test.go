package labnet

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// requireNetNS turns a machine that does not allow namespaces into a failure.
const requireNetNS = "HERALD_REQUIRE_NETNS"

// TestMain runs the tests inside a sandbox, so that nothing of them can stay
// behind, whoever runs them.
func TestMain(m *testing.M) {
	Dispatch(map[string]func() int{
		"labnet-test-inside": func() int { return runInside(m) },
		"labnet-test-init":   nestedMain,
		"labnet-test-parent": parentMain,
	})
	sandbox, err := StartSandbox(SandboxConfig{
		Role: "labnet-test-inside", Args: os.Args[1:],
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if os.Getenv(requireNetNS) != "" {
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "labnet: all tests skipped; "+requireNetNS+"=1 makes this a failure")
		os.Exit(0)
	}
	code, err := sandbox.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func runInside(m *testing.M) int {
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cwd, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	inner, err := InitSandbox(append(os.Args[1:], exe, cwd, os.TempDir())...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("TMPDIR", inner.Scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/heraldlb/herald/internal/labnet.awaitLifeline"))
	return 0
}
