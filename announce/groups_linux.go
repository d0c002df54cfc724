package announce

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Groups opens what joins groups on a link. The first socket is opened with the
// first group.
func (k *kernel) Groups(l Link) (Groups, error) {
	return &groupSockets{link: l, where: make(map[netip.Addr]*groupSocket)}, nil
}

// groupSockets joins groups with as many ICMPv6 sockets as it takes: the kernel
// bounds the memberships of one by net.core.optmem_max (2,340 at 128 KiB).
type groupSockets struct {
	link    Link
	sockets []*groupSocket
	where   map[netip.Addr]*groupSocket
}

type groupSocket struct {
	fd   int
	held int
	full bool // the last attempt failed for lack of memory
}

// Join joins a group that is not joined.
func (g *groupSockets) Join(group netip.Addr) error {
	var s *groupSocket
	for _, candidate := range g.sockets {
		if !candidate.full {
			s = candidate
			break
		}
	}
	for {
		if s == nil {
			opened, err := openGroupSocket()
			if err != nil {
				return err
			}
			s = opened
			g.sockets = append(g.sockets, s)
		}
		err := unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, g.request(group))
		if err == nil {
			s.held++
			g.where[group] = s
			return nil
		}
		if !errors.Is(err, unix.ENOMEM) || s.held == 0 {
			return fmt.Errorf("join %v on %s: %w", group, g.link.Name, err)
		}
		s.full, s = true, nil
	}
}

// Leave leaves a group that is joined.
func (g *groupSockets) Leave(group netip.Addr) error {
	s := g.where[group]
	delete(g.where, group)
	s.held--
	s.full = false
	if err := unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, unix.IPV6_LEAVE_GROUP, g.request(group)); err != nil {
		return fmt.Errorf("leave %v on %s: %w", group, g.link.Name, err)
	}
	return nil
}

// Close closes the sockets; the kernel leaves their groups.
func (g *groupSockets) Close() error {
	var errs []error
	for _, s := range g.sockets {
		errs = append(errs, unix.Close(s.fd))
	}
	g.sockets = nil
	return errors.Join(errs...)
}

func (g *groupSockets) request(group netip.Addr) *unix.IPv6Mreq {
	return &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(g.link.Index)}
}

// openGroupSocket opens a socket that only joins: it lets no message in.
func openGroupSocket() (*groupSocket, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return nil, fmt.Errorf("open ICMPv6 socket: %w", err)
	}
	var block unix.ICMPv6Filter
	for i := range block.Data {
		block.Data[i] = ^uint32(0)
	}
	if err := unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &block); err != nil {
		return nil, errors.Join(fmt.Errorf("filter ICMPv6 socket: %w", err), unix.Close(fd))
	}
	return &groupSocket{fd: fd}, nil
}
