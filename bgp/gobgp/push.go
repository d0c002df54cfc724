package gobgp

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/heraldlb/herald/bgp"
)

// chunk is how many prefixes are looked at before the worker looks at the rest of
// the world again.
const chunk = 512

// routes is what a worker knows of the routes in its server.
type routes struct {
	enc      *encoder
	hops     nextHops
	held     map[netip.Prefix]*attributes // what the server has
	withheld map[netip.Prefix]string      // what it should have, and why it has not
	batch    []operation                  // reused

	announced, withdrawn uint64
	sent, received       bgp.Messages // of the present neighbour
}

func (r *routes) reset(p *bgp.Peer, hops nextHops) {
	r.clear()
	r.enc, r.hops = newEncoder(p), hops
}

func (r *routes) clear() {
	r.held = make(map[netip.Prefix]*attributes)
	r.withheld = make(map[netip.Prefix]string)
	r.sent, r.received = bgp.Messages{}, bgp.Messages{}
}

// rehop takes new next hops, and reports whether they are others.
func (r *routes) rehop(hops nextHops) bool {
	before := r.hops
	r.hops = hops
	return before != hops
}

// push brings the next chunk of prefixes in the server to what is wanted.
func (w *worker) push(ctx context.Context) (more bool, err error) {
	prefixes, all := w.next(chunk)
	if all {
		w.fill(w.everything())
		return true, nil
	}
	if len(prefixes) == 0 {
		return false, nil
	}
	w.batch = w.batch[:0]
	w.engine.mu.RLock()
	for _, p := range prefixes {
		w.decide(p, w.engine.routes.get(p))
	}
	w.engine.mu.RUnlock()
	if err := w.inst.apply(ctx, w.batch); err != nil {
		return false, err
	}
	for _, op := range w.batch {
		if op.remove {
			w.withdrawn++
		} else {
			w.announced++
		}
	}
	w.report("")
	return true, nil
}

// everything returns all prefixes that are wanted or were announced.
func (w *worker) everything() []netip.Prefix {
	w.engine.mu.RLock()
	defer w.engine.mu.RUnlock()
	all := slices.AppendSeq(make([]netip.Prefix, 0, len(w.engine.routes.entries)), maps.Keys(w.engine.routes.entries))
	for p := range w.held {
		if w.engine.routes.entries[p] == nil {
			all = append(all, p)
		}
	}
	return all
}

// decide adds to the batch what one prefix needs.
func (w *worker) decide(p netip.Prefix, routes []bgp.Route) {
	var want *attributes
	delete(w.withheld, p)
	r, ok := bgp.Merge(w.peer.Name, routes)
	if ok && w.proven && w.peer.EffectiveFamilies().Has(bgp.FamilyOf(p.Addr())) {
		if hop, why := w.hops.of(&r); hop.IsValid() {
			want = w.enc.encode(&r, hop)
		} else {
			w.withheld[p] = why
		}
	}
	has := w.held[p]
	switch {
	case want == has:
	case want == nil:
		delete(w.held, p)
		w.batch = append(w.batch, operation{prefix: p, attrs: has, remove: true})
	default:
		w.held[p] = want
		w.batch = append(w.batch, operation{prefix: p, attrs: want})
	}
}

// report puts what the worker knows into the status; an empty state is no news.
func (w *worker) report(state bgp.State) {
	why := ""
	for _, reason := range w.withheld {
		why = max(why, reason) // the same for whatever order
	}
	announced := 0
	if w.up {
		announced = len(w.held)
	}
	w.edit(func(s *bgp.Session) {
		if state != "" {
			s.State = state
		}
		s.Negotiated = w.negot
		s.Announced, s.Withheld, s.WithheldReason = announced, len(w.withheld), why
		s.Counters = w.counters()
	})
}
