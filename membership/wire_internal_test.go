package membership

import (
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openTestWire(t *testing.T) *wire {
	t.Helper()
	cfg, err := Config{Name: "a", Bind: netip.MustParseAddrPort("127.0.0.1:0")}.complete()
	require.NoError(t, err)
	w, err := openWire(t.Context(), &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Shutdown()) })
	return w
}

// connectWires dials from one wire to another, which must be served.
func connectWires(t *testing.T, from, to *wire) (client, server net.Conn) {
	t.Helper()
	client, err := from.DialTimeout(to.local.String(), 10*time.Second)
	require.NoError(t, err)
	select {
	case server = <-to.StreamCh():
		deadline := time.Now().Add(10 * time.Second)
		require.NoError(t, client.SetDeadline(deadline))
		require.NoError(t, server.SetDeadline(deadline))
		return client, server
	case <-time.After(10 * time.Second):
		t.Fatal("no connection")
		return nil, nil
	}
}

func (w *wire) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

// TestWireConnections: a connection that is closed is closed and forgotten, one
// that is not ends with the wire.
func TestWireConnections(t *testing.T) {
	a, b := openTestWire(t), openTestWire(t)
	client, server := connectWires(t, a, b)
	assert.Equal(t, 1, a.open())
	assert.Equal(t, 1, b.open())
	require.NoError(t, client.Close())
	_, err := server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, server.Close())
	assert.Zero(t, a.open()+b.open())

	client, server = connectWires(t, a, b)
	a.stopStreams()
	_, err = server.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "ended by the other side")
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = a.DialTimeout(b.local.String(), time.Hour)
	require.Error(t, err, "at once")

	_, err = a.WriteTo([]byte("still here"), b.local.String())
	require.NoError(t, err, "packets go on")
	select {
	case p := <-b.PacketCh():
		assert.Equal(t, "still here", string(p.Buf))
		assert.Equal(t, a.local.String(), p.From.String())
	case <-time.After(10 * time.Second):
		t.Fatal("no packet")
	}
}

// TestWireShutdown: it waits for nobody to take what has come in, and may be
// called twice.
func TestWireShutdown(t *testing.T) {
	a, b := openTestWire(t), openTestWire(t)
	_, err := a.WriteTo([]byte("nobody reads this"), b.local.String())
	require.NoError(t, err)
	conn, err := a.DialTimeout(b.local.String(), 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, b.Shutdown())
	require.NoError(t, b.Shutdown())
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = b.WriteTo([]byte("x"), a.local.String())
	require.ErrorIs(t, err, net.ErrClosed)
	packets, streams, err := realNetwork{}.Listen(t.Context(), b.local)
	require.NoError(t, err, "the port is free")
	require.NoError(t, packets.Close())
	require.NoError(t, streams.Close())
}

func TestWireRefusesNonsense(t *testing.T) {
	a := openTestWire(t)
	_, err := a.WriteTo(nil, "no address")
	require.Error(t, err)
	_, err = a.DialTimeout("no address", time.Second)
	require.Error(t, err)
	ip, port, err := a.FinalAdvertiseAddr("ignored", 1)
	require.NoError(t, err)
	assert.Equal(t, a.local, netip.AddrPortFrom(addrOf(ip), uint16(port)), "the port that was chosen is advertised")
}
