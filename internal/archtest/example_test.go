package archtest_test

import (
	"fmt"

	"github.com/heraldlb/herald/internal/archtest"
)

// A package that must not know Kubernetes gained it through a helper.
func ExampleCheckImports() {
	packages := []archtest.Package{
		{ImportPath: "example.org/m/election", Imports: []string{"example.org/labels"}, Deps: []string{"example.org/labels", "k8s.io/api/core/v1"}},
		{ImportPath: "example.org/labels", Imports: []string{"k8s.io/api/core/v1"}},
	}
	rules := []archtest.Rule{{
		Name:    "no Kubernetes in election",
		For:     func(pkg string) bool { return pkg == "election" },
		Forbids: func(_, imp string) bool { return imp == "k8s.io/api/core/v1" },
		Deep:    true,
	}}
	for _, f := range archtest.CheckImports("example.org/m", packages, rules) {
		fmt.Println(f)
	}
	// Output:
	// example.org/m/election: imports k8s.io/api/core/v1 (example.org/m/election -> example.org/labels -> k8s.io/api/core/v1)
	// 	rule: no Kubernetes in election
}
