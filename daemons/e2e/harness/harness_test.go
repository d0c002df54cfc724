package harness

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestLineCounter(t *testing.T) {
	var c lineCounter
	for i := range 1000 {
		_, err := fmt.Fprintf(&c, "package number %d\n", i)
		require.NoError(t, err)
	}
	assert.Equal(t, 1000, c.lines())
	assert.LessOrEqual(t, len(c.tail()), keptBytes)
	assert.True(t, strings.HasSuffix(c.tail(), "package number 999"))
}

func TestDecodeWrite(t *testing.T) {
	line := `{"kind":"Event","verb":"patch","user":{"username":"u"},"objectRef":{"resource":"services","subresource":"status",` +
		`"namespace":"default","name":"web"},"responseStatus":{"code":409}}`
	want := Write{User: "u", Verb: "patch", Resource: "services/status", Namespace: "default", Name: "web", Code: 409}
	assert.Equal(t, want, decodeWrite(t, []byte(line)))
	assert.Equal(t, "u patch services/status default/web: 409", want.String())
}

// TestHold: the first request that matches waits, and no other.
func TestHold(t *testing.T) {
	hold := NewHold(func(r *http.Request) bool { return r.Method == http.MethodPatch })
	hold.pass(httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		hold.pass(httptest.NewRequest(http.MethodPatch, "/", http.NoBody))
	}()
	hold.Do(t, func() {
		select {
		case <-passed:
			t.Error("the request did not wait")
		default:
		}
	})
	<-passed
	hold.pass(httptest.NewRequest(http.MethodPatch, "/", http.NoBody))
}

// TestRelay: bytes go both ways, and the end of either side ends both.
func TestRelay(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{target: target.Addr().String(), conns: map[net.Conn]bool{}}
	var group errgroup.Group
	group.Go(func() error { return r.serve(front, &group) })

	client, err := net.Dial("tcp", front.Addr().String())
	require.NoError(t, err)
	server, err := target.Accept()
	require.NoError(t, err)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		_, err = way[0].Write([]byte("hello"))
		require.NoError(t, err)
		got := make([]byte, 5)
		_, err = io.ReadFull(way[1], got)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(got))
	}
	require.NoError(t, server.Close())
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err, "the other side has ended")

	require.NoError(t, target.Close())
	refused, err := net.Dial("tcp", front.Addr().String())
	require.NoError(t, err)
	_, err = refused.Read(make([]byte, 1))
	require.Error(t, err, "the target is down")

	require.NoError(t, front.Close())
	r.closeAll()
	require.NoError(t, group.Wait())
	require.NoError(t, client.Close())
	require.NoError(t, refused.Close())
}
