package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/announce"
)

// Updates are the counters that both daemons have.
type Updates struct {
	Updates uint64 // object updates handled since the start
	Errors  uint64 // those of them that failed and are tried again
	Loaded  bool   // a configuration was applied since the start
	Stale   bool   // an object of the configuration is rejected: its last good version is in force
}

// funcCollector is a collector made of a list of descriptions and a function that sends their values.
type funcCollector struct {
	descs   []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

func (c funcCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c funcCollector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Client returns the collector of metallb_k8s_client_*: updates handled, those that failed, and whether the
// configuration was loaded and is stale.
func Client(read func() Updates) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("metallb_k8s_client_"+name, help, nil, nil)
	}
	updates := desc("updates_total", "Number of object updates that were handled.")
	errs := desc("update_errors_total", "Number of object updates that failed and are tried again.")
	loaded := desc("config_loaded_bool", "1 if a configuration was loaded at least once.")
	stale := desc("config_stale_bool", "1 if an object of the configuration is rejected and its last good version is in force.")
	return funcCollector{[]*prometheus.Desc{updates, errs, loaded, stale}, func(ch chan<- prometheus.Metric) {
		u := read()
		ch <- prometheus.MustNewConstMetric(updates, prometheus.CounterValue, float64(u.Updates))
		ch <- prometheus.MustNewConstMetric(errs, prometheus.CounterValue, float64(u.Errors))
		ch <- prometheus.MustNewConstMetric(loaded, prometheus.GaugeValue, number(u.Loaded))
		ch <- prometheus.MustNewConstMetric(stale, prometheus.GaugeValue, number(u.Stale))
	}}
}

// Allocator returns the collector of metallb_allocator_*: the size and use of every pool. MetalLB's names end in _total
// although they are gauges; they are kept for its dashboards.
func Allocator(read func() map[string]allocator.Usage) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("metallb_allocator_"+name, help, []string{"pool"}, nil)
	}
	total := desc("addresses_total", "Number of usable addresses of the pool.")
	total4 := desc("ipv4_addresses_total", "Number of usable IPv4 addresses of the pool.")
	total6 := desc("ipv6_addresses_total", "Number of usable IPv6 addresses of the pool.")
	used := desc("addresses_in_use_total", "Number of distinct addresses of the pool that Services hold.")
	used4 := desc("ipv4_addresses_in_use_total", "Number of distinct IPv4 addresses of the pool that Services hold.")
	used6 := desc("ipv6_addresses_in_use_total", "Number of distinct IPv6 addresses of the pool that Services hold.")
	return funcCollector{[]*prometheus.Desc{total, total4, total6, used, used4, used6}, func(ch chan<- prometheus.Metric) {
		for pool, u := range read() {
			gauge := func(d *prometheus.Desc, v float64) {
				ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, pool)
			}
			gauge(total, float64(u.V4.Total)+float64(u.V6.Total))
			gauge(total4, float64(u.V4.Total))
			gauge(total6, float64(u.V6.Total))
			gauge(used, float64(u.V4.Used)+float64(u.V6.Used))
			gauge(used4, float64(u.V4.Used))
			gauge(used6, float64(u.V6.Used))
		}
	}}
}

// Announced is one address that this node announces.
type Announced struct {
	Service  string // namespace/name
	Protocol string // layer2 or bgp
	Node     string // the node that announces
	Address  string // as netip.Addr prints it
}

// Announcements returns the collector of metallb_speaker_announced: 1 for every address that this node announces, and
// no series for any other, so that the sum over the nodes is 1 for an address at rest (metallb#1972).
func Announcements(read func() []Announced) prometheus.Collector {
	desc := prometheus.NewDesc("metallb_speaker_announced", "1 for every address that this node announces.",
		[]string{"service", "protocol", "node", "ip"}, nil)
	return funcCollector{[]*prometheus.Desc{desc}, func(ch chan<- prometheus.Metric) {
		for _, a := range read() {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, a.Service, a.Protocol, a.Node, a.Address)
		}
	}}
}

// Orphans returns the collector of herald_speaker_orphans: how many addresses no node can announce, as this node sees it.
func Orphans(read func() uint64) prometheus.Collector {
	desc := prometheus.NewDesc("herald_speaker_orphans", "Number of addresses that no node can announce, as this node sees it.", nil, nil)
	return funcCollector{[]*prometheus.Desc{desc}, func(ch chan<- prometheus.Metric) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(read()))
	}}
}

// Layer2 returns the collector of metallb_layer2_*: requests, replies and gratuitous frames of every address that is
// announced, and under herald_layer2_* what MetalLB does not tell: conflicts with other hosts about an address, by link,
// frames dropped, by reason, and failures, by what failed. A series goes with its address.
func Layer2(read func() announce.Stats) prometheus.Collector {
	perIP := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("metallb_layer2_"+name, help, []string{"ip"}, nil)
	}
	requests := perIP("requests_received", "Number of ARP and NDP requests for the address.")
	replies := perIP("responses_sent", "Number of ARP and NDP replies sent for the address.")
	gratuitous := perIP("gratuitous_sent", "Number of gratuitous ARP and unsolicited NDP frames sent for the address.")
	conflicts := prometheus.NewDesc("herald_layer2_conflicts_total", "Number of conflicts with other hosts that claimed the address.",
		[]string{"ip", "interface"}, nil)
	drops := prometheus.NewDesc("herald_layer2_drops_total", "Number of frames that got no answer, by reason.", []string{"reason"}, nil)
	errs := prometheus.NewDesc("herald_layer2_errors_total", "Number of failures, by what failed.", []string{"operation"}, nil)
	return funcCollector{[]*prometheus.Desc{requests, replies, gratuitous, conflicts, drops, errs}, func(ch chan<- prometheus.Metric) {
		s := read()
		count := func(d *prometheus.Desc, v uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
		}
		for _, a := range s.Addresses {
			count(requests, a.Requests, a.Addr.String())
			count(replies, a.Replies, a.Addr.String())
			count(gratuitous, a.Gratuitous, a.Addr.String())
			for _, on := range a.OnLinks {
				count(conflicts, on.Conflicts, a.Addr.String(), on.Link)
			}
		}
		for reason, n := range s.Drops {
			count(drops, n, reason.String())
		}
		for operation, n := range map[string]uint64{
			"listen": s.Errors.Listen, "read": s.Errors.Read, "write": s.Errors.Write, "join": s.Errors.Join, "links": s.Errors.Links,
			"filter": s.Errors.Filter,
		} {
			count(errs, n, operation)
		}
	}}
}

// Latency is a histogram of durations: a collector with a method to feed it.
type Latency struct{ prometheus.Histogram }

// NewLatency returns the histogram herald_NAME_seconds, from 1 µs to 16 s.
func NewLatency(name, help string) Latency {
	return Latency{prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "herald_" + name + "_seconds", Help: help, Buckets: prometheus.ExponentialBuckets(1e-6, 4, 13),
	})}
}

// Observe counts one duration.
func (l Latency) Observe(took time.Duration) { l.Histogram.Observe(took.Seconds()) }
