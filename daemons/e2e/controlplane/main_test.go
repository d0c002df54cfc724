package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

func TestPortIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "prepare")
	first, err := prepare(dir, 0)
	require.NoError(t, err)
	assert.Positive(t, first.port)
	again, err := prepare(dir, 0)
	require.NoError(t, err)
	assert.Equal(t, first, again, "the port of the last start")
	asked, err := prepare(dir, 6443)
	require.NoError(t, err)
	assert.Equal(t, 6443, asked.port, "an explicit port wins")
	again, err = prepare(dir, 0)
	require.NoError(t, err)
	assert.Equal(t, 6443, again.port)
}

func TestBrokenPortFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "port"), []byte("x\n"), 0o600))
	_, err := prepare(dir, 0)
	require.ErrorIs(t, err, strconv.ErrSyntax)
	assert.ErrorContains(t, err, filepath.Join(dir, "port"))
}

func TestCredentialsAreKept(t *testing.T) {
	s, err := prepare(t.TempDir(), 0)
	require.NoError(t, err)
	first, err := loadCredentials(s)
	require.NoError(t, err)
	again, err := loadCredentials(s)
	require.NoError(t, err)
	assert.Equal(t, first, again)
	assert.GreaterOrEqual(t, len(first.token), 26, "128 bits, five to a letter")

	other, err := prepare(t.TempDir(), 0)
	require.NoError(t, err)
	third, err := loadCredentials(other)
	require.NoError(t, err)
	assert.NotEqual(t, first.token, third.token)
}

// TestCertificate: a client that trusts the authority and nothing else accepts
// the server by its loopback address.
func TestCertificate(t *testing.T) {
	s, err := prepare(t.TempDir(), 0)
	require.NoError(t, err)
	creds, err := loadCredentials(s)
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(s.path("apiserver.crt"), s.path("apiserver.key"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(creds.caPEM))
	for _, name := range []string{"127.0.0.1", "::1", "localhost", "kubernetes.default.svc"} {
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		require.NoError(t, err, name)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "192.0.2.1"})
	require.Error(t, err)
}

func TestKubeconfig(t *testing.T) {
	s, err := prepare(t.TempDir(), 6443)
	require.NoError(t, err)
	creds, err := loadCredentials(s)
	require.NoError(t, err)
	require.NoError(t, writeKubeconfig(s, creds))
	config, err := clientcmd.BuildConfigFromFlags("", s.path("kubeconfig"))
	require.NoError(t, err)
	assert.Equal(t, "https://127.0.0.1:6443", config.Host)
	assert.Equal(t, creds.token, config.BearerToken)
	assert.Equal(t, creds.caPEM, config.CAData)
	info, err := os.Stat(s.path("kubeconfig"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds a token")
}

func TestUsage(t *testing.T) {
	require.ErrorContains(t, run(nil), "--dir")
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	require.ErrorContains(t, run([]string{"--dir", long}), "too long")
}

func TestFreePort(t *testing.T) {
	port, err := freePort()
	require.NoError(t, err)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
