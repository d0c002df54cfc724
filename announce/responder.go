package announce

import (
	"errors"
	"iter"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/arp"
)

// Sizes of batches: what a receive buffer of frames costs is batch times frame.
const (
	batchSize    = 64
	arpFrameSize = 128
	ndpFrameSize = 1536 // options may fill a solicitation up to the MTU
)

// A responder serves one protocol on one link over one socket: one goroutine
// reads questions and answers them, one sends what is queued.
type responder struct {
	a        *Announcer
	protocol Protocol
	link     string
	lane     *lane
	own      mac
	conn     Conn
	queue    *queue
	asks     chan ask

	filterMu sync.Mutex
	filtered []netip.Prefix // what the kernel lets through beside questions

	writeFailing, filterFailing sync.Once // warn once in the life of a socket

	closed chan struct{}
	wg     sync.WaitGroup
}

func startResponder(a *Announcer, l Link, ln *lane, p Protocol, conn Conn) *responder {
	r := &responder{
		a: a, protocol: p, link: l.Name, lane: ln, own: l.mac(), conn: conn,
		closed: make(chan struct{}), asks: make(chan ask, claimBuffer),
	}
	r.queue = newQueue(a.cfg.Interval, r.held)
	r.wg.Go(r.read)
	r.wg.Go(r.send)
	return r
}

// close ends both goroutines and waits for them.
func (r *responder) close() error {
	close(r.closed)
	err := r.conn.Close()
	r.wg.Wait()
	return err
}

// mine keeps the entries of this responder's family that its link announces.
func (r *responder) mine(entries iter.Seq[*entry]) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for e := range entries {
			if e.addr.Is4() == (r.protocol == ARP) && e.allows(r.link) && !yield(e) {
				return
			}
		}
	}
}

// read answers until the socket is closed. Neither a malformed frame nor an
// error ends it: a link that goes down fails one read, and may come back.
func (r *responder) read() {
	size := arpFrameSize
	if r.protocol == NDP {
		size = ndpFrameSize
	}
	frames := makeFrames(batchSize, size)
	out := answers{frames: make([][]byte, 0, batchSize), cells: make([]*cell, 0, batchSize), buf: makeFrames(batchSize, arpFrameSize)}
	failures := 0
	for {
		n, err := r.conn.ReadFrames(frames)
		r.answer(frames[:n], &out)
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		r.a.counters.read.Add(1)
		// Once is normal when a link goes down. What always fails must not burn a core.
		if failures = min(failures+1, 8); failures == 2 {
			r.a.log.Warn("cannot read from link, going on", "link", r.link, "protocol", r.protocol.String(), "err", err)
		}
		if !r.sleep(time.Millisecond << failures) {
			return
		}
	}
}

// answers is a batch of replies under construction.
type answers struct {
	frames [][]byte
	cells  []*cell
	buf    [][]byte
}

func (r *responder) answer(frames [][]byte, out *answers) {
	t := r.a.table.Load()
	out.frames, out.cells = out.frames[:0], out.cells[:0]
	reply := answerARP
	if r.protocol == NDP {
		reply = answerNDP
	}
	inquiries := *r.a.inquiries.Load()
	for _, frame := range frames {
		r.hear(frame, t, inquiries)
		i := len(out.frames)
		b, e, why := reply(out.buf[i][:0], frame, t, r.link, r.own)
		if e == nil {
			r.lane.drops[why].Add(1)
			continue
		}
		c := e.cell(r.lane.slot)
		c.requests.Add(1)
		if c.yielded.Load() {
			r.lane.drops[DropYielded].Add(1)
			continue
		}
		out.frames, out.cells = append(out.frames, b), append(out.cells, c)
	}
	if len(out.frames) == 0 {
		return
	}
	n, err := r.conn.WriteFrames(out.frames)
	for _, c := range out.cells[:n] {
		c.replies.Add(1)
	}
	if err != nil {
		r.writeError(err)
	}
}

// hear passes on what a frame says about who has an address, if the address is
// announced here or somebody inquires.
func (r *responder) hear(frame []byte, t *table, inquiries inquiries) {
	peek, claimant := peekARP, claimantARP
	if r.protocol == NDP {
		peek, claimant = peekNDP, claimantNDP
	}
	addr, kind := peek(frame)
	if kind == 0 {
		return
	}
	if len(inquiries) == 0 && !t.mayHold(addr) {
		return
	}
	e := t.lookup(addr)
	held := e != nil && e.allows(r.link)
	if !held && len(inquiries) == 0 {
		return
	}
	by, ok := claimant(frame, r.own)
	if !ok || r.a.own(by) {
		return
	}
	if kind != ClaimProbe {
		inquiries.tell(addr, r.link, by)
	}
	if held {
		r.a.claimed(e, claim{spot: spot{addr, r.lane}, by: by, kind: kind})
	}
}

