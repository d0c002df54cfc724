// Package e2e tests Herald's daemons against a real Kubernetes API server.
//
// It is a module of its own, because the API server's dependencies must not
// become Herald's. See the package harness for how the tests run, and
// controlplane for the server. From this directory:
//
//	go test -count=1 ./...
package e2e
