package harness_test

import (
	"testing"

	"github.com/heraldlb/herald/daemons/e2e/harness"
)

// A test of a package whose TestMain calls harness.Main.
func Example() {
	_ = func(t *testing.T) {
		cluster := harness.NewCluster(t)
		cluster.CreatePool(t, "p", "192.0.2.10-192.0.2.12")
		controller := cluster.StartController(t, "")
		cluster.CreateService(t, "web")
		cluster.AwaitAddresses(t, "web", "192.0.2.10")
		controller.Stop(t)
	}
}
