package gobgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"

	gobgplog "github.com/osrg/gobgp/v3/pkg/log"

	"github.com/heraldlb/herald/bgp"
)

// bridge is the logger of a GoBGP server. It hands its words on at level Debug,
// and takes from them what GoBGP tells nowhere else: why a session failed, and
// that a closed neighbour is gone. Tests hold it to GoBGP's words.
type bridge struct {
	sink  atomic.Pointer[session] // nil while the server is in the pool
	freed func()
	quiet atomic.Bool // the session is there: no words for each route
}

var _ gobgplog.Logger = (*bridge)(nil)

func (b *bridge) Debug(msg string, fields gobgplog.Fields) {
	if msg == "freed fsm.h" {
		b.freed()
	}
	s := b.sink.Load()
	if s == nil {
		return
	}
	switch msg {
	case "state changed":
		state := stateOf(fmt.Sprint(fields["new"]))
		b.quiet.Store(state == bgp.Established)
		s.moved(state, reasonOf(fmt.Sprint(fields["reason"])))
	case "failed to connect":
		s.failed(connectError(fields["Error"]), false)
	}
	b.hand(s, msg, fields)
}

func (b *bridge) Info(msg string, fields gobgplog.Fields) {
	if s := b.sink.Load(); s != nil {
		b.hand(s, msg, fields)
	}
}

func (b *bridge) Warn(msg string, fields gobgplog.Fields) {
	s := b.sink.Load()
	if s == nil {
		return
	}
	switch msg {
	case "sent notification":
		if data, ok := fields["Data"].(error); ok {
			s.failed("refused what the peer sent: "+data.Error(), false)
		}
	case "failed to set md5":
		// A listener that was closed before complains too, and means nothing.
		if err, ok := fields["Err"].(error); ok && !errors.Is(err, net.ErrClosed) {
			s.failed("the kernel did not accept the password on the listener: "+err.Error()+" (does the process run with GODEBUG=multipathtcp=0?)", true)
		}
	}
	b.hand(s, msg, fields)
}

// Error, Fatal and Panic do not end the process: it belongs to others.

func (b *bridge) Error(msg string, fields gobgplog.Fields) { b.Warn(msg, fields) }
func (b *bridge) Fatal(msg string, fields gobgplog.Fields) { b.Warn(msg, fields) }
func (b *bridge) Panic(msg string, fields gobgplog.Fields) { b.Warn(msg, fields) }

// GetLevel lets GoBGP say why it could not connect, but not what it sends.
func (b *bridge) GetLevel() gobgplog.LogLevel {
	if b.quiet.Load() {
		return gobgplog.InfoLevel
	}
	return gobgplog.DebugLevel
}

func (b *bridge) SetLevel(gobgplog.LogLevel) {}

func (b *bridge) hand(s *session, msg string, fields gobgplog.Fields) {
	log := s.engine.log
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields)+1)
	attrs = append(attrs, slog.String("peer", s.snapshot().Peer))
	for key, value := range fields {
		attrs = append(attrs, slog.String("gobgp"+key, fmt.Sprint(value)))
	}
	log.LogAttrs(context.Background(), slog.LevelDebug, "gobgp", append(attrs, slog.String("says", msg))...)
}

func stateOf(name string) bgp.State {
	switch name {
	case "BGP_FSM_ESTABLISHED":
		return bgp.Established
	case "BGP_FSM_OPENSENT", "BGP_FSM_OPENCONFIRM":
		return bgp.Opening
	default:
		return bgp.Connecting
	}
}

// reasonOf says in words what GoBGP's reasons mean.
func reasonOf(text string) string {
	kind, detail, _ := strings.Cut(text, " ")
	switch kind {
	case "read-failed":
		return "the peer closed the connection"
	case "write-failed":
		return "the peer does not take what it is sent"
	case "hold-timer-expired":
		return "nothing was heard of the peer for the hold time"
	case "graceful-restart":
		return "the connection broke, and the peer may be restarting"
	case "notification-received":
		return "the peer closed the session: " + detail + hint(detail)
	case "notification-sent":
		return "closed the session: " + detail
	case "invalid-msg":
		return "the peer refused the session (does it expect this side, with this AS number?), or sent an invalid message"
	default:
		return text
	}
}

// hint says what the peer most likely minds.
func hint(detail string) string {
	switch {
	case strings.Contains(detail, "bad peer as"):
		return " (it expects another AS number of this side)"
	case strings.Contains(detail, "bad bgp identifier"):
		return " (it has the router ID of this side, or knows somebody with it)"
	case strings.Contains(detail, "connection rejected"):
		return " (it has no neighbour with the address of this side)"
	default:
		return ""
	}
}

func connectError(v any) string {
	err, ok := v.(error)
	if !ok {
		return fmt.Sprint(v)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return err.Error() + " (no answer: the address is not reachable, a filter is in the way, or the password differs)"
	}
	return err.Error()
}
