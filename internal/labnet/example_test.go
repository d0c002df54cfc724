package labnet

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Two hosts on a LAN: one serves, the other fetches. The tests of this package
// run inside a sandbox, as a lab does.
func Example() {
	lan, err := NewLAN()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lan.Close() }()
	addr := netip.MustParseAddr("192.0.2.1")
	server, err := lan.AddHost(HostConfig{Name: "server", Addrs: []netip.Prefix{netip.PrefixFrom(addr, 24)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := lan.AddHost(HostConfig{Name: "client", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	backend, err := Start(ProcessConfig{
		Name: "backend", Command: BackendCommand("server", 80),
		Space: server.Space(), LogFile: filepath.Join(os.TempDir(), "backend.log"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil { // until the backend listens
		answer, err := client.Fetch(ctx, netip.AddrPortFrom(addr, 80), "/")
		if err == nil {
			fmt.Println(answer.Status, answer.Page)
			break
		}
	}
	fmt.Println("killed:", backend.Kill())
	// Output:
	// 200 OK Hello from server, you asked 192.0.2.1.
	// killed: <nil>
}
