package membership

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// retryMin is the first wait after a failed attempt to join; it doubles up
	// to the rejoin interval.
	retryMin = time.Second
	// parallelJoins bounds how many seeds are joined at a time. A seed that is
	// gone costs the whole TCP timeout.
	parallelJoins = 8
	// jitterPart of every wait, up or down, is random.
	jitterPart = 0.1
)

// joiner keeps this node in touch with the seeds. It belongs to one goroutine.
type joiner struct {
	c    *Cluster
	list *memberlist.Memberlist

	backoff      time.Duration
	sourceFailed bool
	unreachable  map[netip.AddrPort]bool // to report changes only
}

func newJoiner(c *Cluster, list *memberlist.Memberlist) *joiner {
	return &joiner{c: c, list: list, backoff: retryMin, unreachable: make(map[netip.AddrPort]bool)}
}

// run joins at once, then again in short intervals until this node is in touch
// with somebody, then in long ones.
func (j *joiner) run(ctx context.Context) {
	all := false
	settled := j.round(ctx, all)
	timer := time.NewTimer(j.wait(settled))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.c.conflicted:
			if settled {
				settled = false
				timer.Reset(j.wait(settled))
			}
			continue
		case <-j.c.rejoin:
			// Who asks has a reason to believe that views differ: a member that
			// this node still has may have given it up.
			all, j.backoff = true, retryMin
		case <-timer.C:
			if settled { // for a whole interval
				j.backoff = retryMin
			}
		}
		settled = j.round(ctx, all)
		all = all && !settled
		timer.Reset(j.wait(settled))
	}
}

// wait returns how long to wait for the next round.
func (j *joiner) wait(settled bool) time.Duration {
	wait := j.c.cfg.RejoinInterval
	if !settled {
		wait = min(wait, j.backoff)
		j.backoff = min(2*j.backoff, j.c.cfg.RejoinInterval)
	}
	return wait + time.Duration((2*j.c.cfg.Rand.Float64()-1)*jitterPart*float64(wait))
}

// round joins the seeds that are not members, or all of them. It reports whether
// this node is in touch with all that it can be in touch with.
func (j *joiner) round(ctx context.Context, all bool) bool {
	seeds, ok := j.seeds(ctx)
	if !ok {
		return false
	}
	select {
	case <-j.c.conflicted: // what happened before does not count
	default:
	}
	absent := j.absent(seeds, all)
	reached := j.joinAll(ctx, absent)
	select {
	case <-j.c.conflicted:
		return false
	default:
	}
	others := len(j.c.roster.members()) > 1 && !all
	return others || reached > 0 || len(absent) == 0 && len(seeds) > 0
}

func (j *joiner) seeds(ctx context.Context) ([]netip.AddrPort, bool) {
	seeds, err := j.c.cfg.seeds(ctx)
	if ctx.Err() != nil {
		return nil, false
	}
	if err != nil {
		j.c.counters.seedErrors.Add(1)
		if !j.sourceFailed {
			j.c.log.Warn("membership: cannot learn the addresses of other members, trying again", "error", err)
		}
	}
	j.sourceFailed = err != nil
	return seeds, err == nil
}

// absent returns the seeds that are neither members (unless all are wanted) nor
// this node, as far as the socket can reach them.
func (j *joiner) absent(seeds []netip.AddrPort, all bool) []netip.AddrPort {
	members := make(map[netip.AddrPort]bool)
	if !all {
		members = j.c.roster.addrs()
	}
	members[j.c.LocalAddr()] = true
	bind := j.c.cfg.Bind.Addr()
	dual := bind.Is6() && bind.IsUnspecified()
	var absent []netip.AddrPort
	for _, seed := range seeds {
		if members[seed] {
			delete(j.unreachable, seed)
			continue
		}
		if dual || seed.Addr().Is4() == bind.Is4() {
			absent = append(absent, seed)
		}
	}
	return absent
}

// joinAll returns how many of the seeds were reached.
func (j *joiner) joinAll(ctx context.Context, seeds []netip.AddrPort) int {
	results := make([]error, len(seeds))
	slots := make(chan struct{}, parallelJoins)
	var wg sync.WaitGroup
	for i, seed := range seeds {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return 0
		}
		wg.Go(func() {
			defer func() { <-slots }()
			_, results[i] = j.list.Join([]string{seed.String()})
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return 0 // what failed, failed because this node leaves
	}
	reached := 0
	for i, seed := range seeds {
		j.report(seed, results[i])
		if results[i] == nil {
			reached++
		}
	}
	return reached
}

// report counts an attempt, and logs it if the outcome is another than last
// time.
func (j *joiner) report(seed netip.AddrPort, err error) {
	j.c.counters.joinAttempts.Add(1)
	was := j.unreachable[seed]
	if err == nil {
		delete(j.unreachable, seed)
		j.c.log.Info("membership: joined", "seed", seed)
		return
	}
	j.c.counters.joinFailures.Add(1)
	j.unreachable[seed] = true
	switch {
	case was:
		j.c.log.Debug("membership: still cannot join", "seed", seed, "error", err)
	case strings.Contains(err.Error(), "no installed keys could decrypt") || strings.Contains(err.Error(), "encrypt"):
		j.c.log.Warn("membership: cannot join: the other side has another key, or none", "seed", seed, "error", err)
	default:
		j.c.log.Warn("membership: cannot join, trying again", "seed", seed, "error", err)
	}
}
