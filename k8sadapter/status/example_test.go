package status_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/status"
)

// printer is a Store without objects that prints what it is told. In a cluster it is
// status.ServiceL2Statuses(kube.MetalLB(), kube.Namespace()), where kube is a *source.Kube.
type printer struct{ written chan struct{} }

func (p printer) Create(_ context.Context, obj *v1beta1.ServiceL2Status) (*v1beta1.ServiceL2Status, error) {
	fmt.Println("create", obj.Name, obj.Labels)
	return obj, nil
}

func (p printer) UpdateStatus(_ context.Context, obj *v1beta1.ServiceL2Status) (*v1beta1.ServiceL2Status, error) {
	fmt.Println("status", obj.Status.ServiceNamespace, obj.Status.ServiceName, obj.Status.Node, obj.Status.Interfaces)
	close(p.written)
	return obj, nil
}

func (p printer) Delete(_ context.Context, obj *v1beta1.ServiceL2Status) error {
	fmt.Println("delete", obj.Name)
	return nil
}

func (p printer) ListerWatcher(string) cache.ListerWatcher {
	return empty{&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &metav1.List{}, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}}
}

// empty tells client-go to list and then watch.
type empty struct{ *cache.ListWatch }

func (empty) IsWatchListSemanticsUnSupported() bool { return true }

// A speaker keeps one ServiceL2Status for each Service that its node announces, and says which these are with Set.
func ExampleLayer2() {
	store := printer{written: make(chan struct{})}
	l2 := status.NewLayer2(status.Layer2Config{Store: store, Node: "node-1"})
	l2.Set(map[types.NamespacedName][]string{{Namespace: "shop", Name: "web"}: {"eth1", "eth0"}})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l2.Run(ctx) }()
	<-store.written
	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// create l2-598d9e07e6ecef4f map[metallb.io/node:node-1 metallb.io/service-name:web metallb.io/service-namespace:shop]
	// status shop web node-1 [{eth0} {eth1}]
}
