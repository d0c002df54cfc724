package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Source gives the addresses of a pool in place of ranges: a DHCP client, the
// IPAM of a data centre, an operator. It may be slow and it may fail; the
// allocator calls it from Obtain and Settle alone, never with its lock held, so
// only who asks this source waits for it. Calls for one owner never overlap;
// those for several do.
//
// An address from a source is held by one owner, whatever its SharingKey, and
// stays with it when the Source of the pool is replaced.
type Source interface {
	// Acquire returns one address of each of ask.Families, or of the preferred
	// one alone if ask.Partial allows that. It returns the same again for an
	// owner that was given some and did not release them.
	Acquire(ctx context.Context, ask Ask) ([]netip.Addr, error)
	// Release takes addresses back from an owner. One that it does not hold is
	// no error.
	Release(ctx context.Context, owner Owner, addrs []netip.Addr) error
}

// Ask is what a Source is asked for.
type Ask struct {
	Pool      string
	Owner     Owner
	Namespace string
	Families  []Family // preferred one first
	Partial   bool     // one of two is acceptable
	// Addresses is the explicit wish of a request that also names the pool;
	// there must be no other answer to it. Empty: any.
	Addresses []netip.Addr
}

// SourceError tells that a pool with a Source is next to serve a request. It is
// an ErrSource.
type SourceError struct {
	Pool string
	// Err is why the source did not serve it. Nil: it was not asked, because
	// Assign never waits; use Obtain.
	Err error
}

func (e *SourceError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("the source of pool %q must be asked, which Assign does not do; use Obtain", e.Pool)
	}
	return fmt.Sprintf("source of pool %q: %v", e.Pool, e.Err)
}

func (e *SourceError) Unwrap() error { return e.Err }

// Is makes every SourceError an ErrSource.
func (e *SourceError) Is(target error) bool { return target == ErrSource }

// Obtain is Assign for pools of which some have a Source: it asks the source of
// each such pool when it is its turn, and goes on to the next pool when that
// fails. It blocks as long as the sources do and returns early when ctx is
// done. Two calls for one owner are served one after the other.
func (a *Allocator) Obtain(ctx context.Context, req Request) (Assignment, error) {
	w, err := newWish(&req)
	if err != nil {
		return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, err)
	}
	if err := a.begin(ctx, req.Owner); err != nil {
		return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, err)
	}
	defer a.end(req.Owner)
	for {
		as, p, err := a.attempt(&w)
		if p == nil {
			return as, err
		}
		addrs, err := p.Source.Acquire(ctx, w.ask(p))
		if err == nil {
			if as, err = a.accept(&w, p, addrs); err == nil {
				return as, nil
			}
		}
		if ctx.Err() != nil {
			return Assignment{}, fmt.Errorf("assign %s: %w", req.Owner, &SourceError{p.Name, err})
		}
		if w.refused == nil {
			w.refused = map[string]error{}
		}
		w.refused[p.Name] = err
	}
}

func (w *wish) ask(p *pool) Ask {
	return Ask{
		Pool: p.Name, Owner: w.req.Owner, Namespace: w.req.Namespace,
		Families: slices.Clone(w.families[:w.n]), Partial: w.partial(), Addresses: slices.Clone(w.req.Addresses),
	}
}

// refusal returns why the source of p did not serve the request, nil if it was
// not asked.
func (w *wish) refusal(p *pool) error {
	if err := w.refused[p.Name]; err != nil {
		return &SourceError{p.Name, err}
	}
	return nil
}

// attempt is Assign, but returns the pool whose source must be asked.
func (a *Allocator) attempt(w *wish) (Assignment, *pool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	cur := a.owners[w.req.Owner]
	pl, err := a.plan(w, cur)
	switch {
	case err != nil:
		return Assignment{}, nil, fmt.Errorf("assign %s: %w", w.req.Owner, err)
	case pl.unasked():
		return Assignment{}, pl.pool, nil
	}
	return a.commit(w, cur, pl).assignment(), nil, nil
}

// accept gives the owner what a source answered, or owes it to the source.
func (a *Allocator) accept(w *wish, from *pool, addrs []netip.Addr) (Assignment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cur := a.owners[w.req.Owner]
	pl, err := a.answer(w, cur, from, addrs)
	if err != nil {
		answered := fmt.Errorf("it answers %v: %w", addrs, err)
		if cur != nil {
			addrs = slices.DeleteFunc(slices.Clone(addrs), func(addr netip.Addr) bool { return slices.Contains(cur.list(), addr) })
		}
		a.owe(from, w.req.Owner, addrs)
		return Assignment{}, answered
	}
	return a.commit(w, cur, pl).assignment(), nil
}

