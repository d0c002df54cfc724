package archtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is one broken rule.
type Finding struct {
	Where string // import path or file
	Rule  string // what the rule says, for a reader who does not know it
	Cause string // what breaks it
}

func (f Finding) String() string { return f.Where + ": " + f.Cause + "\n\trule: " + f.Rule }

// Rule forbids imports to a set of packages.
type Rule struct {
	Name string
	// For selects the packages that the rule binds, by path below the module.
	For func(pkg string) bool
	// Forbids selects the imports that break the rule. Paths of this module are
	// passed below the module with a leading "./", all others as they are.
	Forbids func(pkg, imp string) bool
	// Deep extends the rule from the direct imports to all that they import.
	Deep bool
	// Tests extends the rule to the direct imports of the package's tests.
	Tests bool
}

// libraries are the five packages that know nothing of Kubernetes and of each other.
func libraries() []string {
	return []string{"allocator", "election", "membership", "announce", "bgp"}
}

// Rules returns the rules of the house.
func Rules() []Rule {
	return slices.Concat(arrows(), dependencies())
}

// arrows are the rules about imports inside the module.
func arrows() []Rule {
	return []Rule{{
		Name:  "the five libraries import nothing of this module but their own subpackages",
		For:   isLibrary,
		Deep:  true,
		Tests: false,
		Forbids: func(pkg, imp string) bool {
			return ours(imp) && !within(imp, "./"+top(pkg))
		},
	}, {
		Name:  "the tests of the five libraries import neither another library nor what stands above",
		For:   isLibrary,
		Tests: true,
		Forbids: func(pkg, imp string) bool {
			return ours(imp) && !within(imp, "./"+top(pkg)) && !within(imp, "./internal")
		},
	}, {
		Name: "k8sadapter imports the libraries and itself, neither daemons nor examples nor internal helpers",
		For:  func(pkg string) bool { return within(pkg, "k8sadapter") },
		Deep: true,
		Forbids: func(_, imp string) bool {
			return within(imp, "./daemons") || within(imp, "./examples") || within(imp, "./internal")
		},
	}, {
		Name: "daemons import k8sadapter and the libraries, neither examples nor internal helpers",
		For:  func(pkg string) bool { return within(pkg, "daemons") },
		Deep: true,
		Forbids: func(_, imp string) bool {
			return within(imp, "./examples") || within(imp, "./internal")
		},
	}, {
		Name: "internal helpers import neither k8sadapter nor daemons nor examples",
		For:  func(pkg string) bool { return within(pkg, "internal") },
		Deep: true,
		Forbids: func(_, imp string) bool {
			return within(imp, "./k8sadapter") || within(imp, "./daemons") || within(imp, "./examples")
		},
	}}
}

// dependencies are the rules about imports of other modules.
func dependencies() []Rule {
	return []Rule{{
		Name:    "election depends on the standard library alone",
		For:     func(pkg string) bool { return within(pkg, "election") },
		Deep:    true,
		Forbids: func(_, imp string) bool { return foreign(imp) },
	}, {
		Name:    "bgp (the types) depends on the standard library alone",
		For:     func(pkg string) bool { return pkg == "bgp" },
		Deep:    true,
		Forbids: func(_, imp string) bool { return foreign(imp) },
	}, {
		Name:    "allocator depends on the standard library and netipx alone",
		For:     func(pkg string) bool { return within(pkg, "allocator") },
		Deep:    true,
		Forbids: func(_, imp string) bool { return foreign(imp) && !within(imp, "go4.org/netipx") },
	}, {
		Name: "nothing of Kubernetes below k8sadapter, nor in the examples that show life without it",
		For: func(pkg string) bool {
			return isLibrary(pkg) || within(pkg, "examples/cni") || within(pkg, "examples/vip")
		},
		Deep:    true,
		Tests:   true,
		Forbids: func(_, imp string) bool { return kubernetes(imp) },
	}, {
		Name: "only k8sadapter, daemons and examples import Kubernetes",
		For: func(pkg string) bool {
			return !within(pkg, "k8sadapter") && !within(pkg, "daemons") && !within(pkg, "examples")
		},
		// sigs.k8s.io/yaml is a parser, and the directory of manifests is read by examples and helpers too.
		Forbids: func(_, imp string) bool { return kubernetes(imp) && imp != "sigs.k8s.io/yaml" },
	}, {
		Name:    "only membership imports memberlist",
		For:     func(pkg string) bool { return !within(pkg, "membership") },
		Forbids: func(_, imp string) bool { return within(imp, "github.com/hashicorp/memberlist") },
	}, {
		Name:    "only bgp/gobgp imports GoBGP",
		For:     func(pkg string) bool { return !within(pkg, "bgp/gobgp") },
		Forbids: func(_, imp string) bool { return within(imp, "github.com/osrg/gobgp") },
	}, {
		Name:    "only k8sadapter/metrics and the daemons import Prometheus",
		For:     func(pkg string) bool { return !within(pkg, "k8sadapter/metrics") && !within(pkg, "daemons") },
		Forbids: func(_, imp string) bool { return within(imp, "github.com/prometheus") },
	}, {
		Name:    "controller-runtime stays out",
		For:     func(string) bool { return true },
		Deep:    true,
		Forbids: func(_, imp string) bool { return within(imp, "sigs.k8s.io/controller-runtime") },
	}}
}

