package announce

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// A kernel is the Network of a Linux network namespace.
type kernel struct {
	list    *rtnetlink.Conn // for requests
	events  *rtnetlink.Conn // for notifications
	changed chan struct{}
	closed  atomic.Bool
	wg      sync.WaitGroup

	mu    sync.Mutex
	downs map[int]uint64 // by index: how often a notification showed the link down
}

func openKernel() (Network, error) {
	if err := checkNetRaw(); err != nil {
		return nil, err
	}
	list, err := rtnetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// Link changes, and IPv6 addresses: they tell when IPv6 becomes ready.
	events, err := rtnetlink.Dial(&netlink.Config{Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV6_IFADDR})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink socket for events: %w", err), list.Close())
	}
	k := &kernel{list: list, events: events, changed: make(chan struct{}, 1), downs: make(map[int]uint64)}
	k.wg.Go(k.watch)
	return k, nil
}

// checkNetRaw opens and closes a packet socket, so that a missing capability is
// one clear error and not one for each link.
func checkNetRaw() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open packet socket: %w: needs the capability CAP_NET_RAW (in Kubernetes: "+
			"securityContext.capabilities.add: [NET_RAW])", err)
	case err != nil:
		return fmt.Errorf("open packet socket: %w", err)
	}
	return unix.Close(fd)
}

func (k *kernel) Changed() <-chan struct{} { return k.changed }

func (k *kernel) Close() error {
	k.closed.Store(true)
	err := errors.Join(k.events.Close(), k.list.Close())
	k.wg.Wait()
	return err
}

// watch turns notifications into tokens. Whatever is lost (the kernel says
// ENOBUFS) or cannot be decoded is a change too: the links are listed in full.
func (k *kernel) watch() {
	failures := 0
	for !k.closed.Load() {
		msgs, raw, err := k.events.Receive()
		if err != nil {
			if failures++; failures > 1 && !k.closed.Load() {
				time.Sleep(min(time.Duration(failures)*10*time.Millisecond, 200*time.Millisecond))
			}
			notify(k.changed)
			continue
		}
		failures = 0
		for i, m := range msgs {
			if link, ok := m.(*rtnetlink.LinkMessage); ok {
				gone := raw[i].Header.Type == unix.RTM_DELLINK
				if gone || !running(link.Flags) {
					k.mu.Lock()
					k.downs[int(link.Index)]++
					k.mu.Unlock()
				}
			}
		}
		notify(k.changed)
	}
}

func running(flags uint32) bool {
	const want = unix.IFF_UP | unix.IFF_RUNNING
	return flags&want == want
}

// Links lists the links of the namespace.
func (k *kernel) Links() ([]Link, error) {
	msgs, err := k.list.Link.List()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	downs := make(map[int]uint64, len(msgs)) // forgets links that are gone
	links := make([]Link, 0, len(msgs))
	for _, m := range msgs {
		if m.Attributes == nil {
			continue
		}
		l := Link{
			Index:        int(m.Index),
			Name:         m.Attributes.Name,
			HardwareAddr: m.Attributes.Address,
			Type:         m.Type,
			Up:           running(m.Flags),
			NoARP:        m.Flags&unix.IFF_NOARP != 0,
		}
		if m.Attributes.Master != nil {
			l.Master = int(*m.Attributes.Master)
		}
		downs[l.Index] = k.downs[l.Index]
		l.Epoch = downs[l.Index]
		// Counts what happened while notifications were lost.
		if m.Attributes.CarrierDownCount != nil {
			l.Epoch += uint64(*m.Attributes.CarrierDownCount)
		}
		links = append(links, l)
	}
	k.downs = downs
	return links, nil
}