// answer checks what a source gave against everything that may have changed
// while it was asked.
func (a *Allocator) answer(w *wish, cur *holding, from *pool, addrs []netip.Addr) (placement, error) {
	if err := checkAddrs(addrs); err != nil {
		return placement{}, err
	}
	for _, addr := range addrs {
		if !w.wants(FamilyOf(addr)) {
			return placement{}, fmt.Errorf("%w: %s is of a family that is not wanted", ErrFamily, addr)
		}
	}
	if len(addrs) == 0 || len(addrs) < w.n && !w.partial() {
		return placement{}, fmt.Errorf("%w: %d of %d addresses", ErrFamily, len(addrs), w.n)
	}
	if wish := w.req.Addresses; len(wish) > 0 && !sameAddrs(addrs, wish) {
		return placement{}, fmt.Errorf("%w: %v is wanted", ErrNotInPool, wish)
	}
	p, err := a.table.home(addrs, from.Name)
	switch {
	case err != nil:
		return placement{}, err
	case p.Name != from.Name || p.Source == nil:
		return placement{}, fmt.Errorf("%w: it is in pool %q", ErrNotInPool, p.Name)
	}
	for _, addr := range addrs {
		t := a.held[FamilyOf(addr).index()][number(addr)]
		if t.alone != nil && t.alone != cur || t.slot != nil && !t.slot.onlyHas(cur) {
			return placement{}, &ConflictError{Addr: addr, Holder: t.firstOther(cur), Reason: ReasonBusy}
		}
	}
	pl := placementOf(p, addrs...)
	w.room = a.room(w.req.Namespace)
	return pl, a.withinLimit(w, cur, pl)
}

// debt is what a source has to get back.
type debt struct {
	pool   string
	source Source
	owner  Owner
	addrs  []netip.Addr
}

func (a *Allocator) owe(p *pool, o Owner, addrs []netip.Addr) {
	if len(addrs) > 0 {
		a.debts = append(a.debts, debt{p.Name, p.Source, o, slices.Clone(addrs)})
	}
}

// forgive strikes what h holds (again) from the debts.
func (a *Allocator) forgive(h *holding) {
	for i := range a.debts {
		if d := &a.debts[i]; d.owner == h.owner && d.pool == h.pool.Name {
			d.addrs = slices.DeleteFunc(d.addrs, func(addr netip.Addr) bool { return slices.Contains(h.list(), addr) })
		}
	}
	a.debts = slices.DeleteFunc(a.debts, func(d debt) bool { return len(d.addrs) == 0 })
}

// Settle gives back to their sources the addresses that nobody holds any more,
// whether they were released, moved away from, displaced by SetPools, or
// refused. Call it after such changes, or from time to time; who has no pool
// with a Source need not. It blocks as the sources do. What a source does not
// take is tried again with the next call, and joined in the error.
func (a *Allocator) Settle(ctx context.Context) error {
	a.mu.Lock()
	var owners []Owner
	for _, d := range a.debts {
		if !slices.Contains(owners, d.owner) {
			owners = append(owners, d.owner)
		}
	}
	a.mu.Unlock()
	var errs []error
	for _, o := range owners {
		errs = append(errs, a.settleOwner(ctx, o))
	}
	return errors.Join(errs...)
}

func (a *Allocator) settleOwner(ctx context.Context, o Owner) error {
	if err := a.begin(ctx, o); err != nil {
		return fmt.Errorf("settle %s: %w", o, err)
	}
	defer a.end(o)
	a.mu.Lock()
	var mine []debt
	a.debts = slices.DeleteFunc(a.debts, func(d debt) bool {
		if d.owner != o {
			return false
		}
		mine = append(mine, d)
		return true
	})
	a.mu.Unlock()
	var errs []error
	for _, d := range mine {
		if err := d.source.Release(ctx, o, slices.Clone(d.addrs)); err != nil {
			errs = append(errs, fmt.Errorf("settle %s: give %v back to the source of pool %q: %w", o, d.addrs, d.pool, err))
			a.mu.Lock()
			a.debts = append(a.debts, d)
			a.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// begin waits until no other call talks to sources for the owner.
func (a *Allocator) begin(ctx context.Context, o Owner) error {
	for {
		a.mu.Lock()
		busy := a.talks[o]
		if busy == nil {
			a.talks[o] = make(chan struct{})
			a.mu.Unlock()
			return nil
		}
		a.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *Allocator) end(o Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.talks[o])
	delete(a.talks, o)
}
