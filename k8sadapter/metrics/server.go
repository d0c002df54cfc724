package metrics

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Authorizer says whether the bearer of a token may read the metrics: nil is yes, ErrUnauthenticated and ErrForbidden are
// no, and any other error means that it could not find out. It is safe for concurrent use.
type Authorizer interface {
	Authorize(ctx context.Context, token string) error
}

// ErrForbidden is returned by an Authorizer for a token that is good but not allowed to read the metrics.
var ErrForbidden = errors.New("not allowed to get /metrics")

// ErrUnauthenticated is returned by an Authorizer for a token that the API server does not know.
var ErrUnauthenticated = errors.New("unknown token")

// APIAuthorizer asks the API server who the bearer is (TokenReview) and whether it may get /metrics
// (SubjectAccessReview), as MetalLB does.
type APIAuthorizer struct{ Client kubernetes.Interface }

// Authorize implements Authorizer.
func (a APIAuthorizer) Authorize(ctx context.Context, token string) error {
	review, err := a.Client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review token: %w", err)
	}
	if !review.Status.Authenticated {
		return ErrUnauthenticated
	}
	user := review.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	access, err := a.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review access: %w", err)
	}
	if !access.Status.Allowed {
		return ErrForbidden
	}
	return nil
}

// Handler serves the registry at /metrics. With an Authorizer, only to whom it allows: others get the status 401
// (no token, or an unknown one), 403 (not allowed), or 503 (it could not be found out).
func Handler(reg *prometheus.Registry, auth Authorizer) http.Handler {
	plain := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if auth == nil {
			plain.ServeHTTP(w, r)
			return
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			http.Error(w, "a bearer token is required", http.StatusUnauthorized)
			return
		}
		switch err := auth.Authorize(r.Context(), token); {
		case err == nil:
			plain.ServeHTTP(w, r)
		case errors.Is(err, ErrUnauthenticated):
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, ErrForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		default:
			http.Error(w, "cannot check the token: "+err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// TLS returns the server's TLS configuration: tls.crt and tls.key of dir, read anew for every connection so that a
// rotated certificate is served without a restart, or, with an empty dir, a certificate made now and signed by itself.
func TLS(dir string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	if dir == "" {
		cert, err := selfSigned(time.Now())
		if err != nil {
			return nil, fmt.Errorf("make a self-signed certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
		return cfg, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			return nil, fmt.Errorf("load the metrics certificate: %w", err)
		}
		return &cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }
	return cfg, nil
}

func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "herald-metrics"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
