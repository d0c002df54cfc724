package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decoded is a file as it would be read.
func decoded(file, data string) *fileState {
	docs, faults := decodeFile(file, []byte(data), DefaultNamespace)
	return &fileState{rel: file, docs: docs, faults: faults, empty: data == ""}
}

func nodeManifest(names ...string) string {
	text := ""
	for _, name := range names {
		text += lines("apiVersion: v1", "kind: Node", "metadata: {name: "+name+"}", "---")
	}
	return text
}

// nodesOf renders the nodes in force: where they come from, and whether they
// are only kept.
func nodesOf(m merged) []string {
	var got []string
	for _, k := range slices.SortedFunc(maps.Keys(m.entries), compareKeys) {
		if e := m.entries[k]; k.kind == Nodes {
			text := fmt.Sprintf("%s %s", k.name, e.file)
			if e.kept {
				text += " kept"
			}
			got = append(got, text)
		}
	}
	return got
}

func TestMergeKeepsWhatIsNotDeleted(t *testing.T) {
	before := merge([]*fileState{
		decoded("a.yaml", nodeManifest("a1", "a2")),
		decoded("d/b.yaml", nodeManifest("b1")),
	}, nil, nil, DefaultNamespace)
	require.Equal(t, []string{"a1 a.yaml", "a2 a.yaml", "b1 d/b.yaml"}, nodesOf(before))
	require.True(t, before.complete)

	badB1 := lines("apiVersion: v1", "kind: Node", "metadata: {name: b1}", "spec: 1")
	tests := []struct {
		name       string
		files      []*fileState
		unreadable map[string]error
		want       []string
		complete   bool
	}{
		{
			"deleted is deleted",
			[]*fileState{decoded("a.yaml", nodeManifest("a2"))},
			nil,
			[]string{"a2 a.yaml"},
			true,
		},
		{
			"a directory that cannot be read",
			[]*fileState{decoded("a.yaml", nodeManifest("a1"))},
			map[string]error{"d": errors.New("no permission")},
			[]string{"a1 a.yaml", "b1 d/b.yaml kept"},
			false,
		},
		{
			"a file that cannot be read",
			[]*fileState{decoded("a.yaml", nodeManifest("a1")), {rel: "d/b.yaml", err: errors.New("input/output error")}},
			nil,
			[]string{"a1 a.yaml", "b1 d/b.yaml kept"},
			false,
		},
		{
			"a good version elsewhere beats the kept one",
			[]*fileState{decoded("a.yaml", "a: b: c"), decoded("z.yaml", nodeManifest("a2"))},
			nil,
			[]string{"a1 a.yaml kept", "a2 z.yaml"},
			false,
		},
		{
			"a broken file is not taken in parts",
			[]*fileState{decoded("a.yaml", nodeManifest("a1", "a9")+"a: b: c\n")},
			nil,
			[]string{"a1 a.yaml kept", "a2 a.yaml kept"},
			false,
		},
		{
			"a rejected document that says who it is",
			[]*fileState{decoded("a.yaml", nodeManifest("a1")+badB1)},
			nil,
			[]string{"a1 a.yaml", "b1 a.yaml kept"},
			true,
		},
		{
			"a rejected document that may be any of its file",
			[]*fileState{decoded("a.yaml", nodeManifest("a1")+lines("apiVersion: v1", "kind: Node", "metadata: {}"))},
			nil,
			[]string{"a1 a.yaml", "a2 a.yaml kept"},
			false,
		},
		{
			"a file of comments is empty on purpose",
			[]*fileState{decoded("a.yaml", "# nothing\n")},
			nil, nil, true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after := merge(tt.files, tt.unreadable, before.entries, DefaultNamespace)
			assert.Equal(t, tt.want, nodesOf(after))
			assert.Equal(t, tt.complete, after.complete)
			again := merge(tt.files, tt.unreadable, after.entries, DefaultNamespace)
			assert.Equal(t, tt.want, nodesOf(again), "the same input again changes nothing")
		})
	}
}
