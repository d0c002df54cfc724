package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/source/sourcetest"
)

// running runs a controller on src inside a bubble of virtual time while f runs. settle waits until nothing is left to do.
func running(t *testing.T, src *sourcetest.Memory, f func(t *testing.T, c *Controller, settle func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Source: src, Logger: silent()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		settle := func() {
			time.Sleep(5 * time.Second) // virtual: every back-off and delay of a quiet controller is over
			synctest.Wait()
		}
		settle()
		f(t, c, settle)
		cancel()
		require.NoError(t, <-ended)
	})
}

func addresses(src *sourcetest.Memory, name string) string {
	svc := src.Service("shop", name)
	if svc == nil {
		return "gone"
	}
	return strings.Join(ips(svc), ",")
}

func TestRunServesAndCounts(t *testing.T) {
	src := &sourcetest.Memory{}
	src.Set(source.IPAddressPools, pool("p", "192.0.2.0/30"))
	src.Set(source.Services, lb("a"))
	running(t, src, func(t *testing.T, c *Controller, settle func()) {
		assert.True(t, c.Ready())
		assert.Equal(t, "192.0.2.0", addresses(src, "a"))
		assert.Equal(t, "p", src.Service("shop", "a").Annotations[config.AnnotationAllocatedFrom])
		src.Set(source.Services, lb("b"))
		settle()
		assert.Equal(t, "192.0.2.1", addresses(src, "b"))
		st := src.Pool("metallb-system", "p").Status
		assert.EqualValues(t, 2, st.AssignedIPv4)
		assert.EqualValues(t, 2, st.AvailableIPv4)
		assert.EqualValues(t, 2, c.Usage()["p"].V4.Used)
		assert.Equal(t, []sourcetest.Event{
			{Object: "shop/a", Type: "Normal", Reason: "IPAllocated", Message: `assigned 192.0.2.0 from pool "p"`},
			{Object: "shop/b", Type: "Normal", Reason: "IPAllocated", Message: `assigned 192.0.2.1 from pool "p"`},
		}, src.Events())
	})
}

func TestIdleWritesNothing(t *testing.T) { // metallb#2626
	src := &sourcetest.Memory{}
	src.Set(source.IPAddressPools, pool("p", "192.0.2.0/30"))
	src.Set(source.Services, lb("a"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	src.Set(source.Nodes, node)
	running(t, src, func(t *testing.T, c *Controller, settle func()) {
		writes, events, updates := src.Writes(), len(src.Events()), c.Stats().Updates
		for i := range 100 {
			node.Annotations = map[string]string{"heartbeat": fmt.Sprint(i)}
			src.Set(source.Nodes, node)
		}
		settle()
		time.Sleep(24 * time.Hour)
		assert.Equal(t, writes, src.Writes())
		assert.Len(t, src.Events(), events)
		assert.Equal(t, updates, c.Stats().Updates, "a heartbeat wakes nobody")
	})
}

func TestPendingIsServedWhenAnAddressIsFreed(t *testing.T) { // metallb#1586
	for name, free := range map[string]func(src *sourcetest.Memory){
		"holder deleted": func(src *sourcetest.Memory) { src.Delete(source.Services, "shop", "holder") },
		"type changed": func(src *sourcetest.Memory) {
			svc := src.Service("shop", "holder")
			svc.Spec.Type = corev1.ServiceTypeClusterIP
			src.Set(source.Services, svc)
		},
		"moved to another pool": func(src *sourcetest.Memory) {
			svc := src.Service("shop", "holder")
			svc.Annotations[config.AnnotationAddressPool] = "other"
			src.Set(source.Services, svc)
		},
		"pool grows": func(src *sourcetest.Memory) {
			src.Set(source.IPAddressPools, pool("p", "192.0.2.1/32", "192.0.2.7/32"))
		},
		"shared port given up": func(src *sourcetest.Memory) {
			svc := src.Service("shop", "holder")
			svc.Spec.Ports[0].Port = 8080
			src.Set(source.Services, svc)
		},
		"address to share appears": func(src *sourcetest.Memory) {
			svc := lb("joins", annotated(config.AnnotationAllowSharedIP, "k", config.AnnotationLoadBalancerIPs, "198.51.100.1"))
			svc.Spec.Ports[0].Port = 8080
			src.Set(source.Services, svc)
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := &sourcetest.Memory{}
			src.Set(source.IPAddressPools, pool("p", "192.0.2.1/32"))
			other := pool("other", "198.51.100.1/32")
			off := false
			other.Spec.AutoAssign = &off
			src.Set(source.IPAddressPools, other)
			src.Set(source.Services, lb("holder", held("p", "192.0.2.1"), annotated(config.AnnotationAllowSharedIP, "k")))
			src.Set(source.Services, lb("waits", annotated(config.AnnotationAllowSharedIP, "k")))
			running(t, src, func(t *testing.T, _ *Controller, settle func()) {
				require.Empty(t, addresses(src, "waits"))
				free(src)
				settle()
				assert.Contains(t, []string{"192.0.2.1", "192.0.2.7", "198.51.100.1"}, addresses(src, "waits"))
			})
		})
	}
}

func TestPendingIsServedWhenAQuarantineEnds(t *testing.T) {
	src := &sourcetest.Memory{}
	p := pool("p", "192.0.2.1/32")
	src.Set(source.IPAddressPools, p)
	src.Set(source.Services, lb("a"))
	src.Set(source.Services, lb("b"))
	running(t, src, func(t *testing.T, c *Controller, settle func()) {
		// The annotation alone is a change of the pool.
		p = p.DeepCopy()
		p.Annotations = map[string]string{config.AnnotationQuarantine: "10m"}
		src.Set(source.IPAddressPools, p)
		settle()
		released := time.Now()
		src.Delete(source.Services, "shop", "a")
		settle()
		assert.Empty(t, addresses(src, "b"))
		events := src.Events()
		last := events[len(events)-1]
		assert.Equal(t, "shop/b AllocationFailed", last.Object+" "+last.Reason)
		assert.Contains(t, last.Message, "some that are reserved or rest in quarantine")
		assert.EqualValues(t, 0, src.Pool("metallb-system", "p").Status.AvailableIPv4)

		time.Sleep(time.Until(released.Add(10*time.Minute - time.Second)))
		synctest.Wait()
		assert.Empty(t, addresses(src, "b"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, "192.0.2.1", addresses(src, "b"))

		// With nobody waiting the counters follow all the same.
		src.Delete(source.Services, "shop", "b")
		settle()
		assert.EqualValues(t, 0, src.Pool("metallb-system", "p").Status.AvailableIPv4)
		time.Sleep(10 * time.Minute)
		settle()
		assert.EqualValues(t, 1, src.Pool("metallb-system", "p").Status.AvailableIPv4)
	})
}

func TestConfigurationWakesOnlyWhomItConcerns(t *testing.T) {
	src := &sourcetest.Memory{}
	src.Set(source.IPAddressPools, pool("p", "192.0.2.0/25"))
	for i := range 100 {
		src.Set(source.Services, lb(fmt.Sprint("s", i)))
	}
	running(t, src, func(t *testing.T, c *Controller, settle func()) {
		updates := c.Stats().Updates
		src.Set(source.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "red"}}})
		settle()
		assert.LessOrEqual(t, c.Stats().Updates-updates, uint64(2), "the configuration and the counters")
		updates = c.Stats().Updates
		src.Set(source.IPAddressPools, pool("p", "192.0.2.0/26", "198.51.100.0/24"))
		settle()
		moved := 0
		for i := range 100 {
			if strings.HasPrefix(addresses(src, fmt.Sprint("s", i)), "198.51.100.") {
				moved++
			}
		}
		assert.Equal(t, 36, moved)
		assert.Less(t, c.Stats().Updates-updates, uint64(90), "those who moved, and their own writes")
	})
}

