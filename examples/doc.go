// Package examples holds small programs that show one package each, and are tests at the same time: operator
// (allocator), cni (election and membership), vip (membership, election and announce), lab (all of it, as a network in
// a box). The Go code in the README is theirs, which a test here checks.
package examples
