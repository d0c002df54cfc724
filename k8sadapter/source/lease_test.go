package source

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func TestOneLeadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var leading atomic.Int32
		type process struct {
			stop  context.CancelFunc
			ended chan error
			leads chan struct{}
		}
		start := func(name string) process {
			k := &Kube{namespace: "metallb-system", client: client, logger: slog.New(slog.DiscardHandler)}
			ctx, stop := context.WithCancel(t.Context())
			p := process{stop, make(chan error, 1), make(chan struct{}, 1)}
			go func() {
				p.ended <- k.Lead(ctx, LeaseConfig{Name: "herald-controller", Identity: name}, func(ctx context.Context) error {
					assert.EqualValues(t, 1, leading.Add(1))
					p.leads <- struct{}{}
					<-ctx.Done()
					time.Sleep(time.Second) // it takes a while to end
					leading.Add(-1)
					return nil
				})
			}()
			return p
		}
		a := start("a")
		<-a.leads
		b := start("b")
		time.Sleep(time.Minute)
		assert.Empty(t, b.leads, "a renews")
		began := time.Now()
		a.stop()
		require.NoError(t, <-a.ended)
		<-b.leads
		assert.Less(t, time.Since(began), 10*time.Second, "the Lease was given back")
		b.stop()
		require.NoError(t, <-b.ended)
		c := start("c")
		c.stop()
		require.NoError(t, <-c.ended)
	})
}

func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		k := &Kube{namespace: "metallb-system", client: client, logger: slog.New(slog.DiscardHandler)}
		var away atomic.Bool
		client.PrependReactor("*", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("the API server is away")
		})
		err := k.Lead(t.Context(), LeaseConfig{Name: "l", Identity: "a"}, func(ctx context.Context) error {
			away.Store(true)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, ErrLeaseLost)
	})
}

func TestLeadReturnsTheErrorOfWhatItLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		k := &Kube{namespace: "metallb-system", client: client, logger: slog.New(slog.DiscardHandler)}
		boom := errors.New("boom")
		require.ErrorIs(t, k.Lead(t.Context(), LeaseConfig{Name: "l", Identity: "a"}, func(context.Context) error { return boom }), boom)
		lease, err := client.CoordinationV1().Leases("metallb-system").Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Nil(t, lease.Spec.HolderIdentity)
		require.ErrorContains(t, k.Lead(t.Context(), LeaseConfig{Name: "l"}, nil), "Identity")
	})
}
