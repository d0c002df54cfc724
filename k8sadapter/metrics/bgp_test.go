package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/bgp"
)

func TestBGPNamesAndValues(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(BGP(func() []BGPSession {
		return []BGPSession{
			{Peer: "192.0.2.1:179", Session: bgp.Session{State: bgp.Established, Announced: 7, Pending: 2, Counters: bgp.Counters{
				Sent:     bgp.Messages{Open: 1, Update: 3, Notification: 4, Keepalive: 5, RouteRefresh: 6, Total: 19},
				Received: bgp.Messages{Open: 8, Update: 9, Keepalive: 10, Total: 27},
			}}},
			{Peer: "[2001:db8::1]:1179", VRF: "red", Session: bgp.Session{State: bgp.Opening}},
		}
	}))
	series := func(name, kind, help, value string, other string) string {
		name = "metallb_bgp_" + name
		return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" +
			name + `{peer="192.0.2.1:179",vrf=""} ` + value + "\n" + name + `{peer="[2001:db8::1]:1179",vrf="red"} ` + other + "\n"
	}
	want := series("session_up", "gauge", "1 if the session is established.", "1", "0") +
		series("announced_prefixes_total", "gauge", "Number of prefixes that the peer has been told.", "7", "0") +
		series("pending_prefixes_total", "gauge", "Number of changes that wait for the peer.", "2", "0") +
		series("updates_total", "counter", "Number of UPDATE messages sent.", "3", "0") +
		series("updates_total_received", "counter", "Number of UPDATE messages received.", "9", "0") +
		series("opens_sent", "counter", "Number of OPEN messages sent.", "1", "0") +
		series("opens_received", "counter", "Number of OPEN messages received.", "8", "0") +
		series("notifications_sent", "counter", "Number of NOTIFICATION messages sent.", "4", "0") +
		series("keepalives_sent", "counter", "Number of KEEPALIVE messages sent.", "5", "0") +
		series("keepalives_received", "counter", "Number of KEEPALIVE messages received.", "10", "0") +
		series("route_refresh_sent", "counter", "Number of ROUTE-REFRESH messages sent.", "6", "0") +
		series("total_sent", "counter", "Number of messages sent.", "19", "0") +
		series("total_received", "counter", "Number of messages received.", "27", "0")
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want)))
}