// A claimFilter is a Conn that can keep what only claims an address from waking
// the reader. It lets through what claims an address in one of the prefixes. A Conn
// that is none lets everything through.
type claimFilter interface {
	LetClaims(of []netip.Prefix) error
}

// narrow keeps the filter to what is held or inquired at present.
func (r *responder) narrow() {
	conn, ok := r.conn.(claimFilter)
	if !ok {
		return
	}
	r.filterMu.Lock()
	defer r.filterMu.Unlock()
	of := slices.Concat(r.a.table.Load().prefixes(r.protocol), r.a.inquiries.Load().prefixes(r.protocol))
	if slices.Equal(of, r.filtered) {
		return
	}
	err := conn.LetClaims(of)
	switch {
	case err == nil:
		r.filtered = of
	case !errors.Is(err, net.ErrClosed):
		r.a.counters.filter.Add(1)
		r.filterFailing.Do(func() {
			r.a.log.Warn("cannot set filter, conflicts may go unnoticed", "link", r.link, "protocol", r.protocol.String(), "err", err)
		})
	}
}

// burst queues a new announcement of the entries that are this responder's. The
// caller holds Announcer.mu.
func (r *responder) burst(entries iter.Seq[*entry]) {
	now := int64(r.a.clock())
	r.queue.add(func(yield func(*entry) bool) {
		for e := range r.mine(entries) {
			e.cell(r.lane.slot).announced.Store(now)
			if !yield(e) {
				return
			}
		}
	}, r.a.cfg.Repeat)
}

// send announces what is queued until the responder is closed.
func (r *responder) send() {
	var (
		rounds = make([]round, 0, batchSize/2)
		frames = make([][]byte, 0, batchSize)
		buf    = makeFrames(batchSize, arpFrameSize)
		pace   = newPacer(r.a.cfg.Rate)
		timer  = time.NewTimer(0)
	)
	defer timer.Stop()
	for {
		r.writeProbes(buf)
		var wait time.Duration
		rounds, wait = r.queue.take(rounds[:0], cap(rounds), time.Now())
		if len(rounds) == 0 {
			var due <-chan time.Time
			if wait >= 0 {
				timer.Reset(wait)
				due = timer.C
			}
			select {
			case <-r.closed:
				return
			case <-r.queue.wake:
			case <-due:
			}
			continue
		}
		frames = frames[:0]
		for _, d := range rounds {
			frames = r.appendRound(frames, buf, d)
		}
		r.write(frames, rounds)
		now := time.Now()
		r.queue.done(rounds, now)
		if wait := pace.sent(len(frames), now); wait > 0 && !r.sleep(wait) {
			return
		}
	}
}

// held returns the present tenure of an address that this link announces and has
// not yielded.
func (r *responder) held(addr netip.Addr) *tenure {
	e := r.a.table.Load().lookup(addr)
	if e == nil || !e.allows(r.link) {
		return nil
	}
	if c := e.find(r.lane.slot); c != nil && c.yielded.Load() {
		return nil
	}
	return e.tenure
}

func (r *responder) appendRound(frames, buf [][]byte, d round) [][]byte {
	if r.protocol == NDP {
		return append(frames, appendUnsolicited(buf[len(frames)][:0], r.own, d.addr))
	}
	for _, op := range []arp.Operation{arp.OperationRequest, arp.OperationReply} {
		frames = append(frames, appendGratuitousARP(buf[len(frames)][:0], r.own, d.addr, op))
	}
	return frames
}

// write sends gratuitous frames, and waits a little where a queue is full.
func (r *responder) write(frames [][]byte, rounds []round) {
	perRound, sent := len(frames)/len(rounds), 0
	for try := 0; sent < len(frames); try++ {
		n, err := r.conn.WriteFrames(frames[sent:])
		for i := sent; i < sent+n; i++ {
			rounds[i/perRound].tenure.cell(r.lane.slot).gratuitous.Add(1)
		}
		sent += n
		if err == nil {
			continue
		}
		if !isQueueFull(err) || try >= 5 || !r.sleep(time.Millisecond) {
			r.writeError(err)
			return
		}
	}
}

func (r *responder) writeError(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	r.a.counters.write.Add(1)
	r.writeFailing.Do(func() {
		r.a.log.Warn("cannot write to link, going on", "link", r.link, "protocol", r.protocol.String(), "err", err)
	})
}

// sleep reports false if the responder is closed meanwhile.
func (r *responder) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.closed:
		return false
	case <-timer.C:
		return true
	}
}

func makeFrames(n, size int) [][]byte {
	all := make([]byte, n*size)
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = all[i*size : (i+1)*size : (i+1)*size]
	}
	return frames
}
