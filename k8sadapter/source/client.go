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

// RESTConfig finds the API server: in a kubeconfig file, or, when that is
// empty, from the service account of the pod, found as every client does by
// KUBERNETES_SERVICE_HOST and _PORT and the files that the kubelet mounts.
//
// QPS and Burst of the result are 50 and 100, and UserAgent is client-go's;
// the caller may set others before the first use.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("source: no API server: %w", err)
	}
	config.QPS, config.Burst = 50, 100
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