func TestForeignAddressBecomesOurs(t *testing.T) {
	src := &sourcetest.Memory{}
	src.Set(source.Services, lb("s", status("192.0.2.9")))
	running(t, src, func(t *testing.T, c *Controller, settle func()) {
		assert.Zero(t, src.Writes())
		src.Set(source.IPAddressPools, pool("p", "192.0.2.0/28"))
		settle()
		assert.Equal(t, "192.0.2.9", addresses(src, "s"))
		assert.EqualValues(t, 1, c.Usage()["p"].V4.Used)
		src.Set(source.Services, lb("t", annotated(config.AnnotationLoadBalancerIPs, "192.0.2.9")))
		settle()
		assert.Empty(t, addresses(src, "t"))
	})
}

func TestConflictingWriteIsDecidedAnew(t *testing.T) { // kube-vip#367
	src := &sourcetest.Memory{}
	src.Set(source.IPAddressPools, pool("p", "192.0.2.0/30"))
	src.Set(source.Services, lb("a"))
	meddled := false
	src.Before = func() {
		if svc := src.Service("shop", "a"); svc != nil && !meddled {
			meddled = true
			svc.Labels = map[string]string{"touched": "between"}
			src.Set(source.Services, svc)
		}
	}
	running(t, src, func(t *testing.T, _ *Controller, _ func()) {
		assert.Equal(t, "192.0.2.0", addresses(src, "a"))
		assert.Equal(t, "between", src.Service("shop", "a").Labels["touched"])
		assert.Len(t, src.Events(), 1, "said once, when it was true")
	})
}

func TestStaleConfigurationIsToldAndRecovers(t *testing.T) { // metallb#2245
	src := &sourcetest.Memory{}
	src.Set(source.IPAddressPools, pool("p", "192.0.2.0/30"))
	running(t, src, func(t *testing.T, c *Controller, settle func()) {
		assert.False(t, c.Stats().ConfigStale)
		src.Set(source.IPAddressPools, pool("p", "192.0.2.9-192.0.2.1"))
		settle()
		assert.True(t, c.Stats().ConfigStale)
		events := src.Events()
		require.Len(t, events, 1)
		assert.Equal(t, "metallb-system/p", events[0].Object)
		assert.Equal(t, "ConfigurationError", events[0].Reason)
		assert.Contains(t, events[0].Message, "192.0.2.9-192.0.2.1")
		src.Set(source.Services, lb("a"))
		settle()
		assert.Equal(t, "192.0.2.0", addresses(src, "a"), "its last good version is in force")
		src.Set(source.IPAddressPools, pool("p", "192.0.2.0/30"))
		settle()
		assert.False(t, c.Stats().ConfigStale)
	})
}

func TestNewNeedsASource(t *testing.T) {
	_, err := New(Config{})
	assert.ErrorContains(t, err, "Source")
}
