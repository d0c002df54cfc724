package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ethernet"
	"github.com/mdlayher/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/heraldlb/herald/daemons/e2e/harness"
	"github.com/heraldlb/herald/internal/labnet"
)

// TestOutage: while the API server is away, restarted or killed, the speaker
// goes on answering for the addresses that it announced; when the server is back,
// daemons go on with what happened meanwhile, and no address moved (metallb#615,
// metallb#1937).
func TestOutage(t *testing.T) {
	cluster := harness.NewCluster(t)
	lan, node := newNode(t, cluster)
	client, err := lan.AddHost(labnet.HostConfig{Name: "client", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.250/24")}})
	require.NoError(t, err)
	asker := newAsker(t, client)

	controller := cluster.StartController(t, "")
	speaker := cluster.StartSpeaker(t, node, cluster.Relay(t, node.Space()))
	cluster.CreatePool(t, "p", "192.0.2.10-192.0.2.20")
	cluster.CreateL2Advertisement(t, "a")
	cluster.CreateService(t, "web")
	cluster.CreateEndpoint(t, "web", node.Name(), netip.MustParseAddr("10.0.0.1"))
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
	address := netip.MustParseAddr("192.0.2.10")
	asker.await(t, address, node.MAC())
	version := cluster.Service(t, "web").ResourceVersion

	for _, end := range []func(testing.TB){cluster.Stop, cluster.Kill, cluster.Stop} {
		end(t)
		// Long enough for the daemons to notice that their watches are cut and to try again.
		for range 150 {
			mac, err := asker.ask(address)
			require.NoError(t, err, "the speaker does not answer while the API server is away")
			require.Equal(t, node.MAC(), mac)
			asker.pause(t)
		}
		speaker.Healthy(t)
		cluster.Start(t)
		mac, err := asker.ask(address)
		require.NoError(t, err, "the speaker does not answer after the API server came back")
		require.Equal(t, node.MAC(), mac)
	}

	// A controller that could not renew its lease ends, as leaders must: it cannot
	// know whether another one leads by now.
	if controller.Revive(t) {
		assert.Contains(t, controller.Log(), "Lease was lost")
	}
	cluster.CreateService(t, "later")
	cluster.CreateEndpoint(t, "later", node.Name(), netip.MustParseAddr("10.0.0.2"))
	cluster.AwaitAddresses(t, "later", "192.0.2.11")
	asker.await(t, netip.MustParseAddr("192.0.2.11"), node.MAC())
	assert.Equal(t, version, cluster.Service(t, "web").ResourceVersion, "nothing was written about web")

	setType(t, cluster, "web", corev1.ServiceTypeClusterIP)
	harness.Eventually(t, "the speaker is silent about an address that is no more", func() string {
		if _, err := asker.ask(address); errors.Is(err, os.ErrDeadlineExceeded) {
			return ""
		}
		return "it answers"
	})
	speaker.Stop(t)
	controller.Stop(t)
}

// TestOutageFailover: the speakers need no API server to find out that one of
// them died, and to take over what it held.
func TestOutageFailover(t *testing.T) {
	cluster := harness.NewCluster(t)
	lan, first := newNode(t, cluster)
	nodes := []*labnet.Host{first, addNode(t, cluster, lan, 2)}
	client, err := lan.AddHost(labnet.HostConfig{Name: "client", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.250/24")}})
	require.NoError(t, err)
	asker := newAsker(t, client)
	speakers := map[string]*harness.Daemon{}
	for i, node := range nodes {
		ip := netip.AddrFrom4([4]byte{192, 0, 2, byte(201 + i)})
		cluster.CreateSpeakerPod(t, node.Name(), ip)
		speakers[node.MAC().String()] = cluster.StartSpeaker(t, node, cluster.Relay(t, node.Space()),
			"--ml-bindaddr", ip.String(), "--ml-labels", harness.SpeakerSelector)
	}
	cluster.StartController(t, "")
	cluster.CreatePool(t, "p", "192.0.2.10-192.0.2.20")
	cluster.CreateL2Advertisement(t, "a")
	service := cluster.CreateService(t, "web")
	cluster.CreateEndpoint(t, "web", nodes[0].Name(), netip.MustParseAddr("10.0.0.1"))
	cluster.CreateEndpoint(t, "web", nodes[1].Name(), netip.MustParseAddr("10.0.0.2"))
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
	cluster.AwaitEvent(t, service, "nodeAssigned")
	address := netip.MustParseAddr("192.0.2.10")
	holder := asker.awaitOne(t, address)

	cluster.Stop(t)
	speakers[holder].Kill(t)
	delete(speakers, holder)
	for heir, speaker := range speakers {
		mac, err := net.ParseMAC(heir)
		require.NoError(t, err)
		asker.await(t, address, mac)
		speaker.Healthy(t)
	}
}

// asker sends ARP requests from a host and hears the replies, past the
// neighbour cache of its kernel.
type asker struct {
	conn *packet.Conn
	from *labnet.Host
}

func newAsker(t *testing.T, host *labnet.Host) *asker {
	t.Helper()
	a := &asker{from: host}
	require.NoError(t, host.Space().Do(func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		a.conn, err = packet.Listen(link, packet.Raw, int(ethernet.EtherTypeARP), nil)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, a.conn.Close()) })
	return a
}

// ask returns the link-layer address that answers for addr; the error is
// os.ErrDeadlineExceeded when nobody does within a second.
func (a *asker) ask(addr netip.Addr) (net.HardwareAddr, error) {
	source := netip.MustParseAddr("192.0.2.250")
	request, err := arp.NewPacket(arp.OperationRequest, a.from.MAC(), source, ethernet.Broadcast, addr)
	if err != nil {
		return nil, err
	}
	body, err := request.MarshalBinary()
	if err != nil {
		return nil, err
	}
	frame := &ethernet.Frame{Destination: ethernet.Broadcast, Source: a.from.MAC(), EtherType: ethernet.EtherTypeARP, Payload: body}
	data, err := frame.MarshalBinary()
	if err != nil {
		return nil, err
	}
	if err := a.conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return nil, err
	}
	if _, err := a.conn.WriteTo(data, &packet.Addr{HardwareAddr: ethernet.Broadcast}); err != nil {
		return nil, err
	}
	return a.reply(addr)
}

// awaitOne asks until five times in a row exactly one host answered, always the
// same, and returns its link-layer address: the members have found each other.
func (a *asker) awaitOne(t *testing.T, addr netip.Addr) string {
	t.Helper()
	holder, times := "", 0
	harness.Eventually(t, addr.String()+" is answered by one host", func() string {
		first, err := a.ask(addr)
		if err != nil {
			times = 0
			return err.Error()
		}
		require.NoError(t, a.conn.SetDeadline(time.Now().Add(100*time.Millisecond)))
		if second, err := a.reply(addr); err == nil {
			times = 0
			return fmt.Sprintf("%s and %s answer", first, second)
		}
		if first.String() != holder {
			holder, times = first.String(), 0
		}
		if times++; times < 5 {
			return fmt.Sprintf("%s alone answered %d times", holder, times)
		}
		return ""
	})
	return holder
}

func (a *asker) reply(addr netip.Addr) (net.HardwareAddr, error) {
	buffer := make([]byte, 1500)
	for {
		n, _, err := a.conn.ReadFrom(buffer)
		if err != nil {
			return nil, err
		}
		var frame ethernet.Frame
		var heard arp.Packet
		if frame.UnmarshalBinary(buffer[:n]) != nil || heard.UnmarshalBinary(frame.Payload) != nil {
			continue
		}
		// A gratuitous reply is broadcast; ours is for this host alone.
		ours := heard.Operation == arp.OperationReply && heard.SenderIP == addr && frame.Destination.String() == a.from.MAC().String()
		if ours {
			return heard.SenderHardwareAddr, nil
		}
	}
}

// pause waits a fiftieth of a second: a host asks seldom.
func (a *asker) pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(20 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// await asks until the link-layer address wanted answers.
func (a *asker) await(t *testing.T, addr netip.Addr, want net.HardwareAddr) {
	t.Helper()
	harness.Eventually(t, addr.String()+" is answered", func() string {
		mac, err := a.ask(addr)
		if err != nil {
			return err.Error()
		}
		if mac.String() != want.String() {
			return "it is answered by " + mac.String()
		}
		return ""
	})
}
