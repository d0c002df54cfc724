package archtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "example.org/house"

// fabricate builds a list of packages from "package: import import" lines, with
// the closure of imports computed as go list does. Names without a dot are the
// standard library, names with a leading ./ are of the module.
func fabricate(t *testing.T, lines ...string) []Package {
	t.Helper()
	full := func(name string) string {
		if rest, ok := strings.CutPrefix(name, "./"); ok {
			return module + "/" + rest
		}
		return name
	}
	direct := map[string][]string{}
	var order []string
	add := func(name string) {
		if _, ok := direct[name]; !ok {
			direct[name] = nil
			order = append(order, name)
		}
	}
	for _, line := range lines {
		name, imports, ok := strings.Cut(line, ":")
		require.True(t, ok, "line %q has no colon", line)
		add(full(name))
		for imp := range strings.FieldsSeq(imports) {
			add(full(imp))
			direct[full(name)] = append(direct[full(name)], full(imp))
		}
	}
	var closure func(name string, seen map[string]bool) []string
	closure = func(name string, seen map[string]bool) []string {
		var all []string
		for _, imp := range direct[name] {
			if !seen[imp] {
				seen[imp] = true
				all = append(append(all, imp), closure(imp, seen)...)
			}
		}
		return all
	}
	var packages []Package
	for _, name := range order {
		packages = append(packages, Package{
			ImportPath: name,
			Imports:    direct[name],
			Deps:       closure(name, map[string]bool{}),
			Standard:   !strings.Contains(name, "."),
		})
	}
	return packages
}

func TestCheckImports(t *testing.T) {
	tests := []struct {
		name  string
		graph []string
		want  []string // "package: part of the cause", in order; empty: the graph is clean
	}{
		{
			name: "the house as it is drawn",
			graph: []string{
				"./daemons/speaker: ./k8sadapter/speaker ./k8sadapter/metrics ./announce github.com/prometheus/client_golang/prometheus",
				"./k8sadapter/speaker: ./election ./announce ./membership k8s.io/client-go/rest",
				"./k8sadapter/metrics: ./announce github.com/prometheus/client_golang/prometheus",
				"./allocator: net/netip go4.org/netipx",
				"./election: crypto/sha256",
				"./membership: github.com/hashicorp/memberlist",
				"./announce: github.com/mdlayher/packet",
				"./bgp: net/netip",
				"./bgp/gobgp: ./bgp github.com/osrg/gobgp/v3/pkg/server",
				"./examples/lab: ./internal/netns sigs.k8s.io/yaml",
				"./examples/cni: ./election ./membership",
				"./internal/netns: golang.org/x/sys/unix",
			},
		},
		{
			name:  "a library imports another",
			graph: []string{"./announce: ./election"},
			want:  []string{"announce: imports example.org/house/election"},
		},
		{
			name:  "a library imports what stands above it",
			graph: []string{"./bgp/frr: ./k8sadapter/config"},
			want:  []string{"bgp/frr: imports example.org/house/k8sadapter/config"},
		},
		{
			name:  "a library imports a test helper",
			graph: []string{"./announce: ./internal/netns"},
			want:  []string{"announce: imports example.org/house/internal/netns"},
		},
		{
			name:  "the adapter imports a daemon",
			graph: []string{"./k8sadapter/speaker: ./daemons/speaker/wiring"},
			want:  []string{"k8sadapter/speaker: imports example.org/house/daemons/speaker/wiring"},
		},
		{
			name:  "the adapter reaches internal by a detour",
			graph: []string{"./k8sadapter/a: ./k8sadapter/b", "./k8sadapter/b: ./internal/x"},
			want: []string{
				"k8sadapter/a: imports example.org/house/internal/x (example.org/house/k8sadapter/a -> example.org/house/k8sadapter/b -> example.org/house/internal/x)",
				"k8sadapter/b: imports example.org/house/internal/x",
			},
		},
		{
			name:  "a daemon imports an example",
			graph: []string{"./daemons/controller: ./examples/lab/net"},
			want:  []string{"daemons/controller: imports example.org/house/examples/lab/net"},
		},
		{
			name:  "an internal helper imports the adapter",
			graph: []string{"./internal/x: ./k8sadapter/source"},
			want:  []string{"internal/x: imports example.org/house/k8sadapter/source"},
		},
		{
			name:  "election gains a dependency behind another package of its own",
			graph: []string{"./election: ./election/hash", "./election/hash: golang.org/x/crypto/blake2b"},
			want: []string{
				"election: imports golang.org/x/crypto/blake2b",
				"election/hash: imports golang.org/x/crypto/blake2b",
			},
		},
		{
			name:  "the types of bgp gain a dependency",
			graph: []string{"./bgp: github.com/google/go-cmp/cmp"},
			want:  []string{"bgp: imports github.com/google/go-cmp/cmp"},
		},
		{
			name:  "allocator gains a dependency besides netipx",
			graph: []string{"./allocator: go4.org/netipx github.com/google/btree"},
			want:  []string{"allocator: imports github.com/google/btree"},
		},
		{
			name:  "a name that only begins like an allowed one",
			graph: []string{"./allocator: go4.org/netipxtra"},
			want:  []string{"allocator: imports go4.org/netipxtra"},
		},
		{
			name:  "Kubernetes comes in through a third party",
			graph: []string{"./membership: github.com/x/seeds", "github.com/x/seeds: k8s.io/client-go/kubernetes"},
			want:  []string{"membership: imports k8s.io/client-go/kubernetes (example.org/house/membership -> github.com/x/seeds -> k8s.io/client-go/kubernetes)"},
		},
		{
			name:  "an example without Kubernetes imports it",
			graph: []string{"./examples/vip: ./k8sadapter/config", "./k8sadapter/config: k8s.io/api/core/v1"},
			want:  []string{"examples/vip: imports k8s.io/api/core/v1"},
		},
		{
			name:  "an internal helper imports Kubernetes",
			graph: []string{"./internal/x: k8s.io/api/core/v1"},
			want:  []string{"internal/x: imports k8s.io/api/core/v1"},
		},
		{
			name:  "memberlist outside membership",
			graph: []string{"./k8sadapter/speaker: github.com/hashicorp/memberlist"},
			want:  []string{"k8sadapter/speaker: imports github.com/hashicorp/memberlist"},
		},
		{
			name:  "GoBGP outside its engine",
			graph: []string{"./bgp/frr: github.com/osrg/gobgp/v3/api"},
			want:  []string{"bgp/frr: imports github.com/osrg/gobgp/v3/api"},
		},
		{
			name:  "Prometheus outside metrics and daemons",
			graph: []string{"./k8sadapter/speaker: github.com/prometheus/client_golang/prometheus"},
			want:  []string{"k8sadapter/speaker: imports github.com/prometheus/client_golang/prometheus"},
		},
		{
			name:  "controller-runtime",
			graph: []string{"./k8sadapter/source: sigs.k8s.io/controller-runtime/pkg/client"},
			want:  []string{"k8sadapter/source: imports sigs.k8s.io/controller-runtime/pkg/client"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findings := CheckImports(module, fabricate(t, tt.graph...), Rules())
			for _, want := range tt.want {
				assert.Contains(t, join(findings), module+"/"+want)
			}
			if len(tt.want) == 0 {
				assert.Empty(t, findings)
			}
			for _, f := range findings {
				assert.True(t, expected(f, tt.want), "not expected: %s", f)
			}
		})
	}
}

