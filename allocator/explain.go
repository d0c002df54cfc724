package allocator

import (
	"errors"
	"fmt"
	"net/netip"
)

// Verdict is the answer of one pool to a request.
type Verdict struct {
	Pool   string
	Reason Reason
	// Family is the one that is full or missing, with those reasons.
	Family Family
	// Kept says, with ReasonFull, that there are addresses nobody holds, which
	// are reserved for others or rest in quarantine.
	Kept bool
	// Addrs are the addresses that Assign would give, with ReasonUsed.
	Addrs []netip.Addr
	// Err is the cause where a wanted address is in use or in no pool, where a
	// limit is reached (a *LimitError), and what a source answered.
	Err error
}

// String returns a sentence about the pool.
func (v Verdict) String() string { return fmt.Sprintf("pool %q: %s", v.Pool, v.text()) }

func (v Verdict) text() string {
	switch v.Reason {
	case ReasonUsed:
		return fmt.Sprintf("gives %v", v.Addrs)
	case ReasonOutranked:
		return "could serve, but another pool comes first"
	case ReasonFull:
		if v.Kept {
			return fmt.Sprintf("no free %v address, but some that are reserved or rest in quarantine", v.Family)
		}
		return fmt.Sprintf("no free %v address", v.Family)
	case ReasonMissingFamily:
		return fmt.Sprintf("no %v addresses", v.Family)
	case ReasonManual:
		return "only for requests that name the pool or an address in it"
	case ReasonScope:
		return "serves other namespaces or labels"
	case ReasonOpaque:
		return "no accepted version yet, gives nothing new"
	case ReasonNotNamed:
		return "another pool is requested"
	case ReasonDrained:
		return "is being drained, gives nothing new"
	case ReasonSource:
		if v.Err == nil {
			return "its source decides"
		}
		return v.Err.Error()
	case ReasonNotInPool, ReasonConflict, ReasonLimit:
		return v.Err.Error()
	default:
		return string(v.Reason)
	}
}

// Explain tells for every pool why Assign would or would not use it for the
// request now, in the order in which pools are tried. It changes nothing. A
// request that is wrong in itself gets no verdict: see the error of Assign.
func (a *Allocator) Explain(req Request) []Verdict {
	w, err := newWish(&req)
	if err != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep()
	cur := a.owners[req.Owner]
	pl, err := a.plan(&w, cur)
	if err != nil && cur != nil {
		a.remove(cur) // as plan did when it judged
		defer a.restore(cur)
	}
	w.room = a.room(req.Namespace)
	verdicts := make([]Verdict, 0, len(a.table.ordered)+1)
	for _, p := range a.table.ordered {
		switch {
		case err == nil && p == pl.pool:
			verdicts = append(verdicts, pl.verdict())
		case len(req.Addresses) > 0:
			verdicts = append(verdicts, a.judgeExplicit(&w, p, err))
		default:
			verdicts = append(verdicts, a.judge(&w, p))
		}
	}
	if err == nil && a.table.byName[pl.pool.Name] != pl.pool {
		verdicts = append(verdicts, pl.verdict()) // kept under a pool that was removed
	}
	return verdicts
}

// verdict is that of the pool of a placement.
func (pl placement) verdict() Verdict {
	if pl.unasked() {
		return Verdict{Pool: pl.pool.Name, Reason: ReasonSource}
	}
	h := holding{addrs: pl.addrs}
	return Verdict{Pool: pl.pool.Name, Reason: ReasonUsed, Addrs: h.list()}
}

// judgeExplicit says why p does not serve a request that names addresses and
// whose plan ended with err.
func (a *Allocator) judgeExplicit(w *wish, p *pool, err error) Verdict {
	v := Verdict{Pool: p.Name}
	in, inErr := a.table.containing(w.req.Addresses)
	switch {
	case w.req.Pool != "" && w.req.Pool != p.Name:
		v.Reason = ReasonNotNamed
	case in != p:
		if inErr == nil {
			inErr = fmt.Errorf("%w: %v is in pool %q", ErrNotInPool, w.req.Addresses, in.Name)
		}
		v.Reason, v.Err = ReasonNotInPool, inErr
	case errors.Is(err, ErrScope):
		v.Reason = ReasonScope
	case errors.Is(err, ErrDrained):
		v.Reason = ReasonDrained
	case errors.Is(err, ErrLimit):
		v.Reason, v.Err = ReasonLimit, err
	case errors.Is(err, ErrConflict):
		v.Reason, v.Err = ReasonConflict, err
	default:
		v.Reason, v.Err = ReasonNotInPool, err
	}
	return v
}

// judge says why p does not serve a request that names no addresses.
func (a *Allocator) judge(w *wish, p *pool) Verdict {
	v := Verdict{Pool: p.Name}
	switch {
	case w.req.Pool != "" && w.req.Pool != p.Name:
		v.Reason = ReasonNotNamed
	case p.Opaque:
		v.Reason = ReasonOpaque
	case !p.serves(w):
		v.Reason = ReasonScope
	case p.Drain:
		v.Reason = ReasonDrained
	case !p.givesTo(w):
		v.Reason = ReasonManual
	case p.Source != nil && w.refused[p.Name] != nil:
		v.Reason, v.Err = ReasonSource, w.refused[p.Name]
	case p.Source != nil:
		v.Reason = ReasonOutranked
	default:
		v.Reason, v.Family = w.lacking(p)
	}
	switch v.Reason {
	case ReasonOutranked:
		if !w.fits(p) {
			v.Reason, v.Err = ReasonLimit, a.limitError(w, p)
		}
	case ReasonFull:
		v.Kept = p.spaces[v.Family.index()].kept > 0
	default:
	}
	return v
}

// lacking says what p does not have for the request.
func (w *wish) lacking(p *pool) (Reason, Family) {
	var full, missing []Family
	for _, f := range w.families[:w.n] {
		switch {
		case !p.has(f):
			missing = append(missing, f)
		case !p.offers(f):
			full = append(full, f)
		}
	}
	lacks := len(full) + len(missing)
	switch {
	case lacks == 0, lacks < w.n && w.partial():
		return ReasonOutranked, 0
	case len(missing) > 0 && (len(full) == 0 || !w.partial()):
		return ReasonMissingFamily, missing[0]
	default:
		return ReasonFull, full[0]
	}
}

// unmet is the error for a request that no pool can serve.
func (a *Allocator) unmet(w *wish) error {
	e := &UnmetError{Err: ErrNoPool}
	e.Families = append(e.Families, w.families[:w.n]...)
	for _, p := range a.table.ordered {
		v := a.judge(w, p)
		if v.Reason == ReasonNotNamed {
			continue
		}
		e.Verdicts = append(e.Verdicts, v)
		switch {
		case errors.Is(e.Err, ErrLimit):
		case v.Reason == ReasonLimit:
			e.Err = v.Err
		case v.Reason == ReasonFull:
			e.Err = ErrExhausted
		case v.Reason == ReasonSource && !errors.Is(e.Err, ErrExhausted):
			e.Err = &SourceError{p.Name, v.Err}
		case v.Reason == ReasonMissingFamily && errors.Is(e.Err, ErrNoPool):
			e.Err = ErrFamily
		}
	}
	return e
}
