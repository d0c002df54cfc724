package membership

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate receives memberlist's callbacks. memberlist calls most of them while
// it holds its lock, so none waits for anything and none calls memberlist
// (memberlist#237).
type delegate struct {
	c *Cluster
}

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
	_ memberlist.PingDelegate     = delegate{}
)

// NodeMeta returns the description of this node.
func (d delegate) NodeMeta(int) []byte { return *d.c.meta.Load() }

// NotifyMsg, GetBroadcasts, LocalState and MergeRemoteState are not used: all
// that members say is in their metadata.
func (d delegate) NotifyMsg([]byte) {}

func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

func (d delegate) LocalState(bool) []byte { return nil }

func (d delegate) MergeRemoteState([]byte, bool) {}

func (d delegate) NotifyJoin(n *memberlist.Node) {
	if n.Name == d.c.cfg.Name {
		return
	}
	if d.note(n) {
		d.c.counters.joined.Add(1)
		d.c.log.Info("membership: member joined", "member", n.Name, "addr", n.Address())
	}
}

func (d delegate) NotifyUpdate(n *memberlist.Node) {
	if n.Name == d.c.cfg.Name {
		return
	}
	if d.note(n) {
		d.c.counters.updated.Add(1)
		d.c.log.Debug("membership: member changed what it says of itself", "member", n.Name)
	}
}

// note takes over all that memberlist knows of a member.
func (d delegate) note(n *memberlist.Node) bool {
	return d.c.roster.update(n.Name, func(m *Member) {
		m.Addr, m.Port = addrOf(n.Addr), n.Port
		m.Suspect = false
		m.describe(n.Meta)
	})
}

func (d delegate) NotifyLeave(n *memberlist.Node) {
	if d.c.roster.remove(n.Name) {
		d.c.counters.left.Add(1)
		d.c.log.Info("membership: member left or failed", "member", n.Name, "addr", n.Address())
	}
}

// NotifyConflict is called when two nodes claim one name. It happens for some
// seconds when a node comes back with another address before the others know
// that it was gone; the join is tried again soon then.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.c.counters.conflicts.Add(1)
	d.c.conflicted.raise()
	level := d.c.conflictLog.level(other.Name + "/" + other.Address())
	d.c.log.Log(context.Background(), level, "membership: two nodes claim one name",
		"member", existing.Name, "addr", existing.Address(), "other", other.Address())
}

// NotifyAlive is called for everything that is heard of a live member. It ends
// a suspicion, but not if it comes from another node of that name.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	d.c.roster.seen(n.Name, netip.AddrPortFrom(addrOf(n.Addr), n.Port))
	return nil
}

// AckPayload adds nothing to answers.
func (d delegate) AckPayload() []byte { return nil }

// NotifyPingComplete is called when a member answered a direct probe.
func (d delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	d.c.roster.seen(n.Name, netip.AddrPortFrom(addrOf(n.Addr), n.Port))
}

func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
