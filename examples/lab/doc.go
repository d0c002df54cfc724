// Command lab shows Herald at work on one machine: it builds a LAN out of
// network namespaces, with a client and a few nodes, runs the real controller
// and a real speaker on every node, and prints what happens. Which address did
// each Service get, which node announces it, what does the client have in its
// neighbour cache, what page does it get, and how long is a Service out of reach
// when its node dies?
//
//	make demo                                 # builds the daemons and runs the story
//	bin/lab --failovers 20                    # measures: kill a node, 20 times
//	bin/lab --failovers 20 --mode leave       # stop a speaker in order, 20 times
//	bin/lab --keep                            # stays up, to look around with nsenter
//
// The lab needs Linux, and either root or leave to make user namespaces; where
// something is missing it says what and how to get it. It installs nothing and
// needs no command of the system. Everything lives in namespaces without a name
// and on a file system in memory, under a process that the kernel ends together
// with the lab, so that nothing stays behind even after kill -9.
//
// There is no kube-proxy on the nodes: their kernels take packets for the pools'
// addresses as their own (AnyIP), but answer no ARP and no neighbour solicitation
// for them. Who answers is Herald.
package main
