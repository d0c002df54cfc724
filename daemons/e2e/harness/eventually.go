package harness

import (
	"testing"
	"time"
)

// patience is how long tests wait for what takes a fraction of a second on an
// idle machine.
const patience = 60 * time.Second

// Eventually calls probe until it returns "", and fails the test with the last
// answer, which says what is still missing, when it takes too long.
func Eventually(t testing.TB, what string, probe func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		missing := probe()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, patience, missing)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: the test ended: %s", what, missing)
		case <-time.After(30 * time.Millisecond):
		}
	}
}
