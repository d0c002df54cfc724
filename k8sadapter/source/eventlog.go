package source

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// eventQueue is how many events may wait for the disk (or the API server).
	eventQueue = 1024
	// eventLogSize is when the event log starts afresh; the previous part stays
	// beside it under the suffix .1.
	eventLogSize = 1 << 20
)

// newEvent builds a core/v1 Event as client-go's recorder does.
func newEvent(ref corev1.ObjectReference, source corev1.EventSource, eventType, reason, message string) *corev1.Event {
	now := metav1.NewTime(time.Now())
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", ref.Name, now.UnixNano()),
			Namespace: namespace,
		},
		InvolvedObject:      ref,
		Reason:              reason,
		Message:             message,
		Type:                eventType,
		Source:              source,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		ReportingController: source.Component,
		ReportingInstance:   source.Host,
	}
}

// eventLog is where events go without a cluster: one JSON line for each in the
// state directory.
type eventLog struct {
	path string // "" writes nothing
	// prepare makes sure that the directory exists.
	prepare func() error
	source  corev1.EventSource
	logger  *slog.Logger
	queue   chan *corev1.Event
}

func newEventLog(cfg FilesConfig) *eventLog {
	l := &eventLog{
		source: corev1.EventSource{Component: cfg.Component, Host: cfg.Host},
		logger: cfg.Logger,
		queue:  make(chan *corev1.Event, eventQueue),
	}
	if !cfg.ReadOnly {
		name := "events." + cfg.Component
		if cfg.Host != "" {
			name += "." + cfg.Host
		}
		// Processes that share the directory do not share the file.
		l.path = filepath.Join(cfg.StateDir, strings.ReplaceAll(name, "/", "-")+".jsonl")
	}
	return l
}

// add queues an event; a full queue drops it.
func (l *eventLog) add(obj runtime.Object, eventType, reason, message string) {
	ref, err := referenceTo(obj)
	if err != nil {
		l.logger.Debug("event dropped", "reason", reason, "error", err)
		return
	}
	if l.path == "" {
		return
	}
	select {
	case l.queue <- newEvent(ref, l.source, eventType, reason, message):
	default:
		l.logger.Debug("event not written: the queue is full", "reason", reason, "name", ref.Name)
	}
}

// run writes queued events until ctx ends, and then those that still wait.
func (l *eventLog) run(ctx context.Context) {
	for {
		select {
		case event := <-l.queue:
			l.write(event)
		case <-ctx.Done():
			for {
				select {
				case event := <-l.queue:
					l.write(event)
				default:
					return
				}
			}
		}
	}
}

func (l *eventLog) write(event *corev1.Event) {
	if err := l.append(event); err != nil {
		l.logger.Debug("event not written", "file", l.path, "error", err)
	}
}

func (l *eventLog) append(event *corev1.Event) (err error) {
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if err := l.prepare(); err != nil {
		return err
	}
	if info, statErr := os.Stat(l.path); statErr == nil && info.Size()+int64(len(line)) > eventLogSize {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	_, err = file.Write(append(line, '\n'))
	return err
}

// Event logs what happened to an object, at Info (a Warning event at Warn), and
// appends it to StateDir/events.COMPONENT[.HOST].jsonl while Run runs. That is
// where a user without a cluster looks up why a Service is pending.
func (f *Files) Event(obj runtime.Object, eventType, reason, message string) {
	attrs := []any{slog.String("reason", reason), slog.String("message", message)}
	if ref, err := referenceTo(obj); err == nil {
		attrs = append(attrs, slog.String("kind", ref.Kind), slog.String("namespace", ref.Namespace), slog.String("name", ref.Name))
	}
	if eventType == corev1.EventTypeWarning {
		f.logger.Warn("event", attrs...)
	} else {
		f.logger.Info("event", attrs...)
	}
	f.events.add(obj, eventType, reason, message)
}
