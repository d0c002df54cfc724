// Package harness runs the real thing for tests: a Kubernetes API server with
// its etcd, Herald's daemons as they are shipped, and small networks.
//
// A test package hands its TestMain over:
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
// [Main] builds the binaries (the first build of the API server takes about ten
// minutes on two cores and says how far it is), then runs the tests in a sandbox
// of process, mount and network namespaces. All that the tests start and write
// is in there, so nothing is left when they end, whichever way they end.
//
// A [Server] is one control plane with the manifests of daemons/deploy applied.
// [Server.StartController] and [Server.StartSpeaker] run the daemons under their
// own service accounts: what RBAC does not allow fails in every test.
// [Server.Stop] and [Server.Start] are an outage of the API, with data, port and
// credentials kept. [Server.Intercept] stands between a client and the server,
// and [Server.AuditLog] tells who wrote what.
//
// There is no controller manager: tests make EndpointSlices themselves, and a
// deleted namespace never goes.
package harness
