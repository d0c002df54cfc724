//go:build !linux

package announce

import (
	"errors"
	"fmt"
	"runtime"
)

func openKernel() (Network, error) {
	return nil, fmt.Errorf("answering ARP and NDP on %s: %w (set Config.Open)", runtime.GOOS, errors.ErrUnsupported)
}

// isQueueFull reports errors after which the same frame may pass a moment later.
func isQueueFull(error) bool { return false }
