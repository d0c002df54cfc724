//go:build !linux

package gobgp

import (
	"errors"
	"fmt"
	"syscall"
)

// bindTo returns a control function that binds a socket to a device; nil for none.
func bindTo(device string) func(network, address string, c syscall.RawConn) error {
	if device == "" {
		return nil
	}
	return func(string, string, syscall.RawConn) error {
		return fmt.Errorf("bind to device %s: %w", device, errors.ErrUnsupported)
	}
}
