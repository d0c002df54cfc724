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
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heraldlb/herald/internal/labnet"
)

// Intercept puts a proxy before the server and returns its URL for a daemon's
// configuration. The proxy calls before for every request and forwards it when
// that returns: the place to let another client win a race. Requests come
// concurrently.
func (s *Server) Intercept(t testing.TB, before func(*http.Request)) string {
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
		before(r)
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
