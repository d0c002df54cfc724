package gobgp

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/bgp"
)

func drawRoutes(t *rapid.T) []bgp.Route {
	var routes []bgp.Route
	for range rapid.IntRange(0, 8).Draw(t, "n") {
		r := bgp.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, rapid.ByteRange(0, 5).Draw(t, "host")}), rapid.SampledFrom([]int{29, 32}).Draw(t, "bits"))}
		for range rapid.IntRange(0, 2).Draw(t, "communities") {
			r.Communities = append(r.Communities, bgp.Community(rapid.Uint32Range(0, 2).Draw(t, "community")))
		}
		if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
			r.Prepend = bgp.MaxPrepend + 1
		}
		routes = append(routes, r)
	}
	return routes
}

// oracle is routeTable as one would write it without minding the cost.
type oracle map[netip.Prefix][]bgp.Route

func (o oracle) replace(routes []bgp.Route) {
	next := make(oracle)
	bad := make(map[netip.Prefix]bool)
	for i := range routes {
		p := routes[i].Prefix.Masked()
		if routes[i].Validate() != nil {
			bad[p] = true
			continue
		}
		next[p] = append(next[p], routes[i].Normalize())
	}
	for p := range bad {
		delete(next, p)
		if o[p] != nil {
			next[p] = o[p]
		}
	}
	clear(o)
	maps.Copy(o, next)
}

// TestRouteTableMatchesOracle: the same content, and dirty is what changed.
func TestRouteTableMatchesOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, want := newRouteTable(), make(oracle)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			before := make(map[netip.Prefix][]bgp.Route)
			for p, en := range table.entries {
				before[p] = en.routes
			}
			routes := drawRoutes(t)
			if rapid.Bool().Draw(t, "again") { // mostly equal input
				routes = routes[:0]
				for _, list := range before {
					routes = append(routes, list...)
				}
				slices.SortStableFunc(routes, func(a, b bgp.Route) int { return a.Prefix.Compare(b.Prefix) })
			}
			dirty, _ := table.replace(routes)
			want.replace(routes)
			if len(table.entries) != len(want) {
				t.Fatalf("%d prefixes, want %d", len(table.entries), len(want))
			}
			for p, list := range want {
				if !equalRoutes(table.get(p), list) {
					t.Fatalf("%s: %+v, want %+v", p, table.get(p), list)
				}
			}
			changed := make(map[netip.Prefix]bool)
			for _, p := range dirty {
				changed[p] = true
			}
			for p := range before {
				changed[p] = changed[p] || false
			}
			for p, is := range changed {
				if is == equalRoutes(before[p], table.get(p)) {
					t.Fatalf("%s: dirty %t, before %+v, after %+v", p, is, before[p], table.get(p))
				}
			}
		}
	})
}

func TestRouteTableUpdate(t *testing.T) {
	table := newRouteTable()
	one := bgp.Route{Prefix: pfx("203.0.113.1/32")}
	net24 := bgp.Route{Prefix: pfx("203.0.113.9/24"), Communities: []bgp.Community{2, 1}}
	dirty, err := table.update([]bgp.Change{{Prefix: one.Prefix, Routes: []bgp.Route{one}}, {Prefix: pfx("203.0.113.0/24"), Routes: []bgp.Route{net24}}})
	require.NoError(t, err)
	require.Len(t, dirty, 2)
	dirty, err = table.replace([]bgp.Route{net24, one})
	require.NoError(t, err)
	require.Empty(t, dirty, "the same state")
	dirty, err = table.update([]bgp.Change{{Prefix: one.Prefix}, {Prefix: pfx("192.0.2.0/24")}})
	require.NoError(t, err)
	require.Equal(t, []netip.Prefix{one.Prefix}, dirty)
}

