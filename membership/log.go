package membership

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// repeatAfter is how long a warning of the same kind about the same source
	// is held back.
	repeatAfter = time.Minute
	// maxSources bounds how many sources are remembered for that.
	maxSources = 256
)

// limiter lets a warning through once per source and minute.
type limiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (l *limiter) allow(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.last[source]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	if l.last == nil || len(l.last) >= maxSources {
		l.last = make(map[string]time.Time)
	}
	l.last[source] = now
	return true
}

// level returns Warn if the source has been quiet for a minute, else Debug.
func (l *limiter) level(source string) slog.Level {
	if l.allow(source) {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// gossipLog is the writer of memberlist's logger. It turns lines into records,
// and takes from them what memberlist tells nowhere else: that a probe failed,
// and that a message was refused. Tests hold it to memberlist's words.
type gossipLog struct {
	log       *slog.Logger
	suspected func(name string)
	refused   func()
	sources   limiter
	leaving   atomic.Bool // failures are expected and go to Debug
	ended     atomic.Bool // nothing is written any more
}

// Write takes one line, as the log package guarantees.
func (g *gossipLog) Write(line []byte) (int, error) {
	if g.ended.Load() {
		return len(line), nil
	}
	level, text := splitLevel(strings.TrimSpace(string(line)))
	if name, ok := suspectOf(text); ok {
		g.suspected(name)
	}
	if detail, source, ok := refusalOf(text); ok {
		g.refused()
		g.log.Log(context.Background(), g.cap(g.sources.level(source)),
			"membership: gossip refused: it was sent with another key or label, or without one", "from", source, "detail", detail)
		return len(line), nil
	}
	g.log.Log(context.Background(), g.cap(level), "memberlist", "text", text)
	return len(line), nil
}

func (g *gossipLog) cap(level slog.Level) slog.Level {
	if g.leaving.Load() {
		return min(level, slog.LevelDebug)
	}
	return level
}

// splitLevel takes "[LEVEL] memberlist: " off a line. What memberlist calls an
// error is something that it goes on trying, so it is a warning.
func splitLevel(line string) (slog.Level, string) {
	level := slog.LevelInfo
	if tag, text, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(tag, "[") {
		switch tag[1:] {
		case "DEBUG":
			level = slog.LevelDebug
		case "WARN", "ERR", "ERROR":
			level = slog.LevelWarn
		}
		line = text
	}
	return level, strings.TrimPrefix(line, "memberlist: ")
}

// suspectOf recognizes that a probe of this node went unanswered.
func suspectOf(text string) (name string, ok bool) {
	name, ok = strings.CutPrefix(text, "Suspect ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, " has failed, no acks received")
}

// refusalOf recognizes that a message was not accepted, and from which host it
// came.
func refusalOf(text string) (detail, host string, ok bool) {
	detail, source, found := strings.Cut(text, " from=")
	if !found {
		return "", "", false
	}
	for _, sign := range []string{
		"Decrypt packet failed",
		"no installed keys could decrypt",
		"remote state is not encrypted",
		"remote state is encrypted",
		"unacceptable label",
		"not supported", // what an encrypted packet looks like without keys
	} {
		if strings.Contains(text, sign) {
			return detail, hostOf(source), true
		}
	}
	return "", "", false
}

// hostOf takes the port off, which is a new one for every connection.
func hostOf(source string) string {
	if i := strings.LastIndexByte(source, ':'); i > 0 {
		return source[:i]
	}
	return source
}
