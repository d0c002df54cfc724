package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// TestTakeOver: of two controllers one serves. When it is killed, the other takes
// over: nothing moves, nothing is given twice, and what waits is served.
func TestTakeOver(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.CreatePool(t, "p", "192.0.2.0/24")
	first := cluster.StartController(t, "", "--ml-secret-name", "memberlist")
	secret, err := cluster.Kube.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "memberlist", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, secret.Data["secretkey"])
	cluster.CreateService(t, "s0")
	cluster.AwaitAddresses(t, "s0", "192.0.2.0")
	second := cluster.StartController(t, "")
	for i := 1; i < 10; i++ {
		cluster.CreateService(t, "s"+strconv.Itoa(i))
	}
	cluster.AwaitAddresses(t, "s9", "192.0.2.9")
	assert.NotContains(t, second.Log(), "Service updated", "one of them serves")
	held := addressesOf(t, cluster)

	first.Kill(t)
	cluster.CreateService(t, "late")
	cluster.AwaitAddresses(t, "late", "192.0.2.10")
	now := addressesOf(t, cluster)
	delete(now, "late")
	assert.Equal(t, held, now)

	// In order it goes faster: the Lease is given back.
	third := cluster.StartController(t, "")
	began := time.Now()
	second.Stop(t)
	cluster.CreateService(t, "later")
	cluster.AwaitAddresses(t, "later", "192.0.2.11")
	t.Logf("taken over in order after %v", time.Since(began))
	third.Healthy(t)
}

// TestManyServices creates Services all at once, kills the controller in the
// middle, and checks that each gets an address of its own that never changes.
// HERALD_E2E_SERVICES says how many: 300 by default, docs/performance.md has the
// figures of 5,000.
func TestManyServices(t *testing.T) {
	count := 300
	if text := os.Getenv("HERALD_E2E_SERVICES"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	cluster := harness.NewCluster(t)
	cluster.CreatePool(t, "p", "10.77.0.0/16")
	config := cluster.Config()
	config.QPS, config.Burst = 2000, 2000
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	args := []string{"--kube-api-qps", "1000", "--kube-api-burst", "1000"}
	controller := cluster.StartController(t, "", args...)

	began := time.Now()
	var creators sync.WaitGroup
	for worker := range 8 {
		creators.Go(func() {
			for i := worker; i < count; i += 8 {
				_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%05d", i)},
					Spec: corev1.ServiceSpec{
						Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false),
						Ports: []corev1.ServicePort{{Port: 80}},
					},
				}, metav1.CreateOptions{})
				assert.NoError(t, err)
			}
		})
	}
	served := func(n int) {
		for {
			have := len(addressesOf(t, cluster))
			if have >= n {
				return
			}
			require.Less(t, time.Since(began), 10*time.Minute, "%d of %d have an address", have, n)
			time.Sleep(100 * time.Millisecond)
		}
	}
	served(count / 2)
	controller.Kill(t)
	half := addressesOf(t, cluster)
	again := time.Now()
	controller = cluster.StartController(t, "", args...)
	creators.Wait()
	created := time.Since(began)
	served(count)
	t.Logf("%d Services: created in %v, all served %v after the first and %v after the restart (the Lease of the killed leader expires after 15 s)",
		count, created, time.Since(began), time.Since(again))

	now := addressesOf(t, cluster)
	owners := map[string]string{}
	for name, address := range now {
		assert.Empty(t, owners[address], "%s is given to %s too", address, name)
		owners[address] = name
	}
	for name, address := range half {
		assert.Equal(t, address, now[name], "%s kept what it had", name)
	}
	writes := map[string]int{}
	for _, w := range cluster.WritesOf(t, harness.ControllerAccount) {
		writes[w.Verb+" "+w.Resource]++
	}
	t.Logf("requests of the controller that wrote: %v", writes)
	assert.LessOrEqual(t, writes["patch services/status"], count+count/10, "one write for each, and what the kill cut off")
	controller.Stop(t)
	cpu, rss := controller.Usage(t)
	t.Logf("the controller since its restart: %v of CPU time, %d MiB at the most", cpu, rss>>20)
}
