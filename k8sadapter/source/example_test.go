package source_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/heraldlb/herald/k8sadapter/source"
)

// A directory of manifests is read once, with the defaults that an API server
// would set.
func Example() {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	manifest := `apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: LoadBalancer
  ipFamilyPolicy: RequireDualStack
  ports:
  - port: 80
status:
  loadBalancer:
    ingress:
    - ip: 192.0.2.10
---
apiVersion: v1
kind: Service
metadata:
  name: api
  namespace: shop
spec:
  ports: eighty
`
	if err := os.WriteFile(filepath.Join(dir, "services.yaml"), []byte(manifest), 0o644); err != nil {
		log.Fatal(err)
	}

	files, err := source.NewFiles(source.FilesConfig{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	set, err := files.Load(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, svc := range set.Services {
		fmt.Println(svc.Namespace, svc.Name, svc.Spec.IPFamilies, svc.Status.LoadBalancer.Ingress[0].IP)
	}
	for _, problem := range set.Rejected {
		fmt.Println("rejected:", problem.File, "line", problem.Line, problem.Kind, problem.Namespace, problem.Name)
	}
	// Output:
	// default web [IPv4 IPv6] 192.0.2.10
	// rejected: services.yaml line 15 Service shop api
}
