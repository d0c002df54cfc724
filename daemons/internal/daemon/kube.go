package daemon

import (
	"fmt"
	"log/slog"

	"github.com/heraldlb/herald/k8sadapter/source"
)

// Kube returns the source that reads from the API server that the flags name. component is the source of its Events.
func Kube(flags Flags, component string, log *slog.Logger) (*source.Kube, error) {
	namespace, err := flags.InNamespace()
	if err != nil {
		return nil, err
	}
	rest, err := source.RESTConfig(flags.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; outside a cluster give --kubeconfig FILE or --manifests DIR", err)
	}
	return source.NewKube(source.KubeConfig{RESTConfig: rest, Namespace: namespace, Component: component, Logger: log})
}
