package speaker_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/speaker"
	"github.com/heraldlb/herald/membership"
)

const manifests = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: office, namespace: metallb-system}
spec: {addresses: [192.0.2.0/24]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: office, namespace: metallb-system}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, labels: {node.kubernetes.io/exclude-from-external-load-balancers: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: node-3}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, annotations: {metallb.io/ip-allocated-from-pool: office}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.10}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.7], nodeName: node-1}]
`

// load reads the manifests by way of a directory.
func load() (*source.Set, error) {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(manifests), 0o600); err != nil {
		return nil, err
	}
	src, err := source.NewFiles(source.FilesConfig{Dir: dir})
	if err != nil {
		return nil, err
	}
	return src.Load(context.Background())
}

// Decide is a pure function: the same snapshot gives the same owner on every node, with the reason of each node that is
// out.
func ExampleDecide() {
	set, err := load()
	if err != nil {
		log.Fatal(err)
	}
	var store config.Store
	snap := speaker.Snapshot{
		Self: "node-1",
		Config: store.Update(config.Objects{
			Pools: set.IPAddressPools, L2Advertisements: set.L2Advertisements, Namespaces: set.Namespaces,
		}),
		Nodes:    make(map[string]*corev1.Node),
		Members:  []membership.Member{{Name: "node-1", Eligible: true}, {Name: "node-2", Eligible: true}}, // node-3 is dead
		Services: set.Services,
		Slices: map[types.NamespacedName][]*discoveryv1.EndpointSlice{
			{Namespace: "shop", Name: "web"}: set.EndpointSlices,
		},
	}
	for _, n := range set.Nodes {
		snap.Nodes[n.Name] = n
	}
	for _, d := range speaker.Decide(snap) {
		if d.Protocol == speaker.Layer2 {
			fmt.Println(d.Service, d.Address, "by", d.Announcer)
			fmt.Println("could too:", d.Candidates[1:])
			fmt.Println("out:", d.Excluded)
		}
	}
	// Output:
	// shop/web 192.0.2.10 by node-1
	// could too: []
	// out: map[node-2:nodeLabeledExcludeBalancers node-3:notMember]
}
