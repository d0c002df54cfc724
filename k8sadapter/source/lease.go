package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLeaseLost is returned by [Kube.Lead] when another process took the Lease, or the API server could not be reached
// for RenewDeadline: what was led has ended, and the process must start anew.
var ErrLeaseLost = errors.New("source: the leader's Lease was lost")

// LeaseConfig configures [Kube.Lead].
type LeaseConfig struct {
	// Name of the Lease, in MetalLB's namespace. Required.
	Name string
	// Identity of this process, unique among those that ask for the Lease. Required.
	Identity string
	// LeaseDuration is how long others wait after the last renewal that they saw. Zero: 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader goes on without a renewal. Zero: 10 s. It must be less than LeaseDuration.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two attempts. Zero: 2 s.
	RetryPeriod time.Duration
}

// Lead waits until this process holds the Lease, runs lead, and releases the Lease when lead has returned, so that
// another can take over at once. It returns nil when ctx was cancelled, the error of lead, or ErrLeaseLost; in every case
// lead has returned.
func (k *Kube) Lead(ctx context.Context, cfg LeaseConfig, lead func(ctx context.Context) error) error {
	if cfg.Name == "" || cfg.Identity == "" {
		return errors.New("source: lead: the Name of the Lease and the Identity are required")
	}
	setIfZero(&cfg.LeaseDuration, 15*time.Second)
	setIfZero(&cfg.RenewDeadline, 10*time.Second)
	setIfZero(&cfg.RetryPeriod, 2*time.Second)

	started := make(chan context.Context)
	over := make(chan struct{}) // Lead returns: nobody takes from started any more
	defer close(over)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: k.namespace, Name: cfg.Name},
			Client:     k.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
		},
		Name: cfg.Name, LeaseDuration: cfg.LeaseDuration, RenewDeadline: cfg.RenewDeadline, RetryPeriod: cfg.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				select {
				case started <- ctx:
				case <-over:
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				k.logger.Info("leader elected", "lease", cfg.Name, "leader", identity, "self", identity == cfg.Identity)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("source: lead: %w", err)
	}
	// The Lease is renewed for longer than lead runs: nobody else may lead before it has ended.
	renewing, stop := context.WithCancel(WithKlog(context.WithoutCancel(ctx), k.logger))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(renewing)
	}()
	var holding context.Context
	select {
	case <-ctx.Done():
		stop()
		<-ended
		return nil
	case holding = <-started:
	}
	leading, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(holding, end)() //nolint:contextcheck // holding is the Lease's, not the caller's
	err = lead(leading)
	lost := holding.Err() != nil
	stop()
	<-ended
	if lost {
		return errors.Join(err, ErrLeaseLost)
	}
	k.release(ctx, cfg)
	return err
}

// release gives the Lease back, so that others need not wait until it expires.
func (k *Kube) release(ctx context.Context, cfg LeaseConfig) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.RetryPeriod)
	defer cancel()
	leases := k.client.CoordinationV1().Leases(k.namespace)
	lease, err := leases.Get(ctx, cfg.Name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != cfg.Identity {
		return // it expires by itself
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = nil, new(int32(1))
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		k.logger.Debug("the Lease could not be given back: it expires by itself", "lease", cfg.Name, "error", err)
	}
}
