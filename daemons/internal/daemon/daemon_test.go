package daemon

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/membership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, args ...string) (f Flags, code int, done bool, said string) {
	t.Helper()
	var out bytes.Buffer
	fs := flag.NewFlagSet("controller", flag.ContinueOnError)
	fs.SetOutput(&out)
	f.Register(fs)
	code, done = f.Parse(fs, args, &out)
	return f, code, done, out.String()
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		done bool
		says string
	}{
		"nothing":            {nil, ExitOK, false, ""},
		"help":               {[]string{"--help"}, ExitOK, true, "-manifests DIR"},
		"version":            {[]string{"--version"}, ExitOK, true, "controller "},
		"unknown flag":       {[]string{"--frobnicate"}, ExitUsage, true, "frobnicate"},
		"argument":           {[]string{"dir"}, ExitUsage, true, `unexpected argument "dir"`},
		"once without a dir": {[]string{"--once"}, ExitUsage, true, "--manifests DIR"},
		"both sources":       {[]string{"--manifests", "d", "--kubeconfig", "k"}, ExitUsage, true, "exclude each other"},
		"no port":            {[]string{"--port", "70000"}, ExitUsage, true, "--port 70000"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, code, done, said := parse(t, tt.args...)
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.done, done)
			assert.Contains(t, said, tt.says)
		})
	}
}

func TestVersionIsNeverDev(t *testing.T) {
	v := Version()
	assert.NotEmpty(t, v)
	assert.NotContains(t, v, "devel")
	assert.NotContains(t, v, "dev ")
	assert.Contains(t, v, "go1.")
}

func TestLogger(t *testing.T) {
	for _, level := range []string{"all", "debug", "info", "warn", "error", "none"} {
		f := Flags{LogLevel: level}
		_, err := f.Logger(io.Discard)
		require.NoError(t, err, level)
	}
	_, err := (&Flags{LogLevel: "loud"}).Logger(io.Discard)
	require.ErrorContains(t, err, `"loud"`)
	var out bytes.Buffer
	log, err := (&Flags{LogLevel: "info"}).Logger(&out)
	require.NoError(t, err)
	log.Info("x")
	assert.True(t, strings.HasPrefix(out.String(), "{"), "JSON in a cluster")
}

func TestNamespace(t *testing.T) {
	ns, err := (&Flags{Manifests: "d"}).InNamespace()
	require.NoError(t, err)
	assert.Equal(t, source.DefaultNamespace, ns)
	ns, err = (&Flags{Namespace: "lb"}).InNamespace()
	require.NoError(t, err)
	assert.Equal(t, "lb", ns)
	_, err = (&Flags{}).InNamespace()
	require.ErrorContains(t, err, "--namespace")
	t.Setenv("METALLB_NAMESPACE", "from-env")
	f, _, _, _ := parse(t)
	assert.Equal(t, "from-env", f.Namespace)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

func TestOpenServesAndStops(t *testing.T) {
	f := Flags{HealthPort: freePort(t), Port: freePort(t)}
	ready := false
	ctx, cancel := context.WithCancel(t.Context())
	open, err := Open(ctx, f, Endpoints{
		HealthHost: "127.0.0.1", MetricsHost: "127.0.0.1", Ready: func() bool { return ready }, Registry: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	require.Len(t, open, 2)
	ended := make(chan error, 2)
	for _, l := range open {
		go func() { ended <- l.Serve(ctx) }()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(port int, path string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+path, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	assert.Equal(t, http.StatusOK, get(f.HealthPort, "/healthz"))
	assert.Equal(t, http.StatusServiceUnavailable, get(f.HealthPort, "/readyz"))
	ready = true
	assert.Equal(t, http.StatusOK, get(f.HealthPort, "/readyz"))
	assert.Equal(t, http.StatusOK, get(f.Port, "/metrics"))
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

func TestBoundPortIsNamed(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	addr, _ := taken.Addr().(*net.TCPAddr)
	health := freePort(t)
	_, err = Open(t.Context(), Flags{HealthPort: health, Port: addr.Port}, Endpoints{
		HealthHost: "127.0.0.1", MetricsHost: "127.0.0.1", Ready: func() bool { return true }, Registry: prometheus.NewRegistry(),
	})
	require.ErrorContains(t, err, taken.Addr().String())
	require.ErrorContains(t, err, "--port")
	again, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(health)))
	require.NoError(t, err, "the listener that could be had was closed")
	require.NoError(t, again.Close())
}

func TestV6Host(t *testing.T) { // metallb#1040
	_, err := listen(t.Context(), "2001:db8::4", 7472, "--port")
	require.ErrorContains(t, err, "[2001:db8::4]:7472")
}

func TestGossip(t *testing.T) {
	seeds := membership.Addresses()
	log := slog.New(slog.DiscardHandler)
	secret := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(secret, "secretkey"), []byte("abc"), 0o600))
	tests := map[string]struct {
		flags   GossipFlags
		cluster bool // the daemon runs in a cluster
		on      bool
		err     string
	}{
		"off without an address":              {GossipFlags{}, false, false, ""},
		"off in a cluster without a selector": {GossipFlags{Profile: "lan", BindAddr: "127.0.0.1", Port: 7946}, true, false, ""},
		"on beside a directory":               {GossipFlags{Profile: "lan", BindAddr: "127.0.0.1", Port: 7946}, false, true, ""},
		"on in a cluster":                     {GossipFlags{Profile: "lan", BindAddr: "127.0.0.1", Port: 7946, Labels: "app=x"}, true, true, ""},
		"encrypted":                           {GossipFlags{Profile: "lan", BindAddr: "127.0.0.1", Port: 7946, SecretKeyPath: secret}, false, true, ""},
		"no secret file (metallb#1544)":       {GossipFlags{Profile: "lan", BindAddr: "127.0.0.1", Port: 7946, SecretKeyPath: "/nowhere"}, false, false, "/nowhere/secretkey"},
		"fast":                                {GossipFlags{Profile: "fast", BindAddr: "127.0.0.1", Port: 7946}, false, true, ""},
		"no such profile":                     {GossipFlags{Profile: "hasty", BindAddr: "127.0.0.1", Port: 7946}, false, false, `"hasty"`},
		"two profiles":                        {GossipFlags{Profile: "fast", WAN: true, BindAddr: "127.0.0.1", Port: 7946}, false, false, "exclude each other"},
		"no address":                          {GossipFlags{Profile: "lan", BindAddr: "here", Port: 7946}, false, false, `"here"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := tt.flags.Cluster("node-1", tt.cluster, seeds, log)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.on, c != nil)
		})
	}
	var f GossipFlags
	fs := flag.NewFlagSet("speaker", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f.Register(fs)
	require.Error(t, fs.Parse([]string{"--ml-bindport", "79x"}))
}

func TestGossipPort(t *testing.T) {
	tests := map[string]struct {
		env  string
		args []string
		want uint16
		err  string
	}{
		"default":               {want: DefaultGossipPort},
		"environment":           {env: "8000", want: 8000},
		"flag":                  {args: []string{"--ml-bindport", "9000"}, env: "8000", want: 9000},
		"flag with the default": {args: []string{"--ml-bindport", "7946"}, env: "8000", want: 7946},
		"bad environment":       {env: "0", err: "METALLB_ML_BIND_PORT"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("METALLB_ML_BIND_PORT", tt.env)
			var f GossipFlags
			fs := flag.NewFlagSet("speaker", flag.ContinueOnError)
			f.Register(fs)
			require.NoError(t, fs.Parse(tt.args))
			err := f.Resolve()
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, f.Port)
		})
	}
}
