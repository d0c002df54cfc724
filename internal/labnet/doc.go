// Package labnet builds small networks inside one machine: hosts that are
// network namespaces, a switch between them, processes that run on them, and
// a client that measures how long an address was out of reach.
//
// Everything happens inside a [Sandbox]: the program starts itself again as
// process 1 of new PID, mount and network namespaces (and of a user namespace
// where it is not root). The sandbox is what makes cleaning up certain: when
// its process 1 ends, in whatever way, the kernel ends every process in it, and
// with them go the network namespaces, the links and the scratch file system.
// Nothing is ever named in /var/run/netns and nothing is written to the disk.
//
// A program that uses the package calls [Dispatch] before anything else, for
// the processes inside the sandbox are the same executable under another
// argument zero:
//
//	func main() {
//		labnet.Dispatch(map[string]func() int{"my-lab-init": inside})
//		sandbox, err := labnet.StartSandbox(labnet.SandboxConfig{Role: "my-lab-init"})
//		if err != nil { … }
//		os.Exit(sandbox.Wait())
//	}
//
//	func inside() int {
//		scratch, err := labnet.InitSandbox()     // a tmpfs of our own
//		lan, err := labnet.NewLAN()              // the switch
//		host, err := lan.AddHost(labnet.HostConfig{Name: "client", …})
//		…
//	}
//
// The package is shared by examples/lab and by integration tests; it is no
// part of Herald's API. It needs Linux with the bridge and veth drivers, and
// either root (CAP_SYS_ADMIN, CAP_NET_ADMIN) or leave to make user namespaces.
package labnet
