package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// KubeConfig configures the provider that talks to an API server.
type KubeConfig struct {
	// RESTConfig says where the API server is. Required; it is copied.
	RESTConfig *rest.Config
	// Namespace is MetalLB's: metallb.io objects are read there only, and pod
	// seeds come from there. Empty: DefaultNamespace.
	Namespace string
	// Component and Host are the source of the events: "metallb-controller", or
	// "metallb-speaker" and the node. Component is required.
	Component, Host string
	// Logger receives the API server's warnings, and at Debug what became of
	// events that could not be delivered. Nil discards.
	Logger *slog.Logger
}

// Kube serves the objects of an API server. All methods are safe for
// concurrent use.
type Kube struct {
	namespace string
	logger    *slog.Logger
	client    kubernetes.Interface
	core      rest.Interface
	discovery rest.Interface
	metallb   rest.Interface
	metallb2  rest.Interface // v1beta2
	events    *eventSender
	running   atomic.Bool
}

// NewKube checks cfg and builds the clients. It sends nothing.
func NewKube(cfg KubeConfig) (*Kube, error) {
	var errs []error
	if cfg.RESTConfig == nil {
		errs = append(errs, errors.New("RESTConfig is required"))
	}
	if cfg.Component == "" {
		errs = append(errs, errors.New("the Component is required: it names the source of the events"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("source: kube: %w", err)
	}
	setIfZero(&cfg.Namespace, DefaultNamespace)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	config := rest.CopyConfig(cfg.RESTConfig)
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandlerWithContext = warningLogger{cfg.Logger}
	}
	metallb, err := metallbClient(config, v1beta1.GroupVersion(), v1beta1.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("source: kube: client of metallb.io/v1beta1: %w", err)
	}
	metallb2, err := metallbClient(config, v1beta2.GroupVersion(), v1beta2.AddToScheme)
	if err != nil {
		return nil, fmt.Errorf("source: kube: client of metallb.io/v1beta2: %w", err)
	}
	// The core kinds come as protobuf, which costs a fraction of JSON to read.
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("source: kube: client: %w", err)
	}
	return &Kube{
		namespace: cfg.Namespace,
		logger:    cfg.Logger,
		client:    client,
		core:      client.CoreV1().RESTClient(),
		discovery: client.DiscoveryV1().RESTClient(),
		metallb:   metallb,
		metallb2:  metallb2,
		events: newEventSender(client.CoreV1(),
			corev1.EventSource{Component: cfg.Component, Host: cfg.Host}, cfg.Logger),
	}, nil
}

// metallbClient builds a REST client for the kinds of a version of metallb.io,
// which an API server speaks in JSON only.
func metallbClient(config *rest.Config, version schema.GroupVersion, register func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := register(scheme); err != nil {
		return nil, err
	}
	metallb := rest.CopyConfig(config)
	metallb.GroupVersion = &version
	metallb.APIPath = "/apis"
	metallb.ContentType = runtime.ContentTypeJSON
	metallb.AcceptContentTypes = runtime.ContentTypeJSON
	metallb.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if metallb.UserAgent == "" {
		metallb.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return rest.RESTClientFor(metallb)
}

// ListerWatcher serves a kind to client-go's reflectors and informers: all
// objects of the cluster, but metallb.io objects of MetalLB's namespace only.
// The first list of Services is a quorum read. A kind of BGP that the API server
// does not serve counts as empty until it does.
func (k *Kube) ListerWatcher(kind Kind) cache.ListerWatcher {
	info, ok := infoOf(kind)
	if !ok {
		panic(fmt.Sprintf("source: no such kind: %q", kind))
	}
	client, namespace, filter := k.core, metav1.NamespaceAll, fields.Everything()
	if info.scope == metallbScoped {
		client, namespace = k.metallb, k.namespace
	}
	switch kind {
	case EndpointSlices:
		client = k.discovery
	case BGPPeers:
		client = k.metallb2
	case Secrets:
		client, filter = k.core, fields.OneTermEqualSelector("type", string(corev1.SecretTypeBasicAuth))
	default: // of the core group
	}
	lw := cache.NewListWatchFromClient(client, string(kind), namespace, filter)
	switch {
	case kind == Services:
		return quorumFirst(lw)
	case info.optional:
		return &optional{ListerWatcherWithContext: lw, info: info, logger: k.logger, retry: absentRetry}
	}
	return lw
}

// quorumFirst makes a reflector's first list a read of what is committed, not of what some API server remembers: a
// controller that starts, or takes over, must see the last writes of the one before it, or it gives their addresses
// away. client-go asks for any version ("0") at first.
func quorumFirst(lw *cache.ListWatch) *cache.ListWatch {
	list := lw.ListWithContextFunc
	lw.ListWithContextFunc = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if options.ResourceVersion == "0" {
			options.ResourceVersion = ""
		}
		return list(ctx, options)
	}
	return lw
}

// MetalLB returns the client of metallb.io/v1beta1, for what is no source of decisions, such as package status.
func (k *Kube) MetalLB() rest.Interface { return k.metallb }

// Namespace returns MetalLB's namespace.
func (k *Kube) Namespace() string { return k.namespace }

// PodOwner returns a reference that makes an object of MetalLB's namespace go with a pod.
func (k *Kube) PodOwner(ctx context.Context, name string) (*metav1.OwnerReference, error) {
	pod, err := k.client.CoreV1().Pods(k.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("source: own pod %s/%s: %w", k.namespace, name, err)
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}, nil
}

// Event queues a core/v1 Event about obj. It never blocks: with too many
// waiting it is dropped. Run delivers.
func (k *Kube) Event(obj runtime.Object, eventType, reason, message string) {
	k.events.add(obj, eventType, reason, message)
}

// Run delivers events until ctx ends, and then for a moment those that still
// wait. Events that cannot be delivered are dropped, with a line at Debug: no
// decision depends on them. Run may be called once.
func (k *Kube) Run(ctx context.Context) error {
	if k.running.Swap(true) {
		return errors.New("source: kube: Run may be called once")
	}
	k.events.run(ctx)
	return nil
}

// warningLogger hands the API server's Warning headers on.
type warningLogger struct{ logger *slog.Logger }

func (w warningLogger) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	w.logger.WarnContext(ctx, "API server warns", "message", text)
}