// CheckImports holds the packages of the module against the rules. Packages
// must hold the dependencies too, or the deep rules see nothing of them.
func CheckImports(module string, packages []Package, rules []Rule) []Finding {
	g := newGraph(packages)
	c := checker{module: module, graph: g}
	var findings []Finding
	for _, p := range packages {
		path, ok := c.below(p.ImportPath)
		if !ok {
			continue
		}
		for _, r := range rules {
			if r.For(path) {
				findings = append(findings, c.check(p, path, r)...)
			}
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Cause, b.Cause))
	})
	return slices.Compact(findings)
}

type checker struct {
	module string
	graph  graph
}

// below returns the path below the module; the module's root is ".".
func (c checker) below(path string) (string, bool) {
	if path == c.module {
		return ".", true
	}
	return strings.CutPrefix(path, c.module+"/")
}

// name is the form in which rules see an import.
func (c checker) name(path string) string {
	if rest, ok := c.below(path); ok {
		return "./" + rest
	}
	return path
}

func (c checker) check(p Package, path string, r Rule) []Finding {
	var findings []Finding
	imports := p.Imports
	if r.Deep {
		imports = p.Deps
	}
	for _, imp := range imports {
		if c.forbidden(r, path, imp) {
			way := strings.Join(c.graph.chain(p.ImportPath, imp), " -> ")
			findings = append(findings, Finding{Where: p.ImportPath, Rule: r.Name, Cause: "imports " + imp + " (" + way + ")"})
		}
	}
	if !r.Tests {
		return findings
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if c.forbidden(r, path, imp) {
			findings = append(findings, Finding{Where: p.ImportPath, Rule: r.Name, Cause: fmt.Sprintf("its tests import %s", imp)})
		}
	}
	return findings
}

func (c checker) forbidden(r Rule, path, imp string) bool {
	return imp != c.module+"/"+path && !c.graph[imp].Standard && r.Forbids(path, c.name(imp))
}

// CheckDocs finds packages of the module without a package comment.
func CheckDocs(module string, packages []Package) []Finding {
	c := checker{module: module}
	var findings []Finding
	for _, p := range packages {
		if _, ok := c.below(p.ImportPath); ok && p.Doc == "" && len(p.GoFiles) > 0 {
			findings = append(findings, Finding{Where: p.ImportPath, Rule: "every package has a package comment", Cause: "has none"})
		}
	}
	return findings
}

func isLibrary(pkg string) bool { return slices.Contains(libraries(), top(pkg)) }

// top is the first element of a path.
func top(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

// within reports whether a path is the tree's root or below it.
func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func ours(imp string) bool { return strings.HasPrefix(imp, "./") }

// foreign reports whether an import is of another module. The standard library
// is told apart before, by what go list says.
func foreign(imp string) bool { return !ours(imp) }

func kubernetes(imp string) bool {
	first := top(imp)
	return first == "k8s.io" || first == "sigs.k8s.io"
}
