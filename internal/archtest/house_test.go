package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const herald = "github.com/heraldlb/herald"

// root is the directory of the repository, two above this package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(mod, []byte("module "+herald+"\n")), "%s is not the root of the module", dir)
	return dir
}

func report(t *testing.T, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

func TestHouseImports(t *testing.T) {
	packages, err := Load(t.Context(), root(t), "./...")
	require.NoError(t, err)
	require.NotEmpty(t, packages)
	report(t, CheckImports(herald, packages, Rules()))
	report(t, CheckDocs(herald, packages))
}

// TestHouseTools: who imports Herald must inherit no linter and no generator.
func TestHouseTools(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	require.NoError(t, err)
	for line := range strings.Lines(string(mod)) {
		require.False(t, strings.HasPrefix(line, "tool "), "tools belong to .ci/tools/go.mod: %s", line)
	}
}

func TestHouseLicence(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "LICENSE"))
	require.NoError(t, err)
	require.Contains(t, string(text), "Apache License")
	require.Contains(t, string(text), "Version 2.0, January 2004")
}

func TestHouseFiles(t *testing.T) {
	dir := root(t)
	names := tracked(t, dir)
	require.Contains(t, names, "go.mod")
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted and not yet committed
		}
		require.NoError(t, err)
		report(t, CheckText(name, data))
		if strings.HasSuffix(name, ".go") {
			report(t, CheckFile(name, data))
		}
	}
}

// tracked lists the files of the repository: what git knows of, or, in a copy
// without its history, every file.
func tracked(t *testing.T, dir string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "-c", "safe.directory=*", "ls-files", "-z").Output()
		require.NoError(t, err, "git ls-files")
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && !strings.Contains(filepath.ToSlash(path), "/bin/") {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	require.NoError(t, err)
	return names
}
