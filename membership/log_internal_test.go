package membership

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestGossipLog uses lines that memberlist 0.7.0 writes.
func TestGossipLog(t *testing.T) {
	tests := []struct {
		name, line, want string
		suspect          string
		refused          bool
	}{
		{name: "debug", line: "[DEBUG] memberlist: Stream connection from=192.0.2.1:40001", want: `level=DEBUG msg=memberlist text="Stream connection from=192.0.2.1:40001"`},
		{name: "info", line: "[INFO] memberlist: Marking b as failed, suspect timeout reached (0 peer confirmations)", want: `level=INFO msg=memberlist text="Marking b as failed, suspect timeout reached (0 peer confirmations)"`},
		{name: "warning", line: "[WARN] memberlist: Refuting a suspect message (from: c)", want: `level=WARN msg=memberlist text="Refuting a suspect message (from: c)"`},
		{name: "error", line: "[ERR] memberlist: Failed to send gossip to 192.0.2.1:7946: network is unreachable", want: `level=WARN msg=memberlist text="Failed to send gossip`},
		{name: "other error", line: "[ERROR] memberlist: Failed to compress payload: x", want: "level=WARN"},
		{name: "without prefix", line: "[ERR] Failed to shutdown transport: x", want: `level=WARN msg=memberlist text="Failed to shutdown transport: x"`},
		{name: "without level", line: "Err: Could not set the deadline: x", want: `level=INFO msg=memberlist text="Err: Could not set the deadline: x"`},
		{name: "suspect", line: "[INFO] memberlist: Suspect kw-02 has failed, no acks received", want: "level=INFO", suspect: "kw-02"},
		{name: "packet refused", line: "[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=192.0.2.7:7946", want: "level=WARN msg=\"membership: gossip refused: it was sent with another key or label, or without one\" from=192.0.2.7 detail=", refused: true},
		{name: "stream refused", line: "[ERR] memberlist: failed to receive: encryption is configured but remote state is not encrypted from=[2001:db8::7]:40001", want: "from=[2001:db8::7] detail=", refused: true},
		{name: "stream refused, we have no key", line: "[ERR] memberlist: failed to receive: remote state is encrypted and encryption is not configured from=192.0.2.7:40001", want: "from=192.0.2.7 detail=", refused: true},
		{name: "packet refused, we have no key", line: "[ERR] memberlist: msg type (1) not supported from=192.0.2.7:7946", want: "from=192.0.2.7 detail=", refused: true},
		{name: "label", line: `[ERR] memberlist: discarding packet with unacceptable label "blue": from=192.0.2.7:7946`, want: "from=192.0.2.7 detail=", refused: true},
		{name: "our own join", line: "[DEBUG] memberlist: failed to join 192.0.2.7:7946: no installed keys could decrypt the message", want: "level=DEBUG"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			suspect, refused := "", 0
			g := &gossipLog{
				log:       slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
				suspected: func(name string) { suspect = name },
				refused:   func() { refused++ },
			}
			n, err := fmt.Fprintln(g, tt.line)
			assert.NoError(t, err)
			assert.Equal(t, len(tt.line)+1, n)
			assert.Contains(t, out.String(), tt.want)
			assert.Equal(t, tt.suspect, suspect)
			assert.Equal(t, tt.refused, refused == 1)

			out.Reset()
			g.leaving.Store(true)
			_, _ = fmt.Fprintln(g, tt.line)
			assert.Contains(t, out.String(), "level=DEBUG", "while leaving")
			out.Reset()
			g.ended.Store(true)
			_, _ = fmt.Fprintln(g, tt.line)
			assert.Empty(t, out.String(), "after the end")
		})
	}
}

// TestRefusalsAreLimited: one warning per host and minute, every
// one is counted.
func TestRefusalsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		refused := 0
		g := &gossipLog{log: slog.New(slog.NewTextHandler(&out, nil)), refused: func() { refused++ }}
		for i := range 600 { // for ten minutes
			fmt.Fprintf(g, "[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=192.0.2.7:%d\n", 1024+i)
			time.Sleep(time.Second)
		}
		assert.Equal(t, 600, refused)
		assert.Equal(t, 10, strings.Count(out.String(), "level=WARN"))
		for i := range 10_000 {
			g.sources.allow(fmt.Sprint(i))
		}
		assert.LessOrEqual(t, len(g.sources.last), maxSources)
	})
}
