package bgp_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/bgp"
)

func TestParseCommunity(t *testing.T) {
	for text, want := range map[string]bgp.Community{"64512:7": 64512<<16 | 7, "0:0": 0, "65535:65535": 1<<32 - 1, "1:02": 1<<16 | 2} {
		got, err := bgp.ParseCommunity(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "1", "70000:1", "1:70000", "a:1", "1:2:3", "-1:1", "+1:1", "1: 2", "large:1:2:3"} {
		_, err := bgp.ParseCommunity(text)
		assert.ErrorIs(t, err, bgp.ErrInvalid, text)
	}
	got, err := bgp.ParseLargeCommunity("large:4200000000:1:2")
	require.NoError(t, err)
	assert.Equal(t, bgp.LargeCommunity{Global: 4200000000, Local1: 1, Local2: 2}, got)
	for _, text := range []string{"", "1:2:3", "large:1:2", "large:1:2:3:4", "large:1:x:3", "larg:1:2:3", "large:4294967296:1:2"} {
		_, err := bgp.ParseLargeCommunity(text)
		assert.ErrorIs(t, err, bgp.ErrInvalid, text)
	}
}

func TestCommunityRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := bgp.Community(rapid.Uint32().Draw(t, "c"))
		if got, err := bgp.ParseCommunity(c.String()); err != nil || got != c {
			t.Fatal(c, got, err)
		}
		l := bgp.LargeCommunity{Global: rapid.Uint32().Draw(t, "g"), Local1: rapid.Uint32().Draw(t, "1"), Local2: rapid.Uint32().Draw(t, "2")}
		if got, err := bgp.ParseLargeCommunity(l.String()); err != nil || got != l {
			t.Fatal(l, got, err)
		}
	})
}

func TestRouteValidate(t *testing.T) {
	tests := []struct {
		name  string
		route bgp.Route
		field string
	}{
		{"good", bgp.Route{Prefix: prefix("203.0.113.1/32")}, ""},
		{"host bits", bgp.Route{Prefix: prefix("203.0.113.1/24")}, ""},
		{"default", bgp.Route{Prefix: prefix("::/0")}, ""},
		{"none", bgp.Route{}, "Prefix"},
		{"mapped", bgp.Route{Prefix: prefix("::ffff:203.0.113.1/128")}, "Prefix"},
		{"multicast", bgp.Route{Prefix: prefix("224.0.0.0/24")}, "Prefix"},
		{"next hop", bgp.Route{Prefix: prefix("203.0.113.1/32"), NextHop: addr("192.0.2.1")}, ""},
		{"IPv6 next hop", bgp.Route{Prefix: prefix("203.0.113.1/32"), NextHop: addr("2001:db8::1")}, ""},
		{"IPv4 next hop of IPv6", bgp.Route{Prefix: prefix("2001:db8::/64"), NextHop: addr("192.0.2.1")}, "NextHop"},
		{"no next hop", bgp.Route{Prefix: prefix("203.0.113.1/32"), NextHop: addr("0.0.0.0")}, "NextHop"},
		{"loopback", bgp.Route{Prefix: prefix("203.0.113.1/32"), NextHop: addr("127.0.0.1")}, "NextHop"},
		{"prepend", bgp.Route{Prefix: prefix("203.0.113.1/32"), Prepend: 33}, "Prepend"},
		{"room", bgp.Route{Prefix: prefix("203.0.113.1/32"), Communities: make([]bgp.Community, 512)}, ""},
		{"no room", bgp.Route{Prefix: prefix("203.0.113.1/32"), Communities: make([]bgp.Community, 501), LargeCommunities: make([]bgp.LargeCommunity, 4)}, "Communities"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.route.Validate()
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var fault *bgp.RouteError
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, tt.field, fault.Field)
			assert.ErrorIs(t, err, bgp.ErrInvalid)
		})
	}
}

func TestNormalize(t *testing.T) {
	r := bgp.Route{
		Prefix: prefix("203.0.113.77/24"), NextHop: addr("fe80::1%eth0"), Peers: []string{"b", "a", "b"}, Communities: []bgp.Community{2, 1, 2},
		LargeCommunities: []bgp.LargeCommunity{{Global: 2}, {Global: 1, Local1: 1}, {Global: 1}, {Global: 2}},
	}
	n := r.Normalize()
	assert.Equal(t, bgp.Route{
		Prefix: prefix("203.0.113.0/24"), NextHop: addr("fe80::1"), Peers: []string{"a", "b"}, Communities: []bgp.Community{1, 2},
		LargeCommunities: []bgp.LargeCommunity{{Global: 1}, {Global: 1, Local1: 1}, {Global: 2}},
	}, n)
	assert.Equal(t, []bgp.Community{2, 1, 2}, r.Communities, "the argument was changed")
	assert.True(t, n.Equal(new(n.Normalize())))
}

// drawRoute makes routes that are likely to meet.
func drawRoute(t *rapid.T, label string) bgp.Route {
	number := func(name string) *uint32 {
		return rapid.OneOf(rapid.Just[*uint32](nil), rapid.Ptr(rapid.Uint32Range(0, 3), false)).Draw(t, label+name)
	}
	r := bgp.Route{
		Prefix:    netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, rapid.Byte().Draw(t, label+"host")}), rapid.SampledFrom([]int{24, 31, 32}).Draw(t, label+"bits")),
		LocalPref: number("pref"), MED: number("med"), Prepend: rapid.Uint8Range(0, 2).Draw(t, label+"prepend"),
		Peers: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(t, label+"peers"),
	}
	for range rapid.IntRange(0, 3).Draw(t, label+"n") {
		r.Communities = append(r.Communities, bgp.Community(rapid.Uint32Range(0, 3).Draw(t, label+"c")))
		r.LargeCommunities = append(r.LargeCommunities, bgp.LargeCommunity{Local1: rapid.Uint32Range(0, 3).Draw(t, label+"l")})
	}
	if rapid.Bool().Draw(t, label+"hop") {
		r.NextHop = netip.AddrFrom4([4]byte{192, 0, 2, rapid.ByteRange(1, 3).Draw(t, label+"hop")})
	}
	return r
}

// TestMergeIsASet: the order does not matter, nor does repetition, and merging
// what was merged adds nothing.
func TestMergeIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var routes []bgp.Route
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			r := drawRoute(t, "r")
			r.Prefix = prefix("203.0.113.0/24")
			routes = append(routes, r.Normalize())
		}
		want, ok := bgp.Merge("a", routes)
		shuffled := slices.Concat(routes, routes)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got, gotOK := bgp.Merge("a", append(shuffled, want))
		if !ok {
			got, gotOK = bgp.Merge("a", shuffled)
		}
		if gotOK != ok || !got.Equal(&want) {
			t.Fatalf("%+v and %+v", want, got)
		}
		for _, r := range routes {
			if !r.Selects("a") {
				continue
			}
			for _, c := range r.Communities {
				if !slices.Contains(want.Communities, c) {
					t.Fatalf("community %s is lost", c)
				}
			}
			if r.LocalPref != nil && *want.LocalPref < *r.LocalPref || r.MED != nil && *want.MED > *r.MED || want.Prepend > r.Prepend {
				t.Fatalf("not the most preferred: %+v of %+v", want, r)
			}
		}
	})
}
