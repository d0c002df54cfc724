// Package controller gives every Kubernetes Service of type LoadBalancer an address: Service to request, package
// allocator, status. It is compatible with MetalLB's controller (annotations, status, Event reasons, pool counters) and
// keeps its promises where MetalLB does not; docs/compatibility.md has the differences.
//
//	src, err := source.NewFiles(source.FilesConfig{Dir: "manifests"})
//	c, err := controller.New(controller.Config{Source: src, Logger: logger})
//	g, ctx := errgroup.WithContext(ctx)
//	g.Go(func() error { return src.Run(ctx) })
//	g.Go(func() error { return c.Run(ctx) })
//
// # Two phases
//
// A start adopts every address that a Service holds before it gives anything to those that wait. So neither a restart,
// nor the order in which objects arrive, moves an address (metallb#2443, metallb#1774).
//
// # What counts
//
// While it runs, what the controller gave counts more than what a Service's status says: the status may be older than
// the last write. Writes carry the resourceVersion and UID of the Service that the decision was made on; a conflict is
// decided anew, with the same address.
//
// # Rejected is not deleted
//
// An object that fails validation keeps its last good version in force, and says so in an Event. Everything else goes
// on working.
//
// # Events
//
// Events are sent when something becomes true, not while it stays so: a Service that waits for an address says why
// once, and again only when the reason changes.
//
// Once decides on a directory of manifests without a cluster, and writes nothing.
package controller
