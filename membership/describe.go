package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// SetEligible says whether this node is willing to hold addresses; it is, until
// told otherwise. The others are told by gossip, within about a second in a
// LAN; SetEligible does not wait for that. MetalLB's speakers do not listen.
func (c *Cluster) SetEligible(eligible bool) {
	c.redescribe(func(d *description) { d.eligible = eligible })
}

// SetLinks says which network interfaces of this node are up; nil, as in the
// beginning, says nothing, so that the node counts as having every link. The
// others are told as with [Cluster.SetEligible]. With more than about 300 links
// nothing is said, because it would not fit.
func (c *Cluster) SetLinks(names []string) {
	var links *linkSet
	if names != nil {
		if links = newLinkSet(names); links == nil {
			c.log.Warn("membership: too many links to tell the others, this node counts as having every link", "links", len(names))
		}
	}
	c.redescribe(func(d *description) { d.links = links })
}

func (c *Cluster) redescribe(change func(d *description)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.own
	change(&d)
	if d.equal(c.own) {
		return
	}
	c.own = d
	c.storeMeta()
	c.version.Add(1)
	c.roster.update(c.cfg.Name, func(m *Member) { m.Eligible, m.links = d.eligible, d.links })
	c.dirty.raise()
}

func (c *Cluster) storeMeta() {
	meta := c.own.encode()
	c.meta.Store(&meta)
}

// Drain is the first half of leaving in order. It makes this node ineligible,
// waits until the others have been told, and then for DrainSettle, in which
// they take over and announce what this node held. After it the node can stop
// announcing, and Run's context can be cancelled.
//
// It returns nil when all that is done, or when there are no others. It returns
// an error wrapping ctx.Err() when ctx ends before, [ErrNotRunning] when Run is
// not running, and another error when the gossip did not go out in time; the
// node is ineligible in any case, until [Cluster.SetEligible] says otherwise.
func (c *Cluster) Drain(ctx context.Context) error {
	c.SetEligible(false)
	done := make(chan error, 1)
	select {
	case <-c.ready:
	default:
		return ErrNotRunning
	}
	select {
	case c.pushes <- done:
	case <-c.stopped:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("membership: drain: others not told: %w", ctx.Err())
	}
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("membership: drain: others may not know: %w", err)
		}
	case <-ctx.Done():
		return fmt.Errorf("membership: drain: others may not know: %w", ctx.Err())
	}
	if len(c.Members()) == 1 {
		return nil
	}
	select {
	case <-time.After(c.cfg.DrainSettle):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("membership: drain: others may not have taken over: %w", ctx.Err())
	}
}

// errLeft answers requests that come when Run's context has ended.
var errLeft = errors.New("the node is leaving")

// pushLoop tells the others what this node says of itself. memberlist allows
// one such update at a time, and the first version is told with the join.
func (c *Cluster) pushLoop(ctx context.Context, list *memberlist.Memberlist, told uint64) {
	push := func() error {
		version := c.version.Load()
		if version == told {
			return nil
		}
		// What is not sent when the time is over goes on being sent.
		err := list.UpdateNode(c.spreadTimeout())
		if ctx.Err() != nil {
			return errLeft
		}
		if err == nil {
			told = version
		}
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.dirty:
			if err := push(); err != nil {
				c.log.Debug("membership: description not spread yet", "error", err)
			}
		case done := <-c.pushes:
			done <- push()
		}
	}
}

// spreadTimeout bounds how long it may take until a piece of news has been
// sent often enough: with two members that is one send per gossip interval.
func (c *Cluster) spreadTimeout() time.Duration {
	p := c.cfg.Profile
	return max(time.Second, time.Duration(p.RetransmitMult+3)*p.GossipInterval)
}
