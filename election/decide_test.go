package election

import (
	"bytes"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDecide(t *testing.T) {
	v7 := netip.MustParseAddr("198.51.100.7") // natural order 02 03 05 01 04
	tests := []struct {
		name       string
		addr       netip.Addr
		candidates []Candidate
		want       []string
		excluded   map[string]Reason
	}{
		{
			name:       "weights, MetalLB's vector",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01", Weight: 10}, {Node: "kw-02", Weight: 40}, {Node: "kw-03"}, {Node: "kw-04"}, {Node: "kw-05", Weight: 40}},
			want:       kw(2, 5, 1, 3, 4),
		},
		{
			name:       "a weight beats the natural winner",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01", Weight: 80}, {Node: "kw-02"}},
			want:       kw(1, 2),
		},
		{
			name:       "the higher of two sums wins",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01", Weight: 75}, {Node: "kw-02", Weight: 45}, {Node: "kw-03"}},
			want:       kw(1, 2, 3),
		},
		{
			name:       "the same weight for all moves nothing",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01", Weight: 25}, {Node: "kw-02", Weight: 25}, {Node: "kw-03", Weight: 25}},
			want:       kw(2, 3, 1),
		},
		{
			name:       "negative weight goes last",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-02", Weight: -1}, {Node: "kw-03"}},
			want:       kw(3, 1, 2),
		},
		{
			name:       "an excluded node cannot win, whatever its weight",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01", Weight: 80, Reason: NoLocalEndpoints}, {Node: "kw-02"}},
			want:       kw(2),
			excluded:   map[string]Reason{"kw-01": NoLocalEndpoints},
		},
		{
			name:       "natural winner carries the exclude label",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-02", Reason: NodeLabeledExcludeBalancers}},
			want:       kw(1),
			excluded:   map[string]Reason{"kw-02": NodeLabeledExcludeBalancers},
		},
		{
			name:       "nobody left",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01", Reason: NodeNetworkUnavailable}, {Node: "kw-02", Reason: LinkDown}},
			excluded:   map[string]Reason{"kw-01": NodeNetworkUnavailable, "kw-02": LinkDown},
		},
		{name: "no candidates", addr: v7},
		{
			name: "a node given twice: any reason excludes, the least is reported",
			addr: v7,
			candidates: []Candidate{
				{Node: "kw-01", Reason: NotMember},
				{Node: "kw-01"},
				{Node: "kw-01", Reason: LinkDown},
				{Node: "kw-03"},
				{Node: "kw-02"},
			},
			want:     kw(2, 3),
			excluded: map[string]Reason{"kw-01": LinkDown},
		},
		{
			name:       "a node given twice: the highest weight counts",
			addr:       v7,
			candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-02"}, {Node: "kw-01", Weight: 5}, {Node: "kw-01", Weight: 1}},
			want:       kw(1, 2),
		},
		{
			name:       "a candidate without a name is ignored",
			addr:       v7,
			candidates: []Candidate{{Weight: 100}, {Reason: LinkDown}, {Node: "kw-01"}},
			want:       kw(1),
		},
		{
			name:       "no address",
			candidates: []Candidate{{Node: "kw-01"}, {Node: "kw-02", Reason: NoEndpoints}},
			excluded:   map[string]Reason{"kw-01": InvalidIP, "kw-02": NoEndpoints},
		},
		{
			name:       "an address with a zone",
			addr:       netip.MustParseAddr("fe80::7%eth0"),
			candidates: []Candidate{{Node: "kw-01"}},
			excluded:   map[string]Reason{"kw-01": InvalidIP},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.addr, tt.candidates)
			assert.Equal(t, tt.addr, d.Addr)
			require.NotNil(t, d.Excluded)
			if len(tt.want) == 0 {
				assert.Empty(t, d.Candidates)
				assert.Empty(t, d.Winner)
			} else {
				assert.Equal(t, tt.want, d.Candidates)
				assert.Equal(t, tt.want[0], d.Winner)
			}
			if len(tt.excluded) == 0 {
				assert.Empty(t, d.Excluded)
			} else {
				assert.Equal(t, tt.excluded, d.Excluded)
			}
		})
	}
}

func TestDecisionReason(t *testing.T) {
	d := Decide(netip.MustParseAddr("198.51.100.7"), []Candidate{
		{Node: "kw-01"}, {Node: "kw-02"}, {Node: "kw-03", Reason: NotEligible},
	})
	assert.Equal(t, Reason(""), d.Reason("kw-02"))
	assert.Equal(t, NotOwner, d.Reason("kw-01"))
	assert.Equal(t, NotEligible, d.Reason("kw-03"))
	assert.Equal(t, NodeUnknown, d.Reason("kw-04"))
	assert.Equal(t, NodeUnknown, Decision{}.Reason(""), "nobody is not a winner")
}

func TestDecisionLogValue(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	log.Info("elected", "decision", Decide(netip.MustParseAddr("198.51.100.7"), []Candidate{{Node: "kw-01"}, {Node: "kw-02", Reason: LinkDown}}))
	assert.Contains(t, out.String(), "decision.addr=198.51.100.7 decision.winner=kw-01 decision.candidates=1 decision.excluded=1")
}

func TestPropertyDecide(t *testing.T) {
	reasons := rapid.SampledFrom([]Reason{"", "", NotMember, LinkDown})
	rapid.Check(t, func(t *rapid.T) {
		addr, nodes := drawAddr(t), drawNodes(t)
		candidates := make([]Candidate, len(nodes))
		weights := make(map[string]int)
		var eligible []string
		for i, node := range nodes {
			candidates[i] = Candidate{Node: node, Weight: rapid.IntRange(0, 3).Draw(t, "weight"), Reason: reasons.Draw(t, "reason")}
			weights[node] = candidates[i].Weight
			if candidates[i].Reason == "" {
				eligible = append(eligible, node)
			}
		}
		d := Decide(addr, candidates)
		require.Equal(t, d, Decide(addr, rapid.Permutation(candidates).Draw(t, "mixed")), "the order of the input does not matter")
		require.Len(t, nodes, len(d.Candidates)+len(d.Excluded), "every node is either a candidate or excluded")
		require.ElementsMatch(t, eligible, d.Candidates)

		winners := 0
		for _, node := range nodes {
			if d.Reason(node) == "" {
				winners++
			}
		}
		require.Equal(t, min(len(eligible), 1), winners, "exactly one winner if there is a candidate")

		place := make(map[string]int)
		for i, node := range Rank(nil, addr, eligible) {
			place[node] = i
		}
		for i := 1; i < len(d.Candidates); i++ {
			a, b := d.Candidates[i-1], d.Candidates[i]
			require.True(t, weights[a] > weights[b] || weights[a] == weights[b] && place[a] < place[b], "%q before %q", a, b)
		}
	})
}