func join(findings []Finding) string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, f.Where+": "+f.Cause)
	}
	return strings.Join(lines, "\n")
}

// expected reports whether a finding is about a package and an import that the
// test names; several rules may object to the same import.
func expected(f Finding, want []string) bool {
	for _, w := range want {
		if strings.HasPrefix(f.Where+": "+f.Cause, module+"/"+w) {
			return true
		}
	}
	return false
}

func TestCheckImportsOfTests(t *testing.T) {
	tests := []struct {
		name string
		pkg  Package
		want string // empty: clean
	}{
		{"a helper is fine", Package{TestImports: []string{module + "/internal/netns", "testing"}}, ""},
		{"itself is fine", Package{XTestImports: []string{module + "/announce"}}, ""},
		{"another library", Package{TestImports: []string{module + "/election"}}, "its tests import example.org/house/election"},
		{"Kubernetes", Package{XTestImports: []string{"k8s.io/api/core/v1"}}, "its tests import k8s.io/api/core/v1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.pkg.ImportPath = module + "/announce"
			packages := append(fabricate(t, "testing:"), tt.pkg)
			got := join(CheckImports(module, packages, Rules()))
			if tt.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tt.want)
		})
	}
}

// TestEveryRuleCanFail keeps a rule that selects nothing from passing for ever.
func TestEveryRuleCanFail(t *testing.T) {
	trees := []string{
		"allocator", "election", "membership", "announce", "bgp", "bgp/frr", "k8sadapter/x", "k8sadapter/metrics",
		"daemons/x", "examples/cni", "examples/vip", "internal/x",
	}
	imports := []string{
		"./allocator", "./k8sadapter/x", "./daemons/x", "./examples/x", "./internal/x", "golang.org/x/sys", "k8s.io/api/core/v1",
		"github.com/hashicorp/memberlist", "github.com/osrg/gobgp/v3/api", "github.com/prometheus/common", "sigs.k8s.io/controller-runtime",
	}
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			var broken, kept bool
			for _, tree := range trees {
				for _, imp := range imports {
					bad := len(CheckImports(module, fabricate(t, "./"+tree+": "+imp), []Rule{rule})) > 0
					broken, kept = broken || bad, kept || !bad
				}
			}
			assert.True(t, broken, "no import breaks this rule")
			assert.True(t, kept, "every import breaks this rule")
		})
	}
}

func TestCheckDocs(t *testing.T) {
	findings := CheckDocs(module, []Package{
		{ImportPath: module + "/good", Doc: "Package good is.", GoFiles: []string{"a.go"}},
		{ImportPath: module + "/bad", GoFiles: []string{"a.go"}},
		{ImportPath: module + "/tests-only"},
		{ImportPath: "example.org/other", GoFiles: []string{"a.go"}},
	})
	assert.Equal(t, module+"/bad: has none", join(findings))
}
