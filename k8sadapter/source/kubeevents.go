package source

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

const (
	eventTries   = 3
	eventBackoff = time.Second
	// eventGrace is how long Run goes on delivering after its context has ended.
	eventGrace = 2 * time.Second
)

// eventSender delivers core/v1 Events. It does client-go's aggregation and
// rate limit (the correlator) but not its broadcaster, whose goroutines begin
// in the constructor and cannot be joined.
type eventSender struct {
	client     typedcorev1.EventsGetter
	source     corev1.EventSource
	logger     *slog.Logger
	queue      chan *corev1.Event
	correlator *record.EventCorrelator
}

func newEventSender(client typedcorev1.EventsGetter, source corev1.EventSource, logger *slog.Logger) *eventSender {
	return &eventSender{
		client:     client,
		source:     source,
		logger:     logger,
		queue:      make(chan *corev1.Event, eventQueue),
		correlator: record.NewEventCorrelator(clock.RealClock{}),
	}
}

func (s *eventSender) add(obj runtime.Object, eventType, reason, message string) {
	ref, err := referenceTo(obj)
	if err != nil {
		s.logger.Debug("event dropped", "reason", reason, "error", err)
		return
	}
	select {
	case s.queue <- newEvent(ref, s.source, eventType, reason, message):
	default:
		s.logger.Debug("event dropped: the queue is full", "reason", reason, "name", ref.Name)
	}
}

func (s *eventSender) run(ctx context.Context) {
	// Deliveries outlive ctx by the grace, the one under way included.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var joined sync.WaitGroup
	defer joined.Wait()
	defer cancel()
	joined.Go(func() {
		<-ctx.Done()
		pause(sending, eventGrace)
		cancel()
	})
	for ctx.Err() == nil {
		select {
		case event := <-s.queue:
			s.deliver(sending, event)
		case <-ctx.Done():
		}
	}
	for sending.Err() == nil {
		select {
		case event := <-s.queue:
			s.deliver(sending, event)
		default:
			return
		}
	}
}

func (s *eventSender) deliver(ctx context.Context, event *corev1.Event) {
	result, err := s.correlator.EventCorrelate(event)
	if err != nil || result.Skip {
		s.logger.Debug("event not sent", "reason", event.Reason, "name", event.InvolvedObject.Name, "tooMany", result != nil && result.Skip, "error", err)
		return
	}
	for try := 1; ; try++ {
		sent, err := s.send(ctx, result)
		if err == nil {
			s.correlator.UpdateState(sent)
			return
		}
		var status apierrors.APIStatus
		if try == eventTries || errors.As(err, &status) || !pause(ctx, eventBackoff) {
			s.logger.Debug("event not delivered", "reason", event.Reason, "name", event.InvolvedObject.Name, "error", err)
			return
		}
	}
}

// send updates the Event that this one repeats, or creates it.
func (s *eventSender) send(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	events := s.client.Events("")
	if result.Event.Count > 1 {
		sent, err := events.PatchWithEventNamespaceWithContext(ctx, result.Event, result.Patch)
		if !apierrors.IsNotFound(err) {
			return sent, err
		}
	}
	result.Event.ResourceVersion = ""
	return events.CreateWithEventNamespaceWithContext(ctx, result.Event)
}

// pause waits; it returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
