package labnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostLink is the name of the link of every host.
const hostLink = "eth0"

// bridgeName is the name of the switch in its namespace.
const bridgeName = "lan0"

// LAN is one Ethernet segment: a bridge in a namespace of its own, and the
// hosts that are plugged into it. Its methods are not safe for concurrent use;
// those of its hosts are.
type LAN struct {
	space  *Namespace
	nl     *netlink.Handle
	bridge netlink.Link
	hosts  []*Host
}

// NewLAN makes a switch without hosts.
func NewLAN() (*LAN, error) {
	space, nl, err := newHostSpace(false)
	if err != nil {
		return nil, err
	}
	lan := &LAN{space: space, nl: nl}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	if err := nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return nil, errors.Join(linkError("make the bridge", "bridge", err), lan.Close())
	}
	if lan.bridge, err = nl.LinkByName(bridgeName); err == nil {
		err = nl.LinkSetUp(lan.bridge)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("labnet: bridge: %w", err), lan.Close())
	}
	return lan, nil
}

// Close unplugs and lets go of every host and of the switch.
func (l *LAN) Close() error {
	var errs []error
	for _, h := range l.hosts {
		errs = append(errs, h.close())
	}
	l.hosts = nil
	l.nl.Close()
	return errors.Join(append(errs, l.space.Close())...)
}

// Hosts returns the hosts in the order in which they were added.
func (l *LAN) Hosts() []*Host { return slices.Clone(l.hosts) }

// HostConfig describes a host.
type HostConfig struct {
	// Name is unique on the LAN and at most 15 bytes: the switch's port has it
	// too.
	Name string
	// MAC is the address of its link; nil lets the kernel choose.
	MAC net.HardwareAddr
	// Addrs are the addresses of its link with their prefix lengths.
	Addrs []netip.Prefix
}

// Host is a machine on a LAN: a network namespace whose link eth0 is plugged
// into the switch. Its methods are safe for concurrent use.
type Host struct {
	name  string
	space *Namespace
	nl    *netlink.Handle
	lan   *LAN
	link  netlink.Link
	port  netlink.Link
}

// AddHost makes a host and plugs it in. Its addresses can be used at once:
// there is no duplicate address detection.
func (l *LAN) AddHost(cfg HostConfig) (*Host, error) {
	space, nl, err := newHostSpace(true)
	if err != nil {
		return nil, err
	}
	h := &Host{name: cfg.Name, space: space, nl: nl, lan: l}
	if err := h.plug(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("labnet: host %s: %w", cfg.Name, err), h.close())
	}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// plug makes the cable and configures both of its ends.
func (h *Host) plug(cfg HostConfig) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = cfg.Name
	attrs.MasterIndex = h.lan.bridge.Attrs().Index
	cable := netlink.NewVeth(attrs)
	cable.PeerName = hostLink
	cable.PeerHardwareAddr = cfg.MAC
	cable.PeerNamespace = netlink.NsFd(int(h.space.file.Fd()))
	if err := h.lan.nl.LinkAdd(cable); err != nil {
		return linkError("make the cable", "veth", err)
	}
	var err error
	if h.port, err = h.lan.nl.LinkByName(cfg.Name); err != nil {
		return err
	}
	if h.link, err = h.nl.LinkByName(hostLink); err != nil {
		return err
	}
	for _, prefix := range cfg.Addrs {
		addr := &netlink.Addr{IPNet: ipNet(prefix), Flags: unix.IFA_F_NODAD}
		if err := h.nl.AddrAdd(h.link, addr); err != nil {
			return fmt.Errorf("address %s: %w", prefix, err)
		}
	}
	if err := h.nl.LinkSetUp(h.link); err != nil {
		return err
	}
	return h.lan.nl.LinkSetUp(h.port)
}

func (h *Host) close() error {
	h.nl.Close()
	return h.space.Close()
}

// Name returns the name of the host.
func (h *Host) Name() string { return h.name }

// Space returns the network namespace of the host.
func (h *Host) Space() *Namespace { return h.space }

// MAC returns the link-layer address of the host.
func (h *Host) MAC() net.HardwareAddr { return h.link.Attrs().HardwareAddr }

// Unplug pulls the cable out of the switch: the host loses its carrier and
// nothing from it reaches the LAN any more.
func (h *Host) Unplug() error { return h.lan.nl.LinkSetDown(h.port) }

// Plug puts the cable back.
func (h *Host) Plug() error { return h.lan.nl.LinkSetUp(h.port) }

// ServeLocally makes the kernel of the host accept packets for every address
// of prefix as its own (AnyIP), as kube-proxy would on a node, without having
// any of them on a link: nothing answers ARP or neighbour solicitations for
// them but a program that does.
func (h *Host) ServeLocally(prefix netip.Prefix) error {
	lo, err := h.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("labnet: host %s: %w", h.name, err)
	}
	route := &netlink.Route{
		Dst:       ipNet(prefix),
		LinkIndex: lo.Attrs().Index,
		Table:     unix.RT_TABLE_LOCAL,
		Type:      unix.RTN_LOCAL,
		Scope:     netlink.SCOPE_HOST,
	}
	if prefix.Addr().Is6() {
		route.Scope = netlink.SCOPE_UNIVERSE
	}
	if err := h.nl.RouteAdd(route); err != nil {
		return fmt.Errorf("labnet: host %s: route local %s: %w", h.name, prefix, err)
	}
	return nil
}

