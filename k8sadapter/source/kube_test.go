package source

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// request is one that the API server of a test got.
type request struct {
	Method, Path, Query, ContentType, Body string
}

// apiServer answers with JSON what answer returns, and remembers requests.
type apiServer struct {
	mu       sync.Mutex
	requests []request
}

func newAPIServer(t *testing.T, answer func(request) (int, any)) (*apiServer, *rest.Config) {
	t.Helper()
	s := &apiServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got := request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), string(body)}
		s.mu.Lock()
		s.requests = append(s.requests, got)
		s.mu.Unlock()
		status, value := answer(got)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "old field"`)
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(value); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL, QPS: 1000, Burst: 1000, TLSClientConfig: rest.TLSClientConfig{}}
}

func (s *apiServer) got() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

func newKube(t *testing.T, config *rest.Config) (*Kube, *logbook) {
	t.Helper()
	log := &logbook{}
	// A transport of its own, whose idle connections end with the test.
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	config.Transport = transport
	k, err := NewKube(KubeConfig{RESTConfig: config, Component: "metallb-controller", Logger: log.logger()})
	require.NoError(t, err)
	return k, log
}

func TestNewKubeChecksItsConfig(t *testing.T) {
	_, err := NewKube(KubeConfig{})
	require.ErrorContains(t, err, "RESTConfig is required")
	require.ErrorContains(t, err, "the Component is required")
}

func webOf(rv string) *corev1.Service {
	svc := &corev1.Service{}
	svc.APIVersion, svc.Kind = "v1", "Service"
	svc.Namespace, svc.Name, svc.UID, svc.ResourceVersion = "shop", "web", "u1", rv
	svc.Annotations = map[string]string{"note": "theirs"}
	return svc
}

func TestPatchBodies(t *testing.T) {
	proxy := corev1.LoadBalancerIPModeProxy
	with := func(change func(*corev1.Service)) *corev1.Service {
		svc := webOf("7")
		change(svc)
		return svc
	}
	held := with(func(svc *corev1.Service) {
		svc.Annotations["metallb.io/ip-allocated-from-pool"] = "public"
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &proxy, Ports: []corev1.PortStatus{{Port: 80, Protocol: "TCP"}}}}
	})
	tests := []struct {
		name       string
		prev, next *corev1.Service
		want       string // "": no request
	}{
		{"nothing", webOf("7"), webOf("7"), ""},
		{
			"foreign changes only", webOf("7"),
			with(func(svc *corev1.Service) {
				svc.Annotations["note"] = "ours"
				svc.Spec.Type = "LoadBalancer"
				svc.Labels = map[string]string{"a": "b"}
				svc.Status.Conditions = []metav1.Condition{{Type: "x"}}
			}), "",
		},
		{
			"an address", webOf("7"), held,
			`{"metadata":{"uid":"u1","resourceVersion":"7","annotations":{"metallb.io/ip-allocated-from-pool":"public"}},
			  "status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"Proxy","ports":[{"port":80,"protocol":"TCP"}]}]}}}`,
		},
		{
			"a second address keeps what others added to the first", held,
			with(func(svc *corev1.Service) {
				svc.Annotations["metallb.io/ip-allocated-from-pool"] = "public"
				svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}}
			}),
			`{"metadata":{"uid":"u1","resourceVersion":"7"},
			  "status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"Proxy","ports":[{"port":80,"protocol":"TCP"}]},{"ip":"2001:db8::1"}]}}}`,
		},
		{
			"cleared", held, webOf("7"),
			`{"metadata":{"uid":"u1","resourceVersion":"7","annotations":{"metallb.io/ip-allocated-from-pool":null}},
			  "status":{"loadBalancer":{"ingress":null}}}`,
		},
		{
			"the pool alone", held,
			with(func(svc *corev1.Service) {
				held.DeepCopyInto(svc)
				svc.Annotations["metallb.io/ip-allocated-from-pool"] = "other"
			}),
			`{"metadata":{"uid":"u1","resourceVersion":"7","annotations":{"metallb.io/ip-allocated-from-pool":"other"}}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server, config := newAPIServer(t, func(request) (int, any) { return http.StatusOK, webOf("8") })
			k, log := newKube(t, config)
			got, err := k.PatchService(t.Context(), tt.prev, tt.next)
			require.NoError(t, err)
			if tt.want == "" {
				assert.Empty(t, server.got())
				assert.Equal(t, tt.prev, got)
				return
			}
			assert.Equal(t, "8", got.ResourceVersion)
			require.Len(t, server.got(), 1)
			sent := server.got()[0]
			assert.Equal(t, "PATCH /api/v1/namespaces/shop/services/web/status", sent.Method+" "+sent.Path)
			assert.Equal(t, "application/merge-patch+json", sent.ContentType)
			assert.Empty(t, sent.Query, "never forced")
			assert.JSONEq(t, tt.want, sent.Body)
			assert.Equal(t, 1, log.count(`msg="API server warns" message="old field"`))
		})
	}
}

func TestPatchOfAPool(t *testing.T) {
	pool := &v1beta1.IPAddressPool{}
	pool.APIVersion, pool.Kind = "metallb.io/v1beta1", "IPAddressPool"
	pool.Namespace, pool.Name, pool.UID, pool.ResourceVersion = "metallb-system", "public", "u1", "7"
	next := pool.DeepCopy()
	next.Status = v1beta1.IPAddressPoolStatus{AssignedIPv4: 1}
	server, config := newAPIServer(t, func(request) (int, any) { return http.StatusOK, next })
	k, _ := newKube(t, config)
	same, err := k.PatchPoolStatus(t.Context(), pool, pool.DeepCopy())
	require.NoError(t, err)
	assert.Equal(t, pool, same)
	require.Empty(t, server.got())
	got, err := k.PatchPoolStatus(t.Context(), pool, next)
	require.NoError(t, err)
	assert.EqualValues(t, 1, got.Status.AssignedIPv4)
	require.Len(t, server.got(), 1)
	sent := server.got()[0]
	assert.Equal(t, "PATCH /apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools/public/status", sent.Method+" "+sent.Path)
	assert.JSONEq(t, `{"metadata":{"uid":"u1","resourceVersion":"7"},"status":{"assignedIPv4":1,"assignedIPv6":0,"availableIPv4":0,"availableIPv6":0}}`, sent.Body)
}

func TestKubeConflictIsOne(t *testing.T) {
	_, config := newAPIServer(t, func(request) (int, any) {
		return http.StatusConflict, apierrors.NewConflict(corev1.Resource("services"), "web", os.ErrExist).Status()
	})
	k, _ := newKube(t, config)
	next := webOf("7")
	next.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	_, err := k.PatchService(t.Context(), webOf("7"), next)
	assert.True(t, apierrors.IsConflict(err), "%v", err)
}

func TestKubeListsTheRightPlaces(t *testing.T) {
	lists := map[Kind]string{
		Services:         "/api/v1/services",
		EndpointSlices:   "/apis/discovery.k8s.io/v1/endpointslices",
		Nodes:            "/api/v1/nodes",
		Namespaces:       "/api/v1/namespaces",
		IPAddressPools:   "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools",
		L2Advertisements: "/apis/metallb.io/v1beta1/namespaces/metallb-system/l2advertisements",

		BGPPeers:          "/apis/metallb.io/v1beta2/namespaces/metallb-system/bgppeers",
		BGPAdvertisements: "/apis/metallb.io/v1beta1/namespaces/metallb-system/bgpadvertisements",
		BFDProfiles:       "/apis/metallb.io/v1beta1/namespaces/metallb-system/bfdprofiles",
		Communities:       "/apis/metallb.io/v1beta1/namespaces/metallb-system/communities",
		Secrets:           "/api/v1/namespaces/metallb-system/secrets",
	}
	require.Len(t, lists, len(Kinds()))
	for kind, path := range lists {
		t.Run(string(kind), func(t *testing.T) {
			info, _ := infoOf(kind)
			server, config := newAPIServer(t, func(request) (int, any) {
				typed, err := info.list([]runtime.Object{info.newObject()}, "5")
				if err != nil {
					t.Error(err)
				}
				typed.GetObjectKind().SetGroupVersionKind(info.gvk.GroupVersion().WithKind(info.gvk.Kind + "List"))
				return http.StatusOK, typed
			})
			k, _ := newKube(t, config)
			got, err := list(t, k.ListerWatcher(kind))
			require.NoError(t, err)
			assert.IsType(t, info.newList(), got)
			assert.Equal(t, path, server.got()[0].Path)
			assert.Equal(t, kind == Secrets, strings.Contains(server.got()[0].Query, "fieldSelector=type%3Dkubernetes.io%2Fbasic-auth"))
			if kind != Services {
				return
			}
			_, err = cache.ToListerWatcherWithContext(k.ListerWatcher(kind)).ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			require.NoError(t, err)
			assert.Empty(t, server.got()[1].Query, "a first list sees every write")
		})
	}
}

func TestKubeEvents(t *testing.T) {
	var created, patched sync.Map
	server, config := newAPIServer(t, func(r request) (int, any) {
		event := &corev1.Event{}
		if r.Method == http.MethodPatch {
			patched.Store(r.Path, r.Body)
			event.Name = filepath.Base(r.Path)
			return http.StatusOK, event
		}
		created.Store(r.Path, r.Body)
		event.Name, event.Namespace, event.ResourceVersion = "web.1", "shop", "9"
		event.Count = 1
		return http.StatusCreated, event
	})
	k, _ := newKube(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	web := webOf("7")
	web.TypeMeta = metav1.TypeMeta{}
	k.Event(web, "Warning", "AllocationFailed", "no pool has a free address")
	eventually(t, "created", func() bool { return len(server.got()) == 1 })
	k.Event(web, "Warning", "AllocationFailed", "no pool has a free address")
	cancel() // what waits is still delivered
	require.NoError(t, <-done)
	requests := server.got()
	require.Len(t, requests, 2)
	assert.Equal(t, "POST /api/v1/namespaces/shop/events", requests[0].Method+" "+requests[0].Path)
	assert.Equal(t, "PATCH", requests[1].Method, "a repeated event is counted, not piled up")
	assert.Contains(t, requests[1].Body, `"count":2`)
	require.ErrorContains(t, k.Run(t.Context()), "once")
}

func TestEventsNeverBlockOrFail(t *testing.T) {
	_, config := newAPIServer(t, func(request) (int, any) {
		return http.StatusForbidden, apierrors.NewForbidden(corev1.Resource("events"), "", os.ErrPermission).Status()
	})
	k, log := newKube(t, config)
	for range 2 * eventQueue {
		k.Event(webOf("7"), "Normal", "R", "m")
	}
	assert.Positive(t, log.count("the queue is full"))
	k.Event(&corev1.ServiceList{}, "Normal", "R", "m")
	assert.Equal(t, 1, log.count("which has no metadata"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, k.Run(ctx))
	assert.Positive(t, log.count("event not delivered"))
	assert.Zero(t, log.count("level=WARN msg=\"event"), "nobody has to act on it")
}

func TestPodSeeds(t *testing.T) {
	pod := func(ip string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{PodIP: ip, Phase: phase}}
	}
	server, config := newAPIServer(t, func(request) (int, any) {
		return http.StatusOK, corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			Items:    []corev1.Pod{pod("10.0.0.2", "Running"), pod("", "Pending"), pod("fd00::1", "Running"), pod("10.0.0.1", "Running"), pod("10.0.0.9", "Failed")},
		}
	})
	k, _ := newKube(t, config)
	_, err := k.PodSeeds("a=(", 1)
	require.ErrorContains(t, err, "label selector of the speakers")
	seeds, err := k.PodSeeds("component=speaker", 7946)
	require.NoError(t, err)
	got, err := seeds.Seeds(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.1:7946"), netip.MustParseAddrPort("10.0.0.2:7946"), netip.MustParseAddrPort("[fd00::1]:7946"),
	}, got)
	assert.Equal(t, "/api/v1/namespaces/metallb-system/pods", server.got()[0].Path)
	assert.Equal(t, "labelSelector=component%3Dspeaker", server.got()[0].Query)
}

func TestNodeSeeds(t *testing.T) {
	m := newManifests(t, map[string]string{"n.yaml": lines("apiVersion: v1", "kind: Node", "metadata: {name: n1}", "status:", "  addresses:",
		"  - {type: Hostname, address: n1}", "  - {type: InternalIP, address: 10.0.0.1}", "  - {type: InternalIP, address: 'fd00::1'}", "  - {type: ExternalIP, address: 192.0.2.1}")})
	f, err := NewFiles(FilesConfig{Dir: m.path})
	require.NoError(t, err)
	got, err := f.NodeSeeds(7946).Seeds(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7946"), netip.MustParseAddrPort("[fd00::1]:7946")}, got)
}

func TestRESTConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"k","cluster":{"server":"https://192.0.2.1:6443"}}],"contexts":[{"name":"c","context":{"cluster":"k"}}]}`), 0o600))
	config, err := RESTConfig(path)
	require.NoError(t, err)
	assert.Equal(t, "https://192.0.2.1:6443", config.Host)
	assert.EqualValues(t, 50, config.QPS)
	_, err = RESTConfig(path + ".none")
	require.ErrorContains(t, err, "no API server")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err = RESTConfig("")
	require.ErrorIs(t, err, rest.ErrNotInCluster)
}

