package allocator

import (
	"container/heap"
	"net/netip"
	"slices"
	"time"
)

// rest is an address in quarantine: nobody holds it, and until it is over only
// its last holder may have it.
type rest struct {
	family Family
	n      u128
	owner  Owner
	since  time.Time
	until  time.Time
	at     int // in the queue
}

// NextFree returns when the next resting address becomes free, so that whoever
// waits for one can be served then; false if none rests. Quarantines that are
// over end with the next call of any method; nothing runs in the background.
func (a *Allocator) NextFree() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	if len(a.queue) == 0 {
		return time.Time{}, false
	}
	return a.queue[0].until, true
}

// sweep ends the quarantines that are over.
func (a *Allocator) sweep() {
	if len(a.queue) == 0 {
		return
	}
	now := time.Now()
	for len(a.queue) > 0 && !a.queue[0].until.After(now) {
		r := a.queue[0]
		a.wake(r)
		a.free(r)
	}
}

// rest puts an address that nobody holds any more in quarantine, if its pool
// has one.
func (a *Allocator) rest(o Owner, addr netip.Addr) {
	f, n := FamilyOf(addr), number(addr)
	p, pos, usable := a.table.index.find(f, n)
	if p == nil || !usable || p.Quarantine == 0 {
		return
	}
	switch before := a.resting[f.index()][n]; {
	case before != nil:
		a.wake(before) // of several holders that are displaced together the last one counts
	case !a.table.reserved(f, n):
		p.spaces[f.index()].keep(pos)
	}
	now := time.Now()
	r := &rest{family: f, n: n, owner: o, since: now, until: now.Add(p.Quarantine)}
	a.resting[f.index()][n] = r
	a.restsOf[o] = append(a.restsOf[o], r)
	heap.Push(&a.queue, r)
}

// wake forgets the quarantine of r; what becomes of the address is up to the
// caller.
func (a *Allocator) wake(r *rest) {
	heap.Remove(&a.queue, r.at)
	delete(a.resting[r.family.index()], r.n)
	rests := slices.DeleteFunc(a.restsOf[r.owner], func(other *rest) bool { return other == r })
	if len(rests) == 0 {
		delete(a.restsOf, r.owner)
	} else {
		a.restsOf[r.owner] = rests
	}
}

// free makes the address of a quarantine that ended free, unless it is reserved.
func (a *Allocator) free(r *rest) {
	if p, pos, usable := a.table.index.find(r.family, r.n); p != nil && usable && !a.kept(r.family, r.n) {
		p.spaces[r.family.index()].unkeep(pos)
	}
}

// resettle fits the quarantines to new pools: each ends as the pool that has
// the address now says, counted from its release.
func (a *Allocator) resettle(fresh map[*pool]bool) {
	for _, r := range slices.Clone(a.queue) {
		p, pos, usable := a.table.index.find(r.family, r.n)
		if p == nil || !usable || p.Quarantine == 0 {
			a.wake(r)
			if p != nil && usable && !fresh[p] {
				a.free(r)
			}
			continue
		}
		r.until = r.since.Add(p.Quarantine)
		heap.Fix(&a.queue, r.at)
		if fresh[p] && !a.table.reserved(r.family, r.n) {
			p.spaces[r.family.index()].keep(pos)
		}
	}
	a.sweep()
}

// restQueue is a heap of quarantines, the first to end on top.
type restQueue []*rest

func (q restQueue) Len() int { return len(q) }

func (q restQueue) Less(i, j int) bool { return q[i].until.Before(q[j].until) }

func (q restQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements heap.Interface.
func (q *restQueue) Push(x any) {
	r, ok := x.(*rest)
	if !ok {
		return
	}
	r.at = len(*q)
	*q = append(*q, r)
}

// Pop implements heap.Interface.
func (q *restQueue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return r
}
