package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadmeCodeIsCompiled checks that every Go block of the README stands, apart from its indentation, in one of the
// example programs, so that it compiles and does what it says.
func TestReadmeCodeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 3, "one for each kind of user, and one for announce")
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	var programs []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		programs = append(programs, flat(string(text)))
	}
	for _, b := range blocks {
		found := false
		for _, p := range programs {
			found = found || strings.Contains(p, flat(b[1]))
		}
		assert.True(t, found, "no example program has this code of the README:\n%s", b[1])
	}
}

// flat is the text without indentation and empty lines.
func flat(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
