package source

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// RESTOptions says how to reach an API server.
type RESTOptions struct {
	// Kubeconfig is a file. Empty: the service account of the pod, found as
	// every client does by KUBERNETES_SERVICE_HOST and _PORT and the files that
	// the kubelet mounts.
	Kubeconfig string
	// QPS and Burst limit the requests of this client. Zero: 50 and 100.
	QPS   float32
	Burst int
	// UserAgent names the client in audit logs. Empty: client-go's default.
	UserAgent string
}

// RESTConfig finds the API server.
func RESTConfig(options RESTOptions) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if options.Kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("source: no API server (outside a pod name a file with --kubeconfig, or work without one with --manifests): %w", err)
	}
	setIfZero(&options.QPS, 50)
	setIfZero(&options.Burst, 100)
	config.QPS, config.Burst = options.QPS, options.Burst
	if options.UserAgent != "" {
		config.UserAgent = options.UserAgent
	}
	return config, nil
}

// Strip is an informer's transform that drops what no decision reads and what
// is often the larger part of an object: metadata.managedFields.
func Strip(obj any) (any, error) {
	if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return obj, nil
	}
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// WithKlog returns a context that makes client-go, which logs through klog,
// log to logger: what is started with the context (an informer's
// RunWithContext, for one) then does so. Nothing global is touched.
func WithKlog(ctx context.Context, logger *slog.Logger) context.Context {
	return klog.NewContext(ctx, klogBridge(logger))
}

// RedirectKlog makes logger the process-wide destination of klog, for what
// client-go logs outside any context. It changes global state, as klog has no
// other kind: only a program's main should call it, once, before anything else
// runs.
func RedirectKlog(logger *slog.Logger) {
	klog.SetLoggerWithOptions(klogBridge(logger), klog.ContextualLogger(true))
}

func klogBridge(logger *slog.Logger) logr.Logger {
	return logr.FromSlogHandler(logger.Handler())
}
