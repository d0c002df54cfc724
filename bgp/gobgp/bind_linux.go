package gobgp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindTo returns a control function that binds a socket to a device; nil for none.
func bindTo(device string) func(network, address string, c syscall.RawConn) error {
	if device == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if failed := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), device) }); failed != nil {
			return failed
		}
		return err
	}
}
