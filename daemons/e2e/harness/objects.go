package harness

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// PoolAnnotation is where the controller notes the pool of an address.
const PoolAnnotation = "metallb.io/ip-allocated-from-pool"

// resourceOf names a kind of metallb.io, written here and not taken from Herald's
// own types: what the server serves is held against the names that users write.
func resourceOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "metallb.io", Version: "v1beta1", Resource: plural}
}

func (s *Server) pools() dynamic.ResourceInterface {
	return s.Dynamic.Resource(resourceOf("ipaddresspools")).Namespace(Namespace)
}

func (s *Server) advertisements() dynamic.ResourceInterface {
	return s.Dynamic.Resource(resourceOf("l2advertisements")).Namespace(Namespace)
}

// CreatePool makes an IPAddressPool.
func (s *Server) CreatePool(t testing.TB, name string, addresses ...string) {
	t.Helper()
	pool := custom("IPAddressPool", name)
	require.NoError(t, unstructured.SetNestedStringSlice(pool.Object, addresses, "spec", "addresses"))
	_, err := s.pools().Create(t.Context(), pool, metav1.CreateOptions{})
	require.NoError(t, err)
}

// Pool returns an IPAddressPool.
func (s *Server) Pool(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	pool, err := s.pools().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return pool
}

// DeletePool deletes an IPAddressPool.
func (s *Server) DeletePool(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, s.pools().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// CreateL2Advertisement makes one that announces every pool on every node.
func (s *Server) CreateL2Advertisement(t testing.TB, name string) {
	t.Helper()
	object := custom("L2Advertisement", name)
	object.Object["spec"] = map[string]any{}
	_, err := s.advertisements().Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
}

// AwaitL2Status waits until a ServiceL2Status says which node announces a Service,
// and returns its name.
func (s *Server) AwaitL2Status(t testing.TB, service, node string) string {
	t.Helper()
	statuses := s.Dynamic.Resource(resourceOf("servicel2statuses")).Namespace(Namespace)
	name := ""
	Eventually(t, "a ServiceL2Status of "+service, func() string {
		list, err := statuses.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, object := range list.Items {
			status, _ := object.Object["status"].(map[string]any)
			if status["serviceName"] == service && status["node"] == node {
				name = object.GetName()
				return ""
			}
		}
		return fmt.Sprintf("there are %d of others", len(list.Items))
	})
	return name
}

// AwaitConfigurationState waits until a daemon has said what it thinks of its
// configuration: "controller", or "speaker-" and the name of the node.
func (s *Server) AwaitConfigurationState(t testing.TB, name string) {
	t.Helper()
	states := s.Dynamic.Resource(resourceOf("configurationstates")).Namespace(Namespace)
	Eventually(t, "ConfigurationState "+name, func() string {
		object, err := states.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		if err != nil || len(conditions) == 0 {
			return fmt.Sprintf("it has no conditions: %v", err)
		}
		return ""
	})
}

func custom(kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "metallb.io/v1beta1", "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": Namespace},
	}}
}

// ServiceOption changes a Service before it is made.
type ServiceOption func(*corev1.Service)

// WithAnnotation sets an annotation.
func WithAnnotation(key, value string) ServiceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

// CreateService makes a Service of type LoadBalancer with one port, 80, in the
// namespace default.
func (s *Server) CreateService(t testing.TB, name string, options ...ServiceOption) *corev1.Service {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}
	for _, option := range options {
		option(service)
	}
	created, err := s.Kube.CoreV1().Services(service.Namespace).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

// CreateHolder makes a Service that holds an address already, as an earlier
// controller left it.
func (s *Server) CreateHolder(t testing.TB, name, pool, address string) *corev1.Service {
	t.Helper()
	service := s.CreateService(t, name, WithAnnotation(PoolAnnotation, pool))
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	held, err := s.Kube.CoreV1().Services(service.Namespace).UpdateStatus(t.Context(), service, metav1.UpdateOptions{})
	require.NoError(t, err)
	return held
}

