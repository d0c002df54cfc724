package daemon

import (
	"context"
	"fmt"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/heraldlb/herald/k8sadapter/metrics"
	"github.com/heraldlb/herald/k8sadapter/source"
)

// Kube returns the source that reads from the API server that the flags name, and who that server lets read the metrics.
// component and host are the source of its Events. client-go's log goes to log from now on.
func Kube(flags Flags, component, host string, log *slog.Logger) (*source.Kube, metrics.Authorizer, error) {
	namespace, err := flags.InNamespace()
	if err != nil {
		return nil, nil, err
	}
	source.RedirectKlog(log)
	rest, err := source.RESTConfig(flags.Kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; outside a cluster give --kubeconfig FILE or --manifests DIR", err)
	}
	rest.UserAgent, rest.QPS, rest.Burst = component, float32(flags.QPS), flags.Burst
	src, err := source.NewKube(source.KubeConfig{RESTConfig: rest, Namespace: namespace, Component: component, Host: host, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, nil, err
	}
	return src, metrics.APIAuthorizer{Client: client}, nil
}

// Owner returns what makes the status objects of this daemon go with its pod. Outside a pod, or when the pod cannot be
// read, they stay when it goes, and log says so.
func Owner(ctx context.Context, kube *source.Kube, podName string, log *slog.Logger) *metav1.OwnerReference {
	if podName == "" {
		return nil
	}
	owner, err := kube.PodOwner(ctx, podName)
	if err != nil {
		log.Warn("status objects will not go with this pod", "error", err)
		return nil
	}
	return owner
}
