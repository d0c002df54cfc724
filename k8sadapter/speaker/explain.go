package speaker

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Explain serves, as JSON, what was decided last on the Service that the parameter service=namespace/name names, for
// every address and protocol, with the reasons of every node: what Once prints, of the running speaker. Without the
// parameter it serves all decisions.
func (s *Speaker) Explain() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := s.State()
		if state == nil {
			http.Error(w, "nothing is decided yet: the first list of objects is not complete", http.StatusServiceUnavailable)
			return
		}
		service := r.URL.Query().Get("service")
		out := []printed{}
		for _, d := range state.Decisions {
			if service == "" || d.Service.String() == service {
				out = append(out, print(d))
			}
		}
		if service != "" && len(out) == 0 {
			http.Error(w, fmt.Sprintf("no Service %q of type LoadBalancer has an address; want service=namespace/name", service), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(out) // the client is gone
	})
}