// Service returns a Service of the namespace default.
func (s *Server) Service(t testing.TB, name string) *corev1.Service {
	t.Helper()
	service, err := s.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return service
}

// DeleteService deletes a Service of the namespace default.
func (s *Server) DeleteService(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, s.Kube.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// Addresses returns the addresses in the status of a Service, joined by commas.
func Addresses(service *corev1.Service) string {
	var all []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		all = append(all, ingress.IP)
	}
	return strings.Join(all, ",")
}

// AwaitAddresses waits until the status of a Service holds exactly these
// addresses, joined by commas; "" waits until it holds none.
func (s *Server) AwaitAddresses(t testing.TB, name, want string) *corev1.Service {
	t.Helper()
	var service *corev1.Service
	Eventually(t, fmt.Sprintf("service %s has the addresses %q", name, want), func() string {
		service = s.Service(t, name)
		if got := Addresses(service); got != want {
			return fmt.Sprintf("it has %q", got)
		}
		return ""
	})
	return service
}

// AwaitEvent waits for an Event about a Service and returns it.
func (s *Server) AwaitEvent(t testing.TB, service *corev1.Service, reason string) corev1.Event {
	t.Helper()
	var found corev1.Event
	Eventually(t, fmt.Sprintf("event %s about service %s", reason, service.Name), func() string {
		var reasons []string
		for _, event := range s.Events(t, service) {
			if event.Reason == reason {
				found = event
				return ""
			}
			reasons = append(reasons, event.Reason)
		}
		return fmt.Sprintf("there are %v", reasons)
	})
	return found
}

// Events returns the Events about one Service, by its UID.
func (s *Server) Events(t testing.TB, service *corev1.Service) []corev1.Event {
	t.Helper()
	list, err := s.Kube.CoreV1().Events(service.Namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(service.UID),
	})
	require.NoError(t, err)
	return list.Items
}

// Settle waits until the controller has dealt with everything that happened
// before: it makes a Service that asks for an address of a pool that is there for
// it alone, waits until it has it, and removes both. The controller has one queue.
func (s *Server) Settle(t testing.TB) {
	t.Helper()
	const name, pool, address = "settle", "settle", "198.51.100.1"
	object := custom("IPAddressPool", pool)
	object.Object["spec"] = map[string]any{"addresses": []any{address + "/32"}, "autoAssign": false}
	_, err := s.pools().Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	s.CreateService(t, name, WithAnnotation("metallb.io/address-pool", pool))
	s.AwaitAddresses(t, name, address)
	s.DeleteService(t, name)
	s.DeletePool(t, pool)
}

// CreateNode makes a Node that is ready and has one internal address.
func (s *Server) CreateNode(t testing.TB, name string, address netip.Addr) {
	t.Helper()
	node, err := s.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	_, err = s.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// CreateEndpoint gives a Service one ready endpoint on a node, as the
// controller manager would.
func (s *Server) CreateEndpoint(t testing.TB, service, node string, address netip.Addr) {
	t.Helper()
	ready, port, protocol := true, int32(8080), corev1.ProtocolTCP
	_, err := s.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: service + "-", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address.String()}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Port: &port, Protocol: &protocol}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// SpeakerSelector selects the pods that [Server.CreateSpeakerPod] makes.
const SpeakerSelector = "app=metallb,component=speaker"

// CreateSpeakerPod makes the Pod of a speaker, by which the others find it.
func (s *Server) CreateSpeakerPod(t testing.TB, node string, address netip.Addr) {
	t.Helper()
	pods := s.Kube.CoreV1().Pods(Namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "speaker-" + node, Labels: map[string]string{"app": "metallb", "component": "speaker"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true,
			Containers: []corev1.Container{{Name: "speaker", Image: "speaker"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = address.String()
	pod.Status.PodIPs = []corev1.PodIP{{IP: address.String()}}
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}
