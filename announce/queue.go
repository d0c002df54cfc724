package announce

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A round is one address that waits to be announced on one link.
type round struct {
	addr   netip.Addr
	tenure *tenure
	burst  uint64 // only the last burst of a tenure counts
	left   int    // rounds to go, this one included
	due    time.Time
}

// A queue holds the rounds of one link and protocol. All rounds after the first
// are one interval later than the one before, so a first-in, first-out list is
// also ordered by time.
type queue struct {
	interval time.Duration
	held     func(netip.Addr) *tenure // who holds the address here now; nil: nobody
	wake     chan struct{}            // capacity 1

	mu      sync.Mutex
	fresh   []round // to be sent at once
	later   []round // by due
	bursts  map[*tenure]uint64
	last    uint64
	tidyLen int // length of fresh at which it is searched for the dead
}

// tidyMin keeps small queues from being searched.
const tidyMin = 4096

func newQueue(interval time.Duration, held func(netip.Addr) *tenure) *queue {
	return &queue{
		interval: interval, held: held, wake: make(chan struct{}, 1),
		bursts: make(map[*tenure]uint64), tidyLen: tidyMin,
	}
}

// add starts a burst of rounds for each entry, in place of a running one.
func (q *queue) add(entries iter.Seq[*entry], rounds int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	for e := range entries {
		q.bursts[e.tenure] = q.last
		q.fresh = append(q.fresh, round{addr: e.addr, tenure: e.tenure, burst: q.last, left: rounds})
	}
	if len(q.fresh) >= q.tidyLen { // a link that takes no frames must not cost memory for ever
		q.fresh = slices.DeleteFunc(q.fresh, func(r round) bool { return !q.alive(r) })
		q.tidyLen = max(tidyMin, 2*len(q.fresh))
	}
	if len(q.fresh) > 0 {
		notify(q.wake)
	}
}

// alive reports whether a round is still to be sent: no newer burst has replaced
// it, and its address is still held by the same tenure. An address that is gone
// must not be claimed again.
func (q *queue) alive(r round) bool {
	if q.bursts[r.tenure] != r.burst {
		return false
	}
	if q.held(r.addr) != r.tenure {
		delete(q.bursts, r.tenure)
		return false
	}
	return true
}

// idle returns those of the entries that are not in a burst.
func (q *queue) idle(entries iter.Seq[*entry]) iter.Seq[*entry] {
	q.mu.Lock()
	defer q.mu.Unlock()
	var idle []*entry
	for e := range entries {
		if _, ok := q.bursts[e.tenure]; !ok {
			idle = append(idle, e)
		}
	}
	return slices.Values(idle)
}

// take appends up to limit rounds that are due to dst. If there are none, wait
// is the time until the next; negative means that nothing is queued.
func (q *queue) take(dst []round, limit int, now time.Time) (due []round, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(dst) < limit && len(q.fresh) > 0 {
		dst = q.pick(dst, &q.fresh)
	}
	for len(dst) < limit && len(q.later) > 0 {
		if d := q.later[0].due.Sub(now); d > 0 {
			return dst, d
		}
		dst = q.pick(dst, &q.later)
	}
	if len(dst) > 0 {
		return dst, 0
	}
	return dst, -1
}

// pick moves the first round of list to dst if it is alive.
func (q *queue) pick(dst []round, list *[]round) []round {
	r := (*list)[0]
	*list = (*list)[1:]
	if len(*list) == 0 {
		*list = nil // frees what the slice has left behind
	}
	if !q.alive(r) {
		return dst
	}
	return append(dst, r)
}

// done is told of rounds that were sent, and queues the next ones.
func (q *queue) done(rounds []round, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range rounds {
		r.left--
		switch {
		case q.bursts[r.tenure] != r.burst:
		case r.left <= 0:
			delete(q.bursts, r.tenure)
		default:
			r.due = now.Add(q.interval)
			q.later = append(q.later, r)
		}
	}
}

// A pacer spreads frames so that no more than rate are sent in a second, after
// an initial allowance of slack.
type pacer struct {
	perFrame time.Duration
	next     time.Time
}

// slack is how much a sender that was held up may catch up at once.
const slack = 2 * time.Millisecond

func newPacer(rate int) *pacer { return &pacer{perFrame: max(1, time.Second/time.Duration(rate))} }

// sent books n frames and returns how long to wait before the next.
func (p *pacer) sent(n int, now time.Time) time.Duration {
	if floor := now.Add(-slack); p.next.Before(floor) {
		p.next = floor
	}
	p.next = p.next.Add(time.Duration(n) * p.perFrame)
	return max(0, p.next.Sub(now))
}
