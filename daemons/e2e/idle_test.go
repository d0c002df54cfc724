package e2e_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/daemons/e2e/harness"
	"github.com/heraldlb/herald/internal/labnet"
)

// TestIdle: while nothing happens that concerns them, the daemons write nothing.
// What does happen here is the noise of a cluster: heartbeats of nodes, labels
// and annotations of strangers, Services of other types.
func TestIdle(t *testing.T) {
	cluster := harness.NewCluster(t)
	_, node := newNode(t, cluster)
	controller := cluster.StartController(t, "")
	speaker := cluster.StartSpeaker(t, node, cluster.Relay(t, node.Space()))
	cluster.CreatePool(t, "p", "192.0.2.10-192.0.2.20")
	cluster.CreateL2Advertisement(t, "a")
	service := cluster.CreateService(t, "web")
	cluster.CreateEndpoint(t, "web", node.Name(), netip.MustParseAddr("10.0.0.1"))
	cluster.AwaitAddresses(t, "web", "192.0.2.10")
	cluster.AwaitEvent(t, service, "nodeAssigned")
	cluster.AwaitL2Status(t, "web", node.Name())
	cluster.AwaitConfigurationState(t, "controller")
	cluster.AwaitConfigurationState(t, "speaker-"+node.Name())
	cluster.Settle(t)
	quiet(t, cluster)

	writes := func() []harness.Write {
		return cluster.WritesOf(t, harness.ControllerAccount, harness.SpeakerAccount)
	}
	before := writes()
	for i := range 20 {
		heartbeat(t, cluster, node.Name(), i)
		patch(t, cluster, "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{"beat": fmt.Sprint(i)}}})
		patch(t, cluster, "kubernetes", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"beat": fmt.Sprint(i)}}})
	}
	awaitSeen(t, cluster, writes, before)
	controller.Healthy(t)
	speaker.Healthy(t)
}

// awaitSeen makes both daemons act once more, which shows that they have seen
// all that came before, and requires that the act is all that they wrote.
func awaitSeen(t *testing.T, cluster *harness.Server, writes func() []harness.Write, before []harness.Write) {
	t.Helper()
	last := cluster.CreateService(t, "last")
	cluster.CreateEndpoint(t, "last", "node-1", netip.MustParseAddr("10.0.0.2"))
	cluster.AwaitAddresses(t, "last", "192.0.2.11")
	cluster.AwaitEvent(t, last, "nodeAssigned")
	status := cluster.AwaitL2Status(t, "last", "node-1")
	for _, w := range writes()[len(before):] {
		ours := w.Name == "last" || w.Name == status || w.Resource == "events" || w.Resource == "ipaddresspools/status"
		assert.True(t, ours, "a write without a cause: %s", w)
	}
	events, err := cluster.Kube.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, e := range events.Items {
		if e.InvolvedObject.Name == "web" {
			assert.LessOrEqual(t, e.Count, int32(1), "an Event is repeated: %s", e.Message)
		}
	}
}

// quiet waits until a whole second passed without a write of the daemons.
func quiet(t *testing.T, cluster *harness.Server) {
	t.Helper()
	count, since := -1, time.Now()
	harness.Eventually(t, "the daemons stop writing", func() string {
		now := len(cluster.WritesOf(t, harness.ControllerAccount, harness.SpeakerAccount))
		if now != count {
			count, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return fmt.Sprintf("%d writes so far", now)
		}
		return ""
	})
}

func heartbeat(t *testing.T, cluster *harness.Server, name string, beat int) {
	t.Helper()
	node, err := cluster.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Duration(beat+1) * time.Minute))
	_, err = cluster.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// newNode makes a LAN with one node, which the cluster knows.
func newNode(t *testing.T, cluster *harness.Server) (*labnet.LAN, *labnet.Host) {
	t.Helper()
	lan, err := labnet.NewLAN()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lan.Close()) })
	return lan, addNode(t, cluster, lan, 1)
}

// addNode plugs node-N with the address 192.0.2.(200+N)/24 in and tells the cluster.
func addNode(t *testing.T, cluster *harness.Server, lan *labnet.LAN, number int) *labnet.Host {
	t.Helper()
	address := netip.AddrFrom4([4]byte{192, 0, 2, byte(200 + number)})
	host, err := lan.AddHost(labnet.HostConfig{
		Name: fmt.Sprintf("node-%d", number), Addrs: []netip.Prefix{netip.PrefixFrom(address, 24)},
	})
	require.NoError(t, err)
	cluster.CreateNode(t, host.Name(), address)
	return host
}