// Neighbour is what a host knows about the link-layer address of another.
type Neighbour struct {
	MAC net.HardwareAddr
	// State is the kernel's word for it, such as REACHABLE or STALE.
	State string
}

// Neighbour looks addr up in the neighbour cache of the host. ok is false
// when the cache has no link-layer address for it.
func (h *Host) Neighbour(addr netip.Addr) (n Neighbour, ok bool, err error) {
	family := unix.AF_INET
	if addr.Is6() {
		family = unix.AF_INET6
	}
	entries, err := h.nl.NeighList(h.link.Attrs().Index, family)
	if err != nil {
		return Neighbour{}, false, fmt.Errorf("labnet: neighbours of %s: %w", h.name, err)
	}
	for _, e := range entries {
		if ip, valid := netip.AddrFromSlice(e.IP); valid && ip.Unmap() == addr && len(e.HardwareAddr) > 0 {
			return Neighbour{MAC: e.HardwareAddr, State: neighbourState(e.State)}, true, nil
		}
	}
	return Neighbour{}, false, nil
}

// SetNeighbour writes a permanent entry into the neighbour cache of the host.
func (h *Host) SetNeighbour(addr netip.Addr, mac net.HardwareAddr) error {
	err := h.nl.NeighSet(&netlink.Neigh{
		LinkIndex:    h.link.Attrs().Index,
		State:        netlink.NUD_PERMANENT,
		IP:           addr.AsSlice(),
		HardwareAddr: mac,
	})
	if err != nil {
		return fmt.Errorf("labnet: neighbour %s of %s: %w", addr, h.name, err)
	}
	return nil
}

// neighbourState names the states of a neighbour cache entry as ip(8) does.
func neighbourState(state int) string {
	switch state {
	case netlink.NUD_REACHABLE:
		return "REACHABLE"
	case netlink.NUD_STALE:
		return "STALE"
	case netlink.NUD_DELAY:
		return "DELAY"
	case netlink.NUD_PROBE:
		return "PROBE"
	case netlink.NUD_FAILED:
		return "FAILED"
	case netlink.NUD_INCOMPLETE:
		return "INCOMPLETE"
	case netlink.NUD_PERMANENT:
		return "PERMANENT"
	case netlink.NUD_NOARP:
		return "NOARP"
	}
	return fmt.Sprintf("0x%x", state)
}

// newHostSpace makes a namespace with loopback up, settings as on a node of a
// cluster, and a netlink handle in it.
func newHostSpace(ipv6 bool) (*Namespace, *netlink.Handle, error) {
	space, err := NewNamespace()
	if err != nil {
		return nil, nil, diagnose(os.DirFS("/"), os.Geteuid(), err)
	}
	var nl *netlink.Handle
	err = space.Do(func() error {
		if err := applySysctls(ipv6); err != nil {
			return err
		}
		var err error
		if nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("labnet: netlink: %w", err)
		}
		lo, err := nl.LinkByName("lo")
		if err == nil {
			err = nl.LinkSetUp(lo)
		}
		return err
	})
	if err != nil {
		if nl != nil {
			nl.Close()
		}
		return nil, nil, errors.Join(err, space.Close())
	}
	return space, nl, nil
}

// applySysctls sets the calling thread's namespace up as a node is set up that
// has load balancer addresses: the kernel answers ARP only for addresses that
// are on the link that is asked (arp_ignore), and never gives a load balancer
// address as its own when it asks itself (arp_announce).
func applySysctls(ipv6 bool) error {
	settings := [][2]string{
		{"ipv4/conf/all/arp_ignore", "1"},
		{"ipv4/conf/all/arp_announce", "2"},
	}
	if ipv6 {
		if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
			return &PrivilegeError{
				Err:      err,
				Causes:   []string{"this kernel runs without IPv6"},
				Remedies: []string{"remove ipv6.disable=1 from the kernel's command line"},
			}
		}
		settings = append(settings, [2]string{"ipv6/conf/all/disable_ipv6", "0"},
			[2]string{"ipv6/conf/default/disable_ipv6", "0"},
			[2]string{"ipv6/conf/default/accept_dad", "0"})
	}
	for _, s := range settings {
		if err := os.WriteFile("/proc/sys/net/"+s[0], []byte(s[1]), 0o644); err != nil {
			return diagnose(os.DirFS("/"), os.Geteuid(), fmt.Errorf("labnet: sysctl: %w", err))
		}
	}
	return nil
}

// linkError explains why a link of a kind could not be made.
func linkError(what, driver string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOENT) {
		return &PrivilegeError{
			Err:      err,
			Causes:   []string{"the kernel has no " + driver + " driver loaded"},
			Remedies: []string{"sudo modprobe " + driver},
		}
	}
	return diagnose(os.DirFS("/"), os.Geteuid(), err)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   p.Addr().AsSlice(),
		Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
	}
}
