package membership

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func linkNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("bond%d.%d", i/100, i)
	}
	return names
}

// TestMetaGolden pins the format: other nodes run other versions of it.
func TestMetaGolden(t *testing.T) {
	tests := []struct {
		name string
		d    description
		want string
	}{
		{"nothing known of links", description{eligible: true}, "a701 01 0001 01"},
		{"ineligible", description{}, "a701 01 0001 00"},
		{"no link", description{eligible: true, links: newLinkSet([]string{})}, "a701 01 0001 01 02 0001 20"},
		// SHA-256("lo") begins with 9294ab38, SHA-256("eth0") with 9c32a8c7.
		{"two links", description{eligible: true, links: newLinkSet([]string{"lo", "eth0", "lo"})}, "a701 01 0001 01 02 0009 20 9294ab38 9c32a8c7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			meta := tt.d.encode()
			assert.Equal(t, strings.ReplaceAll(tt.want, " ", ""), hex.EncodeToString(meta))
			got, ok := decodeMeta(meta)
			require.True(t, ok)
			assert.True(t, tt.d.equal(got))
		})
	}
}

func TestDecodeMeta(t *testing.T) {
	tests := []struct {
		name, in string
		ok       bool
		eligible bool
		links    bool // says something about links
	}{
		{"empty", "", false, false, false},
		{"of somebody else", "7b7d", false, false, false},
		{"magic alone", "a7", false, false, false},
		{"newer version", "a702 01 0001 00", false, false, false},
		{"no field", "a701", true, true, false},
		{"unknown field before", "a701 7f 0002 beef 01 0001 00", true, false, false},
		{"unknown field behind", "a701 01 0001 00 80 0000", true, false, false},
		{"longer flags", "a701 01 0002 01ff", true, true, false},
		{"unknown flag", "a701 01 0001 fe", true, false, false},
		{"no flags octet", "a701 01 0000", false, false, false},
		{"half a header", "a701 01 00", false, false, false},
		{"value too short", "a701 01 0002 01", false, false, false},
		{"no links", "a701 02 0001 20", true, true, true},
		{"one link", "a701 02 0005 20 01020304", true, true, true},
		{"links without width", "a701 02 0000", false, false, false},
		{"links too narrow", "a701 02 0003 0b 0010", false, false, false},
		{"links too wide", "a701 02 0006 21 0000000001", false, false, false},
		{"links not ascending", "a701 02 0009 20 01020304 01020304", false, false, false},
		{"half a link", "a701 02 0003 20 0102", false, false, false},
		{"padding not zero", "a701 02 0003 0c 0011", false, false, false},
		{"padding zero", "a701 02 0003 0c 0010", true, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			meta, err := hex.DecodeString(strings.ReplaceAll(tt.in, " ", ""))
			require.NoError(t, err)
			d, ok := decodeMeta(meta)
			require.Equal(t, tt.ok, ok)
			assert.Equal(t, tt.eligible, d.eligible)
			assert.Equal(t, tt.links, d.links != nil)

			var m Member
			m.describe(meta)
			assert.Equal(t, tt.ok, m.Described)
			assert.Equal(t, !tt.ok || tt.eligible, m.Eligible, "who says nothing is eligible")
			assert.Equal(t, !tt.links, m.HasLink("eth0") && m.HasLink("eth1"), "and has every link")
		})
	}
}

func TestMetaFits(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 114, 115, 200, 300, 306} {
		names := linkNames(n)
		d := description{eligible: true, links: newLinkSet(names)}
		require.NotNil(t, d.links, "%d links", n)
		meta := d.encode()
		assert.LessOrEqual(t, len(meta), metaMax-32, "%d links, with room for fields to come", n)
		got, ok := decodeMeta(meta)
		require.True(t, ok)
		for _, name := range names {
			assert.True(t, got.links.has(name), "%d links: %s", n, name)
		}
	}
	assert.GreaterOrEqual(t, newLinkSet(linkNames(200)).bits, uint8(18))
	assert.Nil(t, newLinkSet(linkNames(307)), "more than fit: nothing is said")
	assert.Equal(t, uint8(32), newLinkSet(linkNames(100)).bits)
}

// TestWrongAboutLinks measures how often a link that is down is taken for one
// that is up.
func TestWrongAboutLinks(t *testing.T) {
	const asked = 100_000
	for _, tt := range []struct{ links, limit int }{{20, 2}, {100, 2}, {200, 200}} {
		set := newLinkSet(linkNames(tt.links))
		wrong := 0
		for i := range asked {
			if set.has(fmt.Sprintf("vlan%d", i)) {
				wrong++
			}
		}
		t.Logf("%d links: %d of %d", tt.links, wrong, asked)
		assert.LessOrEqual(t, wrong, tt.limit, "%d links", tt.links)
	}
}

func TestPropertyMeta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := description{eligible: rapid.Bool().Draw(t, "eligible")}
		names := rapid.SliceOfN(rapid.StringN(0, 15, 15), 0, 306).Draw(t, "names")
		if rapid.Bool().Draw(t, "links known") {
			d.links = newLinkSet(names)
		}
		meta := d.encode()
		require.LessOrEqual(t, len(meta), metaMax)
		got, ok := decodeMeta(meta)
		require.True(t, ok)
		require.True(t, d.equal(got))
		for _, name := range names {
			require.True(t, got.links.has(name))
		}
	})
}

// FuzzMeta: no input harms, and what is understood survives a round trip.
func FuzzMeta(f *testing.F) {
	for _, n := range []int{0, 1, 20, 200} {
		f.Add(description{eligible: true, links: newLinkSet(linkNames(n))}.encode())
	}
	f.Add(description{}.encode())
	f.Add([]byte("a MetalLB speaker sends nothing"))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		d, ok := decodeMeta(in)
		if !bytes.Equal(before, in) {
			t.Fatal("input changed")
		}
		if !ok {
			if d.eligible || d.links != nil {
				t.Fatal("a description of what was not understood")
			}
			return
		}
		again, ok := decodeMeta(d.encode())
		if !ok || !d.equal(again) {
			t.Fatalf("%+v became %+v", d, again)
		}
	})
}
