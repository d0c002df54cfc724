package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSummarise(t *testing.T) {
	twenty := make([]time.Duration, 20)
	for i := range twenty {
		twenty[i] = time.Duration(20-i) * time.Second
	}
	tests := []struct {
		name string
		in   []time.Duration
		want figures
	}{
		{"one", []time.Duration{3}, figures{3, 3, 3}},
		{"two", []time.Duration{4, 2}, figures{3, 4, 4}},
		{"three", []time.Duration{9, 1, 5}, figures{5, 9, 9}},
		{"twenty, unsorted", twenty, figures{10500 * time.Millisecond, 19 * time.Second, 20 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, summarise(tt.in))
		})
	}
	assert.Equal(t, 20*time.Second, twenty[0], "the input is not touched")
}

func TestReportJSON(t *testing.T) {
	r := newReport(modeLeave, 3, []outcome{
		{gap: 5310 * time.Millisecond, outage: 20 * time.Millisecond},
		{gap: 5510 * time.Millisecond, outage: 40 * time.Millisecond},
	})
	data, err := json.Marshal(r)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"mode": "leave", "nodes": 3, "rounds": 2,
		"gap_ms": {"median": 5410, "p95": 5510, "worst": 5510},
		"outage_ms": {"median": 30, "p95": 40, "worst": 40},
		"gaps_ms": [5310, 5510], "outages_ms": [20, 40]
	}`, string(data))
}

func TestConsole(t *testing.T) {
	var out strings.Builder
	c := newConsole(&out)
	c.step("node %d", 1)
	c.table([][]string{{"A", "LONG"}, {"wide cell", "x"}, {"ü", ""}})
	c.text("%s", c.bold("end"))
	assert.Regexp(t, `^\[  0\.\d\ds\] node 1\n`+
		"\n    A          LONG\n    wide cell  x\n    ü\n\nend\n$", out.String())
}

func TestSeconds(t *testing.T) {
	assert.Equal(t, "12 ms", seconds(12400*time.Microsecond))
	assert.Equal(t, "999 ms", seconds(999*time.Millisecond))
	assert.Equal(t, "5.31 s", seconds(5312*time.Millisecond))
}
