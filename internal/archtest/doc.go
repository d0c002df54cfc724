// Package archtest keeps the rules of the house by machine: which package may
// import which, and what a source file must and must not contain.
//
// The arrows between the packages run one way,
//
//	daemons -> k8sadapter -> allocator, election, membership, announce, bgp
//
// and the five at the end import neither Kubernetes nor each other, so that who
// embeds one of them inherits nothing of the rest. [CheckImports] holds a list of
// packages, as `go list -deps -json` prints them, against [Rules]; [CheckFile]
// holds one Go file against the rules for sources; [CheckText] looks for words
// that must not be in any tracked file. All three return findings, never fail by
// themselves, and are pure, so that their own tests can show that each rule is
// able to fail.
//
// The tests of this package run them on the whole repository:
//
//	go test ./internal/archtest
package archtest
