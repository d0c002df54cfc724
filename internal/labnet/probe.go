package labnet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Answer is what a web server answered to one request.
type Answer struct {
	// Node is the node that answered; empty when no backend did.
	Node string
	// Status is the status line, such as "200 OK".
	Status string
	// Page is the body without the newline at its end.
	Page string
}

// Fetch gets http://target/path from the host over a new connection; path
// begins with a slash. Nothing is retried; ctx bounds the whole of it.
func (h *Host) Fetch(ctx context.Context, target netip.AddrPort, path string) (Answer, error) {
	conn, err := h.space.DialContext(ctx, "tcp", target.String())
	if err != nil {
		return Answer{}, fmt.Errorf("labnet: fetch: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	url := "http://" + target.String() + path
	answer, err := exchange(ctx, conn, url)
	if err != nil {
		return Answer{}, fmt.Errorf("labnet: fetch %s: %w", url, err)
	}
	return answer, nil
}

// exchange sends one request over conn and reads the answer.
func exchange(ctx context.Context, conn net.Conn, url string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return Answer{}, err
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return Answer{}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return Answer{}, err
	}
	return Answer{
		Node:   resp.Header.Get(ServedBy),
		Status: resp.Status,
		Page:   strings.TrimRight(string(body), "\n"),
	}, nil
}

// Sample is the outcome of one request of a [Watch].
type Sample struct {
	Start, End time.Time
	// Node is the node that answered; empty when the request failed.
	Node string
}

// WatchConfig says how a [Watch] asks.
type WatchConfig struct {
	Target netip.AddrPort
	// Interval is the time between the starts of two requests; zero means 10 ms.
	Interval time.Duration
	// Timeout bounds one request; zero means 100 ms. Requests overlap when it
	// is longer than Interval, so an outage does not make the watch coarser.
	Timeout time.Duration
}

// Watch asks an address for a page again and again, each time over a new
// connection, and records every outcome. Its methods are safe for concurrent
// use.
type Watch struct {
	host *Host
	cfg  WatchConfig

	mu      sync.Mutex
	samples []Sample
	changed chan struct{} // closed and replaced at every sample
}

// NewWatch returns a watch of an address as seen from the host.
func (h *Host) NewWatch(cfg WatchConfig) *Watch {
	if cfg.Interval == 0 {
		cfg.Interval = 10 * time.Millisecond
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 100 * time.Millisecond
	}
	return &Watch{host: h, cfg: cfg, changed: make(chan struct{})}
}

// Run asks until ctx is done, and returns when the last request has ended.
func (w *Watch) Run(ctx context.Context) error {
	var requests sync.WaitGroup
	defer requests.Wait()
	ticker := time.NewTicker(w.cfg.Interval)
	defer ticker.Stop()
	for {
		requests.Go(func() { w.ask(ctx) })
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ask makes one request. One that was cut short by the end of the watch says
// nothing about the address and is not recorded.
func (w *Watch) ask(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	s := Sample{Start: time.Now()}
	answer, err := w.host.Fetch(limited, w.cfg.Target, "/")
	s.End = time.Now()
	if err == nil {
		s.Node = answer.Node
	} else if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
	close(w.changed)
	w.changed = make(chan struct{})
}

// Samples returns what was recorded so far, in the order in which the requests
// ended.
func (w *Watch) Samples() []Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.samples)
}

// Await waits until a recorded sample satisfies want and returns the first
// one that does.
func (w *Watch) Await(ctx context.Context, want func(Sample) bool) (Sample, error) {
	for next := 0; ; {
		w.mu.Lock()
		samples, changed := w.samples, w.changed
		w.mu.Unlock()
		for ; next < len(samples); next++ {
			if want(samples[next]) {
				return samples[next], nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Sample{}, fmt.Errorf("labnet: watch of %s, %d requests: %w", w.cfg.Target, next, ctx.Err())
		}
	}
}

// Outage returns the longest time without an answer that began or went on
// after since, and how many requests that started after since got none.
func Outage(samples []Sample, since time.Time) (longest time.Duration, lost int) {
	var last time.Time
	for _, s := range samples {
		if s.Node == "" {
			if !s.Start.Before(since) {
				lost++
			}
			continue
		}
		if !last.IsZero() && s.End.After(since) {
			longest = max(longest, s.End.Sub(last))
		}
		if s.End.After(last) {
			last = s.End
		}
	}
	return longest, lost
}
