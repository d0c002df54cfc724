package harness

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heraldlb/herald/internal/labnet"
)

// Hold is the moment before the first request of a kind reaches the server, in
// which another client can win a race.
type Hold struct {
	match    func(*http.Request) bool
	once     sync.Once
	reached  chan struct{}
	released chan struct{}
}

// NewHold returns a hold of the first request that matches, which is asked
// concurrently.
func NewHold(match func(*http.Request) bool) *Hold {
	return &Hold{match: match, reached: make(chan struct{}), released: make(chan struct{})}
}

// Do waits for the request, calls fn while the request waits, and lets it go on.
func (h *Hold) Do(t testing.TB, fn func()) {
	t.Helper()
	defer close(h.released)
	select {
	case <-h.reached:
		fn()
	case <-time.After(patience):
		t.Fatalf("the request did not come within %v", patience)
	}
}

func (h *Hold) pass(r *http.Request) {
	if !h.match(r) {
		return
	}
	h.once.Do(func() {
		close(h.reached)
		select {
		case <-h.released:
		case <-r.Context().Done():
		}
	})
}

// Intercept puts a proxy before the server and returns its URL for a daemon's
// configuration. The proxy hands every request to the hold and forwards it then.
func (s *Server) Intercept(t testing.TB, hold *Hold) string {
	t.Helper()
	upstream, err := url.Parse(s.config.Host)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(s.config.CAData))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:     transport,
		FlushInterval: -1, // watches are streams
		ErrorLog:      quiet,
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "apiserver.crt"), filepath.Join(s.dir, "apiserver.key"))
	require.NoError(t, err)
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hold.pass(r)
		proxy.ServeHTTP(w, r)
	}))
	front.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	front.Config.ErrorLog = quiet
	front.StartTLS()
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		transport.CloseIdleConnections()
	})
	return front.URL
}

// Relay makes the server reachable on the loopback of another network
// namespace and returns the URL there.
func (s *Server) Relay(t testing.TB, space *labnet.Namespace) string {
	t.Helper()
	upstream, err := url.Parse(s.config.Host)
	require.NoError(t, err)
	var listener net.Listener
	require.NoError(t, space.Do(func() error {
		var err error
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	r := &relay{target: upstream.Host, conns: map[net.Conn]bool{}}
	var group errgroup.Group
	group.Go(func() error { return r.serve(listener, &group) })
	t.Cleanup(func() {
		_ = listener.Close()
		r.closeAll()
		_ = group.Wait()
	})
	return "https://" + listener.Addr().String()
}
