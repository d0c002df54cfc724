package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/announce"
)

func TestNamesAndValues(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(
		Client(func() Updates { return Updates{Updates: 7, Errors: 1, Loaded: true} }),
		Allocator(func() map[string]allocator.Usage {
			return map[string]allocator.Usage{"office": {
				V4: allocator.Count{Total: 4, Used: 1, Free: 3}, V6: allocator.Count{Total: 1 << 62, Used: 2},
			}}
		}),
		Announcements(func() []Announced { return []Announced{{"shop/web", "layer2", "node-1", "192.0.2.10"}} }),
		Layer2(func() announce.Stats {
			return announce.Stats{
				Addresses: []announce.AddrStats{{
					Addr: netip.MustParseAddr("192.0.2.10"), Requests: 3, Replies: 2, Gratuitous: 10,
					OnLinks: []announce.AddrLinkStats{{Link: "eth0", Conflicts: 1}, {Link: "eth1"}},
				}},
				Drops: map[announce.DropReason]uint64{announce.DropUnknown: 4},
			}
		}))
	const want = `
# HELP herald_layer2_conflicts_total Number of conflicts with other hosts that claimed the address.
# TYPE herald_layer2_conflicts_total counter
herald_layer2_conflicts_total{interface="eth0",ip="192.0.2.10"} 1
herald_layer2_conflicts_total{interface="eth1",ip="192.0.2.10"} 0
# HELP metallb_allocator_addresses_in_use_total Number of distinct addresses of the pool that Services hold.
# TYPE metallb_allocator_addresses_in_use_total gauge
metallb_allocator_addresses_in_use_total{pool="office"} 3
# HELP metallb_allocator_ipv4_addresses_total Number of usable IPv4 addresses of the pool.
# TYPE metallb_allocator_ipv4_addresses_total gauge
metallb_allocator_ipv4_addresses_total{pool="office"} 4
# HELP metallb_k8s_client_config_loaded_bool 1 if a configuration was loaded at least once.
# TYPE metallb_k8s_client_config_loaded_bool gauge
metallb_k8s_client_config_loaded_bool 1
# HELP metallb_k8s_client_config_stale_bool 1 if an object of the configuration is rejected and its last good version is in force.
# TYPE metallb_k8s_client_config_stale_bool gauge
metallb_k8s_client_config_stale_bool 0
# HELP metallb_k8s_client_update_errors_total Number of object updates that failed and are tried again.
# TYPE metallb_k8s_client_update_errors_total counter
metallb_k8s_client_update_errors_total 1
# HELP metallb_layer2_gratuitous_sent Number of gratuitous ARP and unsolicited NDP frames sent for the address.
# TYPE metallb_layer2_gratuitous_sent counter
metallb_layer2_gratuitous_sent{ip="192.0.2.10"} 10
# HELP metallb_layer2_requests_received Number of ARP and NDP requests for the address.
# TYPE metallb_layer2_requests_received counter
metallb_layer2_requests_received{ip="192.0.2.10"} 3
# HELP metallb_layer2_responses_sent Number of ARP and NDP replies sent for the address.
# TYPE metallb_layer2_responses_sent counter
metallb_layer2_responses_sent{ip="192.0.2.10"} 2
# HELP metallb_speaker_announced 1 for every address that this node announces.
# TYPE metallb_speaker_announced gauge
metallb_speaker_announced{ip="192.0.2.10",node="node-1",protocol="layer2",service="shop/web"} 1
`
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "herald_layer2_conflicts_total",
		"metallb_allocator_addresses_in_use_total", "metallb_allocator_ipv4_addresses_total",
		"metallb_k8s_client_config_loaded_bool", "metallb_k8s_client_config_stale_bool", "metallb_k8s_client_update_errors_total",
		"metallb_layer2_gratuitous_sent", "metallb_layer2_requests_received", "metallb_layer2_responses_sent",
		"metallb_speaker_announced"))
	count, err := testutil.GatherAndCount(reg)
	require.NoError(t, err)
	assert.Equal(t, 6+4+1+3+2+1+6, count)
}

// TestOwnNamesAreWellFormed lints the names that are ours: MetalLB's break the rules, and are kept.
func TestOwnNamesAreWellFormed(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(Layer2(func() announce.Stats {
		return announce.Stats{Addresses: []announce.AddrStats{{OnLinks: []announce.AddrLinkStats{{Link: "eth0"}}}}, Drops: map[announce.DropReason]uint64{announce.DropLink: 1}}
	}))
	latency := NewLatency("controller_decision", "How long a decision on a Service took.")
	latency.Observe(3 * time.Millisecond)
	reg.MustRegister(Orphans(func() uint64 { return 1 }), latency)
	problems, err := testutil.GatherAndLint(reg, "herald_layer2_drops_total", "herald_layer2_conflicts_total", "herald_layer2_errors_total",
		"herald_speaker_orphans", "herald_controller_decision_seconds")
	require.NoError(t, err)
	assert.Empty(t, problems)
}

type answer struct{ err error }

func (a answer) Authorize(context.Context, string) error { return a.err }

func TestWhoMayReadTheMetrics(t *testing.T) {
	tests := map[string]struct {
		auth   Authorizer
		header string
		want   int
	}{
		"anyone":          {nil, "", http.StatusOK},
		"no token":        {answer{}, "", http.StatusUnauthorized},
		"not a bearer":    {answer{}, "Basic abc", http.StatusUnauthorized},
		"allowed":         {answer{}, "Bearer t", http.StatusOK},
		"unknown":         {answer{ErrUnauthenticated}, "Bearer t", http.StatusUnauthorized},
		"not allowed":     {answer{ErrForbidden}, "Bearer t", http.StatusForbidden},
		"cannot be asked": {answer{errors.New("no API server")}, "Bearer t", http.StatusServiceUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			if tt.header != "" {
				r.Header.Set("Authorization", tt.header)
			}
			w := httptest.NewRecorder()
			Handler(prometheus.NewRegistry(), tt.auth).ServeHTTP(w, r)
			assert.Equal(t, tt.want, w.Code)
		})
	}
}

func TestAPIAuthorizer(t *testing.T) {
	client := fake.NewClientset()
	known, allowed := true, true
	client.PrependReactor("create", "tokenreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			Authenticated: known, User: authenticationv1.UserInfo{Username: "prometheus", Groups: []string{"g"}},
		}}, nil
	})
	var asked authorizationv1.SubjectAccessReviewSpec
	client.PrependReactor("create", "subjectaccessreviews", func(a k8stesting.Action) (bool, runtime.Object, error) {
		review, _ := a.(k8stesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		asked = review.Spec
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
	auth := APIAuthorizer{Client: client}
	require.NoError(t, auth.Authorize(t.Context(), "t"))
	assert.Equal(t, "prometheus", asked.User)
	assert.Equal(t, &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}, asked.NonResourceAttributes)
	allowed = false
	require.ErrorIs(t, auth.Authorize(t.Context(), "t"), ErrForbidden)
	known = false
	require.ErrorIs(t, auth.Authorize(t.Context(), "t"), ErrUnauthenticated)
}

func TestTLS(t *testing.T) {
	cfg, err := TLS("")
	require.NoError(t, err)
	assert.EqualValues(t, tls.VersionTLS13, cfg.MinVersion)
	srv := httptest.NewUnstartedServer(Handler(prometheus.NewRegistry(), nil))
	srv.TLS = cfg
	srv.StartTLS()
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is self-signed
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/metrics", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	dir := t.TempDir()
	_, err = TLS(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Contains(t, err.Error(), filepath.Join(dir, "tls.crt"))
}
