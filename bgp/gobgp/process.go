package gobgp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"
)

// callTimeout bounds a call of GoBGP, which by itself ignores its context. None
// waits for the network, so that much means that it hangs, on any machine.
const callTimeout = 20 * time.Second

// errHung is a call that has not returned for that long.
var errHung = errors.New("GoBGP does not answer")

// bounded runs a call of GoBGP until it is done or ctx is. In the second case
// the goroutine goes on as long as the call, whose result nobody reads.
func bounded(ctx context.Context, op string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errHung)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("gobgp: %s: %w", op, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gobgp: %s: %w", op, context.Cause(ctx))
	}
}

// process holds what GoBGP v3 makes a matter of the whole process.
//
// StartBgp of one server writes two settings in variables of the package table,
// which every other server reads whenever a route moves. The settings are equal
// always, yet it is a data race. So a server is started only while all others
// rest: the gate is closed, and each of the others is given a call, after which
// it waits at the gate, in its timing hook, and reads nothing.
//
// And a server cannot be taken down completely: the goroutine of Serve stays.
// So servers are kept and used again.
type process struct {
	gate sync.RWMutex // closed (write-locked) while a server is started

	mu   sync.Mutex
	all  []*instance
	idle []*instance
}

// shared is a variable of the package because what it guards is one of GoBGP's.
var shared process //nolint:gochecknoglobals // see above

// take returns an idle server, or a new one. It is not started.
func (p *process) take() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, in := range p.idle {
		if !in.closing.Load() {
			p.idle = append(p.idle[:i:i], p.idle[i+1:]...)
			return in
		}
	}
	in := newInstance(p)
	p.all = append(p.all, in)
	return in
}

// put gives a server back. It may be closing a connection still.
func (p *process) put(in *instance) {
	in.bridge.sink.Store(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, in)
}

// start calls StartBgp while all other servers rest.
func (p *process) start(ctx context.Context, in *instance, global *api.Global) error {
	in.starting.Store(true)
	defer in.starting.Store(false)
	// Once it has answered it is past its timing hook, and is not stopped there again.
	err := bounded(ctx, "GetBgp", func(ctx context.Context) error {
		_, err := in.server.GetBgp(ctx, &api.GetBgpRequest{})
		return err
	})
	if err != nil {
		return err
	}
	p.gate.Lock()
	defer p.gate.Unlock()
	p.mu.Lock()
	others := append([]*instance(nil), p.all...)
	p.mu.Unlock()
	for _, o := range others {
		if o != in {
			o.rest(ctx)
		}
	}
	return bounded(ctx, "StartBgp", func(ctx context.Context) error {
		return in.server.StartBgp(ctx, &api.StartBgpRequest{Global: global})
	})
}

// rest returns when the server waits at the closed gate, or is about to. One that
// does not come there hangs, and must not stop the others.
func (in *instance) rest(ctx context.Context) {
	select {
	case <-in.arrived:
	default:
	}
	if in.atGate.Load() {
		return
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = in.server.GetBgp(ctx, &api.GetBgpRequest{})
	}()
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case <-answered:
	case <-in.arrived:
	case <-timer.C:
	}
}

// Observe is GoBGP's timing hook, which the server calls after each step.
func (in *instance) Observe(server.FSMOperation, time.Duration, time.Duration) {
	if in.starting.Load() {
		return
	}
	gate := &in.process.gate
	if !gate.TryRLock() {
		in.atGate.Store(true)
		signal(in.arrived)
		gate.RLock()
		in.atGate.Store(false)
	}
	gate.RUnlock()
}