// TestInputIsNotKept: the caller may do with its slices what it wants.
func TestInputIsNotKept(t *testing.T) {
	table := newRouteTable()
	input := []bgp.Route{{Prefix: pfx("203.0.113.1/32"), Communities: []bgp.Community{1, 2}}}
	_, err := table.replace(input)
	require.NoError(t, err)
	input[0].Communities[0] = 9
	require.Equal(t, []bgp.Community{1, 2}, table.get(pfx("203.0.113.1/32"))[0].Communities)
	dirty, err := table.replace(input)
	require.NoError(t, err)
	require.Len(t, dirty, 1)
}

// TestEncoderShares: routes with equal attributes share them, others never do.
func TestEncoderShares(t *testing.T) {
	p := bgp.Peer{LocalASN: 64512, PeerASN: 64512}
	enc := newEncoder(&p)
	base := bgp.Route{Prefix: pfx("203.0.113.1/32")}
	hop := netip.MustParseAddr("192.0.2.1")
	first := enc.encode(&base, hop)
	other := base
	other.Prefix = pfx("203.0.113.2/32")
	assert.Same(t, first, enc.encode(&other, hop))
	seen := map[*attributes]string{first: "base"}
	for name, edit := range map[string]func(*bgp.Route){
		"pref 0":      func(r *bgp.Route) { r.LocalPref = new(uint32(0)) },
		"med 0":       func(r *bgp.Route) { r.MED = new(uint32(0)) },
		"prepend":     func(r *bgp.Route) { r.Prepend = 1 },
		"community":   func(r *bgp.Route) { r.Communities = []bgp.Community{1} },
		"communities": func(r *bgp.Route) { r.Communities = []bgp.Community{1, 2, 3} },
		"large":       func(r *bgp.Route) { r.LargeCommunities = []bgp.LargeCommunity{{Global: 1, Local1: 2, Local2: 3}} },
		"IPv6":        func(r *bgp.Route) { r.Prefix = pfx("2001:db8::/64") },
	} {
		r := base
		edit(&r)
		got := enc.encode(&r, hop)
		assert.Empty(t, seen[got], "%s shares with %s", name, seen[got])
		seen[got] = name
	}
	for i := range maxCached + 10 { // the cache is bounded
		r := base
		r.MED = new(uint32(i))
		enc.encode(&r, hop)
	}
	assert.LessOrEqual(t, len(enc.cache), maxCached)
}

func TestReasons(t *testing.T) {
	for text, want := range map[string]string{
		"read-failed":        "closed the connection",
		"hold-timer-expired": "hold time",
		"notification-received code 2(open message error) subcode 2(bad peer as)": "another AS number",
		"something-new": "something-new",
	} {
		assert.Contains(t, reasonOf(text), want)
	}
	assert.Contains(t, connectError(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), "password")
	assert.NotContains(t, connectError(errors.New("connection refused")), "password")
	assert.Equal(t, "<nil>", connectError(nil))
}

// TestBridgeWithoutSession: a server in the pool tells nobody anything.
func TestBridgeWithoutSession(t *testing.T) {
	freed := 0
	b := &bridge{freed: func() { freed++ }}
	for _, f := range []func(string, gobgplog.Fields){b.Debug, b.Info, b.Warn, b.Error, b.Fatal, b.Panic} {
		f("freed fsm.h", gobgplog.Fields{"Err": errors.New("x")})
		f("state changed", nil)
	}
	b.SetLevel(gobgplog.PanicLevel)
	assert.Equal(t, 1, freed)
	assert.Equal(t, gobgplog.DebugLevel, b.GetLevel())
}

func TestBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	release := make(chan struct{})
	err := bounded(ctx, "Hang", func(context.Context) error { <-release; return nil })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "Hang")
	close(release)
	canceled, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, bounded(canceled, "Wait", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Millisecond); return nil }), context.Canceled)
	require.ErrorIs(t, bounded(t.Context(), "Fail", func(context.Context) error { return os.ErrInvalid }), os.ErrInvalid)
}
