package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lifetime of the certificates: far longer than any run of the tests.
const lifetime = 10 * 365 * 24 * time.Hour

// credentials are what a client needs to be the administrator.
type credentials struct {
	caPEM []byte
	token string
}

// loadCredentials makes the certificates, keys and the token at the first start
// and reads them at every other, so that kubeconfigs and service account tokens
// stay valid across restarts.
func loadCredentials(s settings) (credentials, error) {
	if _, err := os.Stat(s.path("tokens.csv")); os.IsNotExist(err) {
		if err := makeCredentials(s); err != nil {
			return credentials{}, fmt.Errorf("make credentials in %s: %w", s.dir, err)
		}
	}
	ca, err := os.ReadFile(s.path("ca.crt"))
	if err != nil {
		return credentials{}, err
	}
	tokens, err := os.ReadFile(s.path("tokens.csv"))
	if err != nil {
		return credentials{}, err
	}
	token, _, _ := strings.Cut(string(tokens), ",")
	return credentials{caPEM: ca, token: token}, nil
}

// makeCredentials writes tokens.csv last: its presence says that all is there.
func makeCredentials(s settings) error {
	ca, caKey, err := makeAuthority(s.path("ca.crt"))
	if err != nil {
		return err
	}
	if err := makeServing(s, ca, caKey); err != nil {
		return err
	}
	if err := makeServiceAccountKeys(s); err != nil {
		return err
	}
	token := rand.Text()
	return os.WriteFile(s.path("tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600)
}

func makeAuthority(path string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "herald-e2e-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return cert, key, writePEM(path, "CERTIFICATE", der)
}

func makeServing(s settings, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	if err := writePEM(s.path("apiserver.crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(s.path("apiserver.key"), key)
}

// makeServiceAccountKeys makes the pair that signs and checks the tokens of
// service accounts.
func makeServiceAccountKeys(s settings) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(s.path("service-account.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(s.path("service-account.key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

// writePEM replaces the file in one step, so that a start that is killed half
// way leaves no half of a file.
func writePEM(path, kind string, der []byte) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func writeFile(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
