package source

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// PodSeeds finds the other speakers of a cluster: the pods of MetalLB's
// namespace that a label selector matches.
type PodSeeds struct {
	kube     *Kube
	selector string
	port     uint16
}

// PodSeeds returns the seeds that selector (such as
// "app=metallb,component=speaker") matches, at a gossip port.
func (k *Kube) PodSeeds(selector string, port uint16) (*PodSeeds, error) {
	if _, err := labels.Parse(selector); err != nil {
		return nil, fmt.Errorf("source: label selector of the speakers: %w", err)
	}
	return &PodSeeds{kube: k, selector: selector, port: port}, nil
}

// Seeds lists the pods. Pods that have no address yet, or have ended, are left
// out.
func (s *PodSeeds) Seeds(ctx context.Context) ([]netip.AddrPort, error) {
	pods, err := s.kube.client.CoreV1().Pods(s.kube.namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return nil, fmt.Errorf("source: speakers %q in %s: %w", s.selector, s.kube.namespace, err)
	}
	var seeds []netip.AddrPort
	for i := range pods.Items {
		status := &pods.Items[i].Status
		if status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
			continue
		}
		seeds = appendSeed(seeds, status.PodIP, s.port)
	}
	return sortSeeds(seeds), nil
}

// NodeSeeds finds the other speakers where no pods are: the InternalIP
// addresses of the Node manifests.
type NodeSeeds struct {
	files *Files
	port  uint16
}

// NodeSeeds returns the nodes' addresses at a gossip port.
func (f *Files) NodeSeeds(port uint16) *NodeSeeds {
	return &NodeSeeds{files: f, port: port}
}

// Seeds reads the Node manifests in force.
func (s *NodeSeeds) Seeds(ctx context.Context) ([]netip.AddrPort, error) {
	if err := s.files.ensureLoaded(ctx); err != nil {
		return nil, err
	}
	var seeds []netip.AddrPort
	nodes, _ := s.files.store.snapshot(Nodes)
	for _, obj := range nodes {
		for _, address := range obj.(*corev1.Node).Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				seeds = appendSeed(seeds, address.Address, s.port)
			}
		}
	}
	return sortSeeds(seeds), nil
}

// appendSeed adds an address that is one.
func appendSeed(seeds []netip.AddrPort, text string, port uint16) []netip.AddrPort {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return seeds // empty before the pod has an address
	}
	return append(seeds, netip.AddrPortFrom(addr.Unmap(), port))
}

func sortSeeds(seeds []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(seeds, netip.AddrPort.Compare)
	return slices.Compact(seeds)
}
