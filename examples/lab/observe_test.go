package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/internal/labnet"
)

func TestParseAnnounced(t *testing.T) {
	metrics := strings.Join([]string{
		`# TYPE metallb_speaker_announced gauge`,
		`metallb_speaker_announced{ip="192.0.2.200",node="node-1",protocol="layer2",service="demo/web"} 1`,
		`metallb_speaker_announced{ip="192.0.2.201",node="node-1",protocol="layer2",service="demo/web"} 0`,
		`metallb_speaker_announced{service="demo/api",ip="2001:db8:77::200:0",node="node-1"} 1`,
		`metallb_layer2_requests_received{ip="192.0.2.203"} 1`,
		``,
	}, "\n")
	assert.Equal(t, []netip.Addr{
		netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8:77::200:0"),
	}, parseAnnounced(metrics))
	assert.Empty(t, parseAnnounced(""))
}

func TestViewCheck(t *testing.T) {
	agreed := func() view {
		return view{
			service: "demo/web", addr: netip.MustParseAddr("192.0.2.200"),
			order: []string{"node-2", "node-1"}, announcer: []string{"node-2"}, holder: "node-2",
			neighbour: labnet.Neighbour{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}},
			page:      labnet.Answer{Node: "node-2"},
		}
	}
	require.NoError(t, agreed().check())
	tests := []struct {
		name   string
		change func(*view)
		want   string
	}{
		{"nobody announces", func(v *view) { v.announcer = nil }, "elected is node-2, but announced by nobody"},
		{"two announce", func(v *view) { v.announcer = []string{"node-1", "node-2"} }, "announced by node-1 and node-2"},
		{"the wrong one announces", func(v *view) { v.announcer = []string{"node-1"} }, "announced by node-1"},
		{"stale neighbour", func(v *view) { v.holder = "node-1" }, "neighbour cache"},
		{"page from elsewhere", func(v *view) { v.page.Node = "node-1" }, "the page came from node-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := agreed()
			tt.change(&v)
			require.ErrorContains(t, v.check(), tt.want)
		})
	}
}

func TestUntil(t *testing.T) {
	notYet := errors.New("not yet")
	t.Run("becomes true", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			require.NoError(t, until(t.Context(), time.Minute, func(context.Context) error {
				if calls++; calls < 4 {
					return notYet
				}
				return nil
			}))
			assert.Equal(t, 4, calls)
		})
	})
	t.Run("never", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := until(t.Context(), time.Second, func(context.Context) error { return notYet })
			require.ErrorIs(t, err, notYet)
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
	t.Run("says what it waited for, not that it was cut short", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := until(t.Context(), time.Second, func(ctx context.Context) error {
				if calls++; calls == 1 {
					return notYet
				}
				<-ctx.Done()
				return ctx.Err()
			})
			require.ErrorIs(t, err, notYet)
		})
	})
	t.Run("a daemon died", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := until(ctx, time.Minute, func(context.Context) error {
				cancel(errDied)
				return notYet
			})
			require.ErrorIs(t, err, errDied)
		})
	})
}
