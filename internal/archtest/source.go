package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Limits of a source file, in lines.
const (
	MaxFileLines = 500 // of a file that people read: neither test nor generated
	MaxMainLines = 230 // of a daemon's main.go: daemons are wirings
)

// CheckFile holds one Go file against the rules for sources. The name is its
// path below the repository's root, with slashes. Generated files are exempt.
func CheckFile(name string, src []byte) []Finding {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []Finding{{Where: name, Rule: "Go files parse", Cause: err.Error()}}
	}
	if ast.IsGenerated(file) {
		return nil
	}
	findings := checkLength(name, src)
	if strings.HasSuffix(name, "_test.go") {
		return findings
	}
	findings = append(findings, checkInit(name, fset, file)...)
	return append(findings, checkGlobals(name, fset, file)...)
}

func checkLength(name string, src []byte) []Finding {
	lines := bytes.Count(src, []byte("\n"))
	switch {
	case strings.HasPrefix(name, "daemons/") && path.Base(name) == "main.go" && lines > MaxMainLines:
		return []Finding{{
			Where: name, Rule: fmt.Sprintf("a daemon's main.go has at most %d lines: logic belongs to a package", MaxMainLines),
			Cause: fmt.Sprintf("has %d", lines),
		}}
	case !strings.HasSuffix(name, "_test.go") && lines > MaxFileLines:
		return []Finding{{
			Where: name, Rule: fmt.Sprintf("a file has at most %d lines", MaxFileLines),
			Cause: fmt.Sprintf("has %d", lines),
		}}
	}
	return nil
}

// checkInit finds func init: who imports a package must not run code by that.
func checkInit(name string, fset *token.FileSet, file *ast.File) []Finding {
	var findings []Finding
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && fn.Recv == nil && fn.Name.Name == "init" {
			findings = append(findings, Finding{
				Where: at(name, fset, fn.Pos()), Rule: "no init functions", Cause: "declares one",
			})
		}
	}
	return findings
}

// globals are the names through which a package reaches the state of the whole
// process, by import path. An entry that ends in * stands for every longer name.
func globals() map[string][]string {
	return map[string][]string{
		"github.com/prometheus/client_golang/prometheus": {
			"Register", "MustRegister", "Unregister", "DefaultRegisterer", "DefaultGatherer",
		},
		"github.com/prometheus/client_golang/prometheus/promauto": {"New*"},
		"github.com/prometheus/client_golang/prometheus/promhttp": {"Handler"},
		"log/slog": {
			"SetDefault", "Default", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs",
			"DebugContext", "InfoContext", "WarnContext", "ErrorContext",
		},
		"log":      {"Default", "Print*", "Fatal*", "Panic*", "SetOutput", "SetFlags"},
		"net/http": {"Handle", "HandleFunc", "DefaultServeMux", "DefaultClient", "Get", "Post", "PostForm", "Head"},
		"expvar":   {"New*", "Publish"},
	}
}

// checkGlobals finds uses of global registries, loggers and clients.
func checkGlobals(name string, fset *token.FileSet, file *ast.File) []Finding {
	used := map[string][]string{} // name in this file -> forbidden selectors
	for _, spec := range file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		local := path.Base(imp)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if names, ok := globals()[imp]; ok {
			used[local] = names
		}
	}
	var findings []Finding
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if ok && matches(used[id.Name], sel.Sel.Name) {
			findings = append(findings, Finding{
				Where: at(name, fset, sel.Pos()), Rule: "no global registry, logger or client: take it in a Config",
				Cause: "uses " + id.Name + "." + sel.Sel.Name,
			})
		}
		return true
	})
	return findings
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		prefix, open := strings.CutSuffix(p, "*")
		if name == p || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func at(name string, fset *token.FileSet, pos token.Pos) string {
	return name + ":" + strconv.Itoa(fset.Position(pos).Line)
}

// forbiddenText matches what must not be in any tracked file: directories of the
// machine that a change was made on, and hosts that only it can reach. The
// brackets keep the expression from matching itself.
const forbiddenText = `(^|[^A-Za-z0-9._-])/(w[o]rk|f[a]rm|r[o]ot)/|sub[a]gent|[.]lib[r]ary/|proxy[.]gol[a]ng[.]org|sum[.]gol[a]ng[.]org`

// CheckText finds machine paths and registry hosts in one tracked file. Binary
// files are passed over.
func CheckText(name string, data []byte) []Finding {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	forbidden := regexp.MustCompile(forbiddenText)
	var findings []Finding
	for i, line := range strings.Split(string(data), "\n") {
		if found := forbidden.FindString(line); found != "" {
			findings = append(findings, Finding{
				Where: name + ":" + strconv.Itoa(i+1), Rule: "no path of one machine and no registry host in a tracked file",
				Cause: "contains " + strconv.Quote(strings.TrimSpace(found)),
			})
		}
	}
	return findings
}
