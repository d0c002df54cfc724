package main

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/internal/netnstest"
)

// asProgram makes the test binary the program itself.
const asProgram = "HERALD_VIP_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// start runs the program in a namespace, as a process that dies with the test.
func start(t *testing.T, ns *netnstest.NS, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = t.Output()
	require.NoError(t, ns.Do(cmd.Start))
	return cmd
}

// TestTakeOver runs two machines and a client on a LAN: the client's kernel resolves the address to the one that holds
// it, and to the other one after that has left.
func TestTakeOver(t *testing.T) {
	client := netnstest.New(t)
	machines := map[string]*netnstest.NS{"m1": netnstest.New(t), "m2": netnstest.New(t)}
	addrs := map[string]string{"m1": "192.0.2.1", "m2": "192.0.2.2"}
	peers := map[string]string{"m1": "192.0.2.2", "m2": "192.0.2.1"}
	var ports []string
	for name, ns := range machines {
		netnstest.Veth(t, ns, "lan0", client, "to-"+name)
		ns.AddAddr(t, "lan0", addrs[name]+"/24")
		ports = append(ports, "to-"+name)
	}
	client.AddBridge(t, "br0", ports...)
	client.AddAddr(t, "br0", "192.0.2.100/24")

	vip := netip.MustParseAddr("192.0.2.50")
	programs := map[string]*exec.Cmd{}
	for name, ns := range machines {
		programs[name] = start(t, ns, "--name", name, "--bind", addrs[name], "--peers", peers[name], "--addr", vip.String())
	}
	stop := func(name string) {
		require.NoError(t, programs[name].Process.Signal(os.Interrupt))
		require.NoError(t, programs[name].Wait())
	}
	holder := func() string {
		var d net.Dialer
		_ = client.Do(func() error { // a datagram makes the kernel ask
			conn, err := d.DialContext(t.Context(), "udp", netip.AddrPortFrom(vip, 9).String())
			if err == nil {
				_, _ = conn.Write([]byte("x"))
				_ = conn.Close()
			}
			return err
		})
		entry, _ := client.Neighbour(t, "br0", vip)
		for name, ns := range machines {
			if entry.HardwareAddr.String() == ns.MAC(t, "lan0").String() {
				return name
			}
		}
		return ""
	}
	// Alone, each holds the address; once they have met, the elected one does.
	elected, _ := election.Winner(vip, []string{"m1", "m2"})
	other := map[string]string{"m1": "m2", "m2": "m1"}[elected]
	require.Eventually(t, func() bool { return holder() == elected }, 20*time.Second, 50*time.Millisecond)
	stop(elected)
	assert.Eventually(t, func() bool { return holder() == other }, 20*time.Second, 50*time.Millisecond)
	stop(other)
}

func TestParse(t *testing.T) {
	_, err := parse([]string{"--name", "m1"})
	require.ErrorContains(t, err, "--bind")
	o, err := parse([]string{"--name", "m1", "--bind", "192.0.2.1", "--addr", "192.0.2.50", "--peers", "192.0.2.2, 192.0.2.3"})
	require.NoError(t, err)
	assert.Len(t, o.peers, 2)
}
