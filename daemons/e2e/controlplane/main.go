// Command controlplane is a Kubernetes API server for tests: the real
// kube-apiserver and an embedded etcd in one process, on loopback, with
// everything that it needs made at its first start.
//
//	controlplane --dir /tmp/plane
//
// writes certificates, a token, the data of etcd and a kubeconfig with
// cluster-admin rights into the directory, prints the path of the kubeconfig,
// and prints "ready" once /readyz answers. A stop by SIGTERM or SIGINT is
// graceful; a second start on the same directory finds the same objects, the
// same credentials and the same port, as a restarted API server would.
//
// There is no controller manager, no scheduler and no kubelet: nobody fills
// EndpointSlices, finishes the deletion of a namespace or collects garbage. The
// ServiceAccount admission plugin is off, so that Pods can be made without one.
// Every write is recorded in the file audit.log of the directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// settings is where one control plane lives.
type settings struct {
	dir  string // absolute; holds everything that is written
	port int    // of the API server on 127.0.0.1
}

func (s settings) path(name string) string { return filepath.Join(s.dir, name) }

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory for data, certificates and kubeconfig; made if it is missing (required)")
	port := flags.Int("secure-port", 0, "port of the API server on 127.0.0.1; 0 keeps the port of the last start in --dir, or picks a free one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("--dir is required: name a directory for the data")
	}
	s, err := prepare(*dir, *port)
	if err != nil {
		return err
	}
	creds, err := loadCredentials(s)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(s, creds); err != nil {
		return err
	}
	fmt.Println("kubeconfig", s.path("kubeconfig"))
	return serve(s, creds)
}

// serve runs etcd and the API server until a signal stops the latter.
func serve(s settings, creds credentials) error {
	start := time.Now()
	store, err := startEtcd(s)
	if err != nil {
		return err
	}
	defer store.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		if err := waitReady(ctx, s, creds); err == nil {
			fmt.Printf("ready after %.1fs\n", time.Since(start).Seconds())
		}
	}()
	return runAPIServer(s)
}
