package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/heraldlb/herald/k8sadapter/controller"
	"github.com/heraldlb/herald/k8sadapter/source"
)

const manifests = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: office, namespace: metallb-system}
spec: {addresses: [192.0.2.10-192.0.2.99]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: LoadBalancer, ports: [{port: 80}]}
`

// directory writes the manifests to a new directory.
func directory() (dir string, err error) {
	dir, err = os.MkdirTemp("", "manifests")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(manifests), 0o600)
}

// A whole controller on a directory of manifests. With source.NewKube in place of source.NewFiles it serves a cluster.
func Example() {
	dir, err := directory()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	src, err := source.NewFiles(source.FilesConfig{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	written := make(chan struct{}, 1)
	ctrl, err := controller.New(controller.Config{
		Source: src,
		OnWrite: func(time.Duration) {
			select {
			case written <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	// A source and a controller run side by side until the context is cancelled; an errgroup does the same in fewer lines.
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- src.Run(ctx) }()
	go func() { ended <- ctrl.Run(ctx) }()
	<-written
	cancel()
	if err := errors.Join(<-ended, <-ended); err != nil {
		log.Fatal(err)
	}

	// The status is kept beside the manifests, so that a restart keeps the address.
	set, err := src.Load(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, svc := range set.Services {
		fmt.Println(svc.Namespace, svc.Name, svc.Status.LoadBalancer.Ingress[0].IP)
	}
	fmt.Println("in use:", ctrl.Usage()["office"].V4.Used, "of", ctrl.Usage()["office"].V4.Total)
	// Output:
	// shop web 192.0.2.10
	// in use: 1 of 90
}

// What a controller would do with a directory, as a YAML stream: nothing runs, and nothing is written.
func ExampleOnce() {
	dir, err := directory()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	src, err := source.NewFiles(source.FilesConfig{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	set, err := src.Load(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	if err := controller.Once(os.Stdout, set, controller.OnceConfig{}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ---
	// apiVersion: v1
	// involvedObject:
	//   apiVersion: v1
	//   kind: Service
	//   name: web
	//   namespace: shop
	// kind: Event
	// message: assigned 192.0.2.10 from pool "office"
	// metadata:
	//   name: web.service.1
	//   namespace: shop
	// reason: IPAllocated
	// type: Normal
	// ---
	// apiVersion: metallb.io/v1beta1
	// kind: IPAddressPool
	// metadata:
	//   name: office
	//   namespace: metallb-system
	// status:
	//   assignedIPv4: 1
	//   assignedIPv6: 0
	//   availableIPv4: 89
	//   availableIPv6: 0
	// ---
	// apiVersion: v1
	// kind: Service
	// metadata:
	//   annotations:
	//     metallb.io/ip-allocated-from-pool: office
	//   name: web
	//   namespace: shop
	// status:
	//   loadBalancer:
	//     ingress:
	//     - ip: 192.0.2.10
}
