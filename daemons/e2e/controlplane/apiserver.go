package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// auditPolicy records who wrote what, and nothing else: reads are many, bodies
// are long, and the tests count writes.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

func (s settings) endpoint() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// apiServerArgs are the flags of kube-apiserver, all that differ from its
// defaults. The ranges give every Service cluster IPs of both families.
func apiServerArgs(s settings) []string {
	return []string{
		"--etcd-servers=" + etcdURL(s),
		"--cert-dir=" + s.path("certs"),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(s.port),
		"--tls-cert-file=" + s.path("apiserver.crt"),
		"--tls-private-key-file=" + s.path("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.path("service-account.pub"),
		"--service-account-signing-key-file=" + s.path("service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
		"--token-auth-file=" + s.path("tokens.csv"),
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		"--audit-policy-file=" + s.path("audit-policy.yaml"),
		"--audit-log-path=" + s.path("audit.log"),
		// Without it a graceful stop waits a minute for the watches of clients to end.
		"--shutdown-watch-termination-grace-period=5s",
		// Without these the server looks for an address of the host, which a
		// machine without a network does not have (RFC 5737 documentation range).
		"--advertise-address=192.0.2.1",
		"--endpoint-reconciler-type=none",
	}
}

// runAPIServer serves until SIGTERM or SIGINT; kube-apiserver listens to both itself.
func runAPIServer(s settings) error {
	if err := writeFile(s.path("audit-policy.yaml"), []byte(auditPolicy)); err != nil {
		return err
	}
	cmd := app.NewAPIServerCommand()
	cmd.SetArgs(apiServerArgs(s))
	if err := cmd.Execute(); err != nil {
		return fmt.Errorf("kube-apiserver on port %d: %w", s.port, err)
	}
	return nil
}

// writeKubeconfig writes a kubeconfig of the administrator.
func writeKubeconfig(s settings, creds credentials) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["e2e"] = &clientcmdapi.Cluster{Server: s.endpoint(), CertificateAuthorityData: creds.caPEM}
	cfg.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: creds.token}
	cfg.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "admin"}
	cfg.CurrentContext = "e2e"
	if err := clientcmd.WriteToFile(*cfg, s.path("kubeconfig")); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return os.Chmod(s.path("kubeconfig"), 0o600)
}

// waitReady polls /readyz until it answers 200 or ctx ends.
func waitReady(ctx context.Context, s settings, creds credentials) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(creds.caPEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if readyOnce(ctx, client, s, creds) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func readyOnce(ctx context.Context, client *http.Client, s settings, creds credentials) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.endpoint()+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+creds.token)
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
