package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// figures summarise durations.
type figures struct {
	Median time.Duration
	P95    time.Duration
	Worst  time.Duration
}

// summarise returns the figures of at least one duration. The 95th percentile
// is by nearest rank: a value that was measured.
func summarise(durations []time.Duration) figures {
	sorted := slices.Sorted(slices.Values(durations))
	n := len(sorted)
	return figures{
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		P95:    sorted[int(math.Ceil(0.95*float64(n)))-1],
		Worst:  sorted[n-1],
	}
}

// MarshalJSON gives milliseconds.
func (f figures) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{
		"median": milliseconds(f.Median), "p95": milliseconds(f.P95), "worst": milliseconds(f.Worst),
	})
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Millisecond)*10) / 10
}

// report is the line of --json.
type report struct {
	Mode   faultMode `json:"mode"`
	Nodes  int       `json:"nodes"`
	Rounds int       `json:"rounds"`
	// Gap is the time from the fault to the first answer of another node,
	// Outage the longest time without any answer; milliseconds.
	Gap    figures `json:"gap_ms"`
	Outage figures `json:"outage_ms"`
	// Gaps and Outages are the single values in the order of the rounds.
	Gaps    []float64 `json:"gaps_ms"`
	Outages []float64 `json:"outages_ms"`
}

// newReport summarises at least one outcome.
func newReport(mode faultMode, nodes int, outcomes []outcome) report {
	r := report{Mode: mode, Nodes: nodes, Rounds: len(outcomes)}
	var gaps, outages []time.Duration
	for _, o := range outcomes {
		gaps, outages = append(gaps, o.gap), append(outages, o.outage)
		r.Gaps, r.Outages = append(r.Gaps, milliseconds(o.gap)), append(r.Outages, milliseconds(o.outage))
	}
	r.Gap, r.Outage = summarise(gaps), summarise(outages)
	return r
}

// measure repeats failovers, each from a settled state, of every address in
// turn, and prints the figures.
func (s *story) measure(ctx context.Context) error {
	var outcomes []outcome
	for round := range s.opts.failovers {
		target := s.views[round%len(s.views)]
		result, err := s.failover(ctx, target, s.opts.mode)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		outcomes = append(outcomes, result)
		s.out.step("round %d of %d: %s of %s, %s served by %s after %s; longest time without an answer %s",
			round+1, s.opts.failovers, s.opts.mode, result.victim, target.addr, result.by,
			seconds(result.gap), seconds(result.outage))
		if round == s.opts.failovers-1 && !s.opts.keep {
			break // the network is taken down anyway
		}
		if err := s.heal(s.node(result.victim), s.opts.mode); err != nil {
			return err
		}
		if s.views, err = s.settle(ctx, s.found, s.nodeNames()); err != nil {
			return fmt.Errorf("after round %d: %w", round+1, err)
		}
	}
	r := newReport(s.opts.mode, len(s.nodes), outcomes)
	s.out.table([][]string{
		{fmt.Sprintf("FAILOVER, %s, %d NODES, %d ROUNDS", r.Mode, r.Nodes, r.Rounds), "MEDIAN", "P95", "WORST"},
		{"from the fault to the first answer of another node", seconds(r.Gap.Median), seconds(r.Gap.P95), seconds(r.Gap.Worst)},
		{"longest time without any answer", seconds(r.Outage.Median), seconds(r.Outage.P95), seconds(r.Outage.Worst)},
	})
	if s.opts.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	return nil
}
