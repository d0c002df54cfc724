// Package metrics turns the counters of Herald's packages into Prometheus collectors under MetalLB's names, and serves
// them. Dashboards and alerts made for MetalLB keep working.
//
// The collectors read Stats when they are scraped: nothing is counted twice, and no series outlives what it counts.
// Nothing is registered globally: the daemon registers them with a registry of its own.
package metrics
