package bfd

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A world is two state machines and the wire between them. Time goes from event
// to event, so that every instant is looked at and none twice.
type world struct {
	now   time.Time
	s     [2]*session
	wire  []flight
	rand  *rand.Rand
	loss  [2]int // percent, by who sends
	delay time.Duration
	watch func()
}

type flight struct {
	at time.Time
	to int
	p  Packet
}

func newWorld(t *rapid.T) *world {
	w := &world{now: start(), watch: func() {}}
	w.rand = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	passive := rapid.IntRange(0, 2).Draw(t, "passive") // the second is nobody
	for i := range w.s {
		p := drawPeer(t)
		p.Passive = passive == i
		w.s[i] = newSession(w.now, p, uint32(i+1), w.rand)
	}
	return w
}

// drawPeer draws parameters of a session.
func drawPeer(t *rapid.T) Peer {
	interval := rapid.Map(rapid.IntRange(10, 1500), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond })
	return Peer{
		Transmit:   interval.Draw(t, "transmit"),
		Receive:    interval.Draw(t, "receive"),
		Multiplier: rapid.IntRange(1, 5).Draw(t, "multiplier"),
	}
}

func (w *world) configure(i int, p Peer) {
	p.Passive = w.s[i].peer.Passive
	w.s[i].configure(w.now, p)
}

// run lets time go by.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for {
		w.settle()
		next := end
		for _, s := range w.s {
			next = earlier(next, earlier(s.nextSend(), s.expiry()))
		}
		if len(w.wire) > 0 {
			next = earlier(next, w.wire[0].at)
		}
		if !next.Before(end) {
			w.now = end
			return
		}
		w.now = next
	}
}

// settle does all that is due now. The wire keeps the order of packets.
func (w *world) settle() {
	for busy := true; busy; {
		busy = false
		for len(w.wire) > 0 && !w.wire[0].at.After(w.now) {
			f := w.wire[0]
			w.wire = w.wire[1:]
			if f.p.YourDiscriminator == 0 || f.p.YourDiscriminator == w.s[f.to].local {
				w.s[f.to].receive(w.now, f.p)
			}
			w.watch()
		}
		for i, s := range w.s {
			s.expire(w.now)
			w.watch()
			for p, ok := s.emit(w.now); ok; p, ok = s.emit(w.now) {
				busy = true
				if w.rand.IntN(100) >= w.loss[i] {
					at := w.now.Add(w.delay)
					if n := len(w.wire); n > 0 && w.wire[n-1].at.After(at) {
						at = w.wire[n-1].at
					}
					w.wire = append(w.wire, flight{at, 1 - i, p})
				}
			}
		}
	}
}

func (w *world) bothUp() bool { return w.s[0].state == Up && w.s[1].state == Up }

func (w *world) String() string {
	text := w.now.Sub(start()).String()
	for _, s := range w.s {
		text += fmt.Sprintf("\n%v, remote %v, tx %v, detect %v, polling %v, ups %d, downs %d, diag %v",
			s.state, s.remoteState, s.transmission(), s.detection(), s.polling, s.ups, s.downs, s.diag)
	}
	return text
}

// One system may take the session for up while the other does not, but not for
// longer than the first needs to notice silence plus, while they begin, the time
// that the other waits for a third packet. And they find back when they can.
func TestPairAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		var since time.Time // of the disagreement
		var detect [2]time.Duration
		w.watch = func() {
			if (w.s[0].state == Up) == (w.s[1].state == Up) {
				since, detect = time.Time{}, [2]time.Duration{}
				return
			}
			if since.IsZero() {
				since = w.now
			}
			for i, s := range w.s {
				detect[i] = max(detect[i], s.detection())
			}
			if d := w.now.Sub(since); d > detect[0]+detect[1]+100*time.Millisecond {
				t.Fatalf("they disagree since %v: %v", d, w)
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			percent := rapid.SampledFrom([]int{0, 0, 10, 50, 90, 100})
			w.loss = [2]int{percent.Draw(t, "loss"), percent.Draw(t, "loss back")}
			w.delay = time.Duration(rapid.IntRange(0, 50).Draw(t, "delay")) * time.Millisecond
			if i := rapid.IntRange(0, 3).Draw(t, "who changes"); i < 2 {
				w.configure(i, drawPeer(t))
			}
			w.run(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
		}
		w.loss, w.delay = [2]int{}, 0
		w.run(time.Minute)
		if !w.bothUp() {
			t.Fatalf("not up on a good network: %v", w)
		}
		downs := w.s[0].downs + w.s[1].downs
		w.run(time.Minute)
		if !w.bothUp() || downs != w.s[0].downs+w.s[1].downs {
			t.Fatalf("unstable on a good network: %v", w)
		}
	})
}

// Parameters may change at any moment, also while polls are under way, and a
// session on a good network does not notice, whatever the distance.
func TestPairSurvivesChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.delay = time.Duration(rapid.IntRange(0, 200).Draw(t, "delay")) * time.Millisecond
		w.run(time.Minute)
		if !w.bothUp() {
			t.Fatalf("not up: %v", w)
		}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			w.configure(rapid.IntRange(0, 1).Draw(t, "who"), drawPeer(t))
			w.run(time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * time.Millisecond)
			if !w.bothUp() {
				t.Fatalf("went down: %v", w)
			}
		}
		w.run(time.Minute)
		for i, s := range w.s {
			other := w.s[1-i]
			if s.polling || s.downs != 0 {
				t.Fatalf("%d does not come to rest: %v", i, w)
			}
			if got, want := s.transmission(), max(s.peer.Transmit, other.peer.Receive); got != want {
				t.Fatalf("%d sends every %v, want %v", i, got, want)
			}
			if got, want := s.detection(), time.Duration(other.peer.Multiplier)*max(s.peer.Receive, other.peer.Transmit); got != want {
				t.Fatalf("%d detects in %v, want %v", i, got, want)
			}
		}
	})
}
