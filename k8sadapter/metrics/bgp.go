package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldlb/herald/bgp"
)

// BGPSession is one session of this node, under the labels of MetalLB's metrics.
type BGPSession struct {
	Peer    string // address and port of the peer, or the link of an unnumbered one
	VRF     string // empty for none: the label is then absent
	Session bgp.Session
}

// BGP returns the collector of metallb_bgp_*: the state of every session, the prefixes that the peer has and those that
// wait for it, and messages by type. MetalLB's announced_prefixes_total and pending_prefixes_total are gauges in spite of
// their names; they are kept for its dashboards. A series goes with its peer.
func BGP(read func() []BGPSession) prometheus.Collector {
	labels := []string{"peer", "vrf"}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("metallb_bgp_"+name, help, labels, nil)
	}
	up := desc("session_up", "1 if the session is established.")
	announced := desc("announced_prefixes_total", "Number of prefixes that the peer has been told.")
	pending := desc("pending_prefixes_total", "Number of changes that wait for the peer.")
	type counter struct {
		desc *prometheus.Desc
		read func(sent, received bgp.Messages) uint64
	}
	counters := []counter{
		{desc("updates_total", "Number of UPDATE messages sent."), func(s, _ bgp.Messages) uint64 { return s.Update }},
		{desc("updates_total_received", "Number of UPDATE messages received."), func(_, r bgp.Messages) uint64 { return r.Update }},
		{desc("opens_sent", "Number of OPEN messages sent."), func(s, _ bgp.Messages) uint64 { return s.Open }},
		{desc("opens_received", "Number of OPEN messages received."), func(_, r bgp.Messages) uint64 { return r.Open }},
		{desc("notifications_sent", "Number of NOTIFICATION messages sent."), func(s, _ bgp.Messages) uint64 { return s.Notification }},
		{desc("keepalives_sent", "Number of KEEPALIVE messages sent."), func(s, _ bgp.Messages) uint64 { return s.Keepalive }},
		{desc("keepalives_received", "Number of KEEPALIVE messages received."), func(_, r bgp.Messages) uint64 { return r.Keepalive }},
		{desc("route_refresh_sent", "Number of ROUTE-REFRESH messages sent."), func(s, _ bgp.Messages) uint64 { return s.RouteRefresh }},
		{desc("total_sent", "Number of messages sent."), func(s, _ bgp.Messages) uint64 { return s.Total }},
		{desc("total_received", "Number of messages received."), func(_, r bgp.Messages) uint64 { return r.Total }},
	}
	descs := []*prometheus.Desc{up, announced, pending}
	for _, c := range counters {
		descs = append(descs, c.desc)
	}
	return funcCollector{descs, func(ch chan<- prometheus.Metric) {
		for _, s := range read() {
			send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
				ch <- prometheus.MustNewConstMetric(d, kind, v, s.Peer, s.VRF)
			}
			send(up, prometheus.GaugeValue, number(s.Session.State == bgp.Established))
			send(announced, prometheus.GaugeValue, float64(s.Session.Announced))
			send(pending, prometheus.GaugeValue, float64(s.Session.Pending))
			for _, c := range counters {
				send(c.desc, prometheus.CounterValue, float64(c.read(s.Session.Counters.Sent, s.Session.Counters.Received)))
			}
		}
	}}
}
