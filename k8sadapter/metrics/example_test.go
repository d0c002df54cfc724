package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heraldlb/herald/k8sadapter/metrics"
)

// Collectors read what they count when they are scraped. They are registered with a registry of the program's own.
func Example() {
	announced := []metrics.Announced{{Service: "shop/web", Protocol: "layer2", Node: "node-1", Address: "192.0.2.10"}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.Announcements(func() []metrics.Announced { return announced }))

	// Without an Authorizer anyone may read them; metrics.APIAuthorizer asks the API server.
	handler := metrics.Handler(reg, nil)
	scrape := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		fmt.Println(w.Code, strings.Count(w.Body.String(), "\n"), "lines")
		fmt.Print(w.Body.String())
	}
	scrape()
	announced = nil // the address has moved to another node: its series is gone
	scrape()
	// Output:
	// 200 3 lines
	// # HELP metallb_speaker_announced 1 for every address that this node announces.
	// # TYPE metallb_speaker_announced gauge
	// metallb_speaker_announced{ip="192.0.2.10",node="node-1",protocol="layer2",service="shop/web"} 1
	// 200 0 lines
}