func TestStrip(t *testing.T) {
	svc := webOf("1")
	svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	got, err := Strip(svc)
	require.NoError(t, err)
	assert.Empty(t, got.(*corev1.Service).ManagedFields)
	assert.Equal(t, "theirs", got.(*corev1.Service).Annotations["note"])
	tombstone := cache.DeletedFinalStateUnknown{Key: "a"}
	got, err = Strip(tombstone)
	require.NoError(t, err)
	assert.Equal(t, tombstone, got)
}

func TestKlogGoesToSlog(t *testing.T) {
	log := &logbook{}
	ctx := WithKlog(t.Context(), log.logger())
	klog.FromContext(ctx).Info("hello", "from", "client-go")
	assert.Equal(t, 1, log.count("level=INFO msg=hello from=client-go"))

	RedirectKlog(log.logger())
	t.Cleanup(klog.ClearLogger)
	klog.InfoS("hello", "from", "nowhere")
	assert.Equal(t, 1, log.count("level=INFO msg=hello from=nowhere"))
}

// both has the methods that the two providers share.
type both interface {
	ListerWatcher(kind Kind) cache.ListerWatcher
	PatchService(ctx context.Context, prev, next *corev1.Service) (*corev1.Service, error)
	PatchPoolStatus(ctx context.Context, prev, next *v1beta1.IPAddressPool) (*v1beta1.IPAddressPool, error)
	Event(obj runtime.Object, eventType, reason, message string)
	Run(ctx context.Context) error
}

var (
	_ both = (*Kube)(nil)
	_ both = (*Files)(nil)
)
