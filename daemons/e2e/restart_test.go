package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// TestRestart: two Services hold the two addresses of the pool, a third waits.
// Whatever the order in which they come, a controller that starts leaves the
// holders alone and gives nothing to the third (metallb#2443, metallb#1774).
func TestRestart(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.CreatePool(t, "p", "192.0.2.10-192.0.2.11")
	for _, order := range permutations([]string{"a", "b", "c"}) {
		t.Run(strings.Join(order, ""), func(t *testing.T) {
			for _, name := range order {
				switch name {
				case "a":
					cluster.CreateService(t, "a")
				case "b":
					cluster.CreateHolder(t, "b", "p", "192.0.2.10")
				case "c":
					cluster.CreateHolder(t, "c", "p", "192.0.2.11")
				}
			}
			before := versions(t, cluster, "b", "c")
			for range 2 {
				controller := cluster.StartController(t, "")
				cluster.AwaitEvent(t, cluster.Service(t, "a"), "AllocationFailed")
				cluster.Settle(t)
				assert.Equal(t, before, versions(t, cluster, "b", "c"), "the holders are not written to")
				assert.Empty(t, harness.Addresses(cluster.Service(t, "a")))
				controller.Stop(t)
			}
			for _, name := range order {
				cluster.DeleteService(t, name)
			}
		})
	}
}

// TestRestartAfterKill: the controller is killed between many writes; what it
// had given stays, and no address is given twice.
func TestRestartAfterKill(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.CreatePool(t, "p", "192.0.2.0/26")
	names := make([]string, 0, 40)
	for i := range 40 {
		names = append(names, "s"+string(rune('a'+i/10))+string(rune('0'+i%10)))
	}
	for _, name := range names {
		cluster.CreateService(t, name)
	}
	controller := cluster.StartController(t, "")
	harness.Eventually(t, "the first address is given", func() string {
		if len(addressesOf(t, cluster)) == 0 {
			return "none is"
		}
		return ""
	})
	controller.Kill(t)
	held := addressesOf(t, cluster)

	cluster.StartController(t, "")
	harness.Eventually(t, "every service has an address", func() string {
		for _, name := range names {
			if addressesOf(t, cluster)[name] == "" {
				return name + " has none"
			}
		}
		return ""
	})
	now := addressesOf(t, cluster)
	owners := map[string]string{}
	for name, address := range now {
		assert.Empty(t, owners[address], "%s is given to %s too", address, name)
		owners[address] = name
	}
	for name, address := range held {
		assert.Equal(t, address, now[name], "%s kept what it had", name)
	}
}

// TestTwoHoldersOfOneAddress: a state that was corrupt before is put right by a
// fixed rule: the older Service keeps the address without being written to, the
// other loses it and is told (metallb#1774).
func TestTwoHoldersOfOneAddress(t *testing.T) {
	cluster := harness.NewCluster(t)
	cluster.CreatePool(t, "p", "192.0.2.2/32")
	// The older has the greater name, so that it is not the name that decides.
	older := cluster.CreateHolder(t, "zz-older", "p", "192.0.2.2")
	harness.Eventually(t, "the clock of the server moves to another second", func() string {
		if time.Since(older.CreationTimestamp.Time) < 1100*time.Millisecond {
			return "it did not yet"
		}
		return ""
	})
	younger := cluster.CreateHolder(t, "aa-younger", "p", "192.0.2.2")
	assert.True(t, older.CreationTimestamp.Before(&younger.CreationTimestamp))

	cluster.StartController(t, "")
	cluster.AwaitAddresses(t, "aa-younger", "")
	event := cluster.AwaitEvent(t, younger, "ClearAssignment")
	assert.Contains(t, event.Message, "192.0.2.2")
	cluster.Settle(t)
	assert.Equal(t, older.ResourceVersion, cluster.Service(t, "zz-older").ResourceVersion, "no write to the holder")
	assert.Empty(t, harness.Addresses(cluster.Service(t, "aa-younger")))
	assert.NotContains(t, cluster.Service(t, "aa-younger").Annotations, harness.PoolAnnotation)

	cluster.DeleteService(t, "zz-older")
	cluster.AwaitAddresses(t, "aa-younger", "192.0.2.2")
}

// versions returns the resource versions of Services: they change with every write.
func versions(t *testing.T, cluster *harness.Server, names ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range names {
		all[name] = cluster.Service(t, name).ResourceVersion
	}
	return all
}

// addressesOf returns the addresses of all Services of the namespace default that have some.
func addressesOf(t *testing.T, cluster *harness.Server) map[string]string {
	t.Helper()
	list, err := cluster.Kube.CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := range list.Items {
		if addresses := harness.Addresses(&list.Items[i]); addresses != "" {
			all[list.Items[i].Name] = addresses
		}
	}
	return all
}

// permutations returns every order of the names.
func permutations(names []string) [][]string {
	if len(names) <= 1 {
		return [][]string{names}
	}
	var all [][]string
	for i := range names {
		rest := append(append([]string{}, names[:i]...), names[i+1:]...)
		for _, order := range permutations(rest) {
			all = append(all, append([]string{names[i]}, order...))
		}
	}
	return all
}
