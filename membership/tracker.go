package membership

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"time"
)

const (
	// trackerLabel marks the goroutines of memberlist.
	trackerLabel = "herald-membership"
	// maxPause is the longest time between two looks at the goroutines.
	maxPause = 50 * time.Millisecond
)

// tracker joins goroutines of code that does not: memberlist's Shutdown tells
// them to end and returns. They are found by a profiler label, which goroutines
// inherit from the one that starts them.
type tracker struct {
	id string
}

// newTracker returns a tracker with an id that no other one in the process has
// at the same time.
func newTracker(owner any) *tracker { return &tracker{id: fmt.Sprintf("%p", owner)} }

// do calls f in a goroutine of its own, whose label f's goroutines inherit, and
// waits for f.
func (t *tracker) do(ctx context.Context, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.Do(ctx, pprof.Labels(trackerLabel, t.id), func(context.Context) { f() })
	}()
	<-done
}

// wait returns when no goroutine is left. Once the sockets are closed the
// longest that one can take is a probe at the slowest pace; anything above
// that, and the time of a state sync, is an error.
func (t *tracker) wait(p Profile) error {
	limit := time.Duration(p.AwarenessMaxMultiplier+1)*p.ProbeInterval + p.TCPTimeout
	pause := time.Millisecond
	for begin := time.Now(); t.running(); pause = min(2*pause, maxPause) {
		if time.Since(begin) > limit {
			return fmt.Errorf("membership: goroutines of memberlist still run %v after the end", limit)
		}
		time.Sleep(pause)
	}
	return nil
}

func (t *tracker) running() bool {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return false
	}
	return bytes.Contains(profile.Bytes(), fmt.Appendf(nil, "%q:%q", trackerLabel, t.id))
}
