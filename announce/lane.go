package announce

import "sync/atomic"

// A lane is what counts for the links of one name as long as one of them is in
// use: it outlives a port that is replaced because the link has changed. Its slot
// is small, unique among the lanes in use, and given again after it.
type lane struct {
	name  string
	slot  int
	drops [numReasons]atomic.Uint64
}

// lane returns the lane of a link.
func (a *Announcer) lane(name string) *lane {
	a.mu.Lock()
	defer a.mu.Unlock()
	free := -1
	for i, l := range a.lanes {
		switch {
		case l == nil && free < 0:
			free = i
		case l != nil && l.name == name:
			return l
		}
	}
	if free < 0 {
		free = len(a.lanes)
		a.lanes = append(a.lanes, nil)
	}
	a.lanes[free] = &lane{name: name, slot: free}
	return a.lanes[free]
}

// releaseLanes gives up the lanes that no port uses, whose responders have ended.
// What they have counted stays in the sums.
func (a *Announcer) releaseLanes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := make(map[*lane]bool, len(a.ports))
	for _, p := range a.ports {
		used[p.lane] = true
	}
	for i, l := range a.lanes {
		if l == nil || used[l] {
			continue
		}
		for r := range l.drops {
			a.counters.drops[r].Add(l.drops[r].Load())
		}
		for e := range a.table.Load().all {
			e.fold(l.slot)
		}
		a.lanes[i] = nil
	}
}

// A tally is what is counted of an address on a link.
type tally struct {
	requests, replies, gratuitous, claims, conflicts atomic.Uint64
}

func (t *tally) add(o *tally) {
	t.requests.Add(o.requests.Load())
	t.replies.Add(o.replies.Load())
	t.gratuitous.Add(o.gratuitous.Load())
	t.claims.Add(o.claims.Load())
	t.conflicts.Add(o.conflicts.Load())
}

// A cell is one address on one lane.
type cell struct {
	tally
	announced atomic.Int64 // when the last burst was queued, in ns since 1970
	noted     atomic.Int64 // when a claim was last handed on, likewise
	yielded   atomic.Bool  // left to another host for the time being
}

// A tenure is one uninterrupted time of holding an address. It carries the
// counters, which thus start at zero when the address comes back. The packet path
// finds and makes cells without a lock.
type tenure struct {
	home  cell         // of the first lane; most addresses have one, and it is at hand
	first atomic.Int64 // slot of home and 1; 0: free; negative: that lane is no more

	cells atomic.Pointer[[]*cell] // of the others, by slot; the slice is immutable
	gone  tally                   // of lanes that are no more
}

// find returns the cell of a slot, or nil if nothing has made it.
func (t *tenure) find(slot int) *cell {
	if t.first.Load() == int64(slot)+1 {
		return &t.home
	}
	if cells := t.cells.Load(); cells != nil && slot < len(*cells) {
		return (*cells)[slot]
	}
	return nil
}

// cell returns the cell of a slot.
func (t *tenure) cell(slot int) *cell {
	for {
		if c := t.find(slot); c != nil {
			return c
		}
		if !t.first.CompareAndSwap(0, int64(slot)+1) {
			t.replace(slot, nil, new(cell))
		}
	}
}

// replace puts next into a slot, unless it does not hold prev any more.
func (t *tenure) replace(slot int, prev, next *cell) {
	for t.find(slot) == prev {
		old := t.cells.Load()
		var cells []*cell
		if old != nil {
			cells = append(cells, *old...)
		}
		for len(cells) <= slot {
			cells = append(cells, nil)
		}
		cells[slot] = next
		if t.cells.CompareAndSwap(old, &cells) {
			return
		}
	}
}

// fold adds a cell to what is gone and empties its slot. Nobody counts in it.
func (t *tenure) fold(slot int) {
	c := t.find(slot)
	switch {
	case c == nil:
		return
	case c == &t.home: // not used again: somebody may still look at it
		t.first.Store(-1)
	default:
		t.replace(slot, c, nil)
	}
	t.gone.add(&c.tally)
}
