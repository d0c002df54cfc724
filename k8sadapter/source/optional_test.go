package source

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// An informer of a kind without a CRD is in sync, empty, and sees the objects once there is one.
func TestKindThatIsNotServed(t *testing.T) {
	for name, refusal := range map[string]*apierrors.StatusError{
		"no CRD":    apierrors.NewNotFound(v1beta1.Resource("communities"), ""),
		"no rights": apierrors.NewForbidden(v1beta1.Resource("communities"), "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			var served atomic.Bool
			info, _ := infoOf(Communities)
			_, config := newAPIServer(t, func(r request) (int, any) {
				if !served.Load() {
					return int(refusal.ErrStatus.Code), refusal.Status()
				}
				if strings.Contains(r.Query, "watch=true") {
					status := apierrors.NewBadRequest("this server has no watch").Status()
					return http.StatusBadRequest, status
				}
				list, err := info.list([]runtime.Object{&v1beta1.Community{ObjectMeta: metav1.ObjectMeta{Name: "ours"}}}, "7")
				if err != nil {
					t.Error(err)
				}
				list.GetObjectKind().SetGroupVersionKind(info.gvk.GroupVersion().WithKind("CommunityList"))
				return http.StatusOK, list
			})
			k, log := newKube(t, config)
			lw, ok := k.ListerWatcher(Communities).(*optional)
			require.True(t, ok)
			lw.retry = 10 * time.Millisecond
			informer := cache.NewSharedIndexInformer(lw, nil, 0, cache.Indexers{})
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			var running sync.WaitGroup
			running.Go(func() { informer.RunWithContext(ctx) })
			defer running.Wait()
			defer cancel()
			require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
			assert.Empty(t, informer.GetStore().List())
			assert.Contains(t, log.String(), "kind is not served")

			served.Store(true)
			require.Eventually(t, func() bool { return len(informer.GetStore().List()) == 1 }, deadline, time.Millisecond)
			assert.Contains(t, log.String(), "kind is served now")
		})
	}
}

// What was there once is not taken for empty because an API server does not find it.
func TestKindThatIsNoLongerServed(t *testing.T) {
	var gone atomic.Bool
	info, _ := infoOf(Communities)
	_, config := newAPIServer(t, func(request) (int, any) {
		if gone.Load() {
			return http.StatusNotFound, apierrors.NewNotFound(v1beta1.Resource("communities"), "").Status()
		}
		list, err := info.list(nil, "7")
		if err != nil {
			t.Error(err)
		}
		list.GetObjectKind().SetGroupVersionKind(info.gvk.GroupVersion().WithKind("CommunityList"))
		return http.StatusOK, list
	})
	k, _ := newKube(t, config)
	lw := k.ListerWatcher(Communities)
	_, err := list(t, lw)
	require.NoError(t, err)
	gone.Store(true)
	_, err = list(t, lw)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}
