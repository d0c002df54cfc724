//go:build !linux

package bfd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

type udp struct{}

func kernelUDP() Transport { return udp{} }

func unsupported() error {
	return fmt.Errorf("reading the TTL of packets on %s: %w (set Config.Transport)", runtime.GOOS, errors.ErrUnsupported)
}

func (udp) Listen(context.Context, uint16, bool) (Receiver, error) { return nil, unsupported() }

func (udp) Dial(Peer) (Sender, error) { return nil, unsupported() }
