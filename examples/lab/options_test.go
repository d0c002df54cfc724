package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseOptionsDefaults(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	assert.Equal(t, &options{
		nodes: 3, mode: modeKill, profile: "lan",
		controller: filepath.Join(filepath.Dir(self), "controller"),
		speaker:    filepath.Join(filepath.Dir(self), "speaker"),
	}, o)
}

func TestParseOptionsMakesPathsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	cwd, err := os.Getwd()
	require.NoError(t, err)
	o, err := parseOptions([]string{"--speaker", "s", "--controller", "/bin/c", "--dir", "logs"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(cwd, "s"), o.speaker)
	assert.Equal(t, "/bin/c", o.controller)
	assert.Equal(t, filepath.Join(cwd, "logs"), o.dir)
	assert.Subset(t, o.visible(), []string{o.speaker, o.controller, o.dir})
}

func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, exitOK, "Usage: lab [flags]"},
		{[]string{"--mode", "burn"}, exitUsage, "want kill, leave or link"},
		{[]string{"--nodes", "1"}, exitUsage, "--nodes 1: want 2 to 90"},
		{[]string{"--nodes", "91"}, exitUsage, "--nodes 91"},
		{[]string{"--failovers", "-1"}, exitUsage, "--failovers -1"},
		{[]string{"--json"}, exitUsage, "--json needs --failovers"},
		{[]string{"now"}, exitUsage, `unexpected argument "now"`},
		{[]string{"--nowhere"}, exitUsage, "flag provided but not defined"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stderr strings.Builder
			assert.Equal(t, tt.code, outside(tt.args, io.Discard, &stderr))
			assert.Contains(t, stderr.String(), tt.want)
		})
	}
}

func TestMissingDaemonSaysWhatToDo(t *testing.T) {
	var stderr strings.Builder
	code := outside([]string{"--speaker", "/nonexistent/speaker", "--controller", "/bin/sh"}, io.Discard, &stderr)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr.String(), "/nonexistent/speaker")
	assert.Contains(t, stderr.String(), "make demo")
}
