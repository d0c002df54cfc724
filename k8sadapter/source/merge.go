package source

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// fileState is one manifest file as last read.
type fileState struct {
	rel    string
	info   os.FileInfo
	readAt time.Time
	sum    [sha256.Size]byte
	// empty: not even a comment. Deleting everything in a file looks like that,
	// but so does a file between truncation and the first write.
	empty bool

	docs   []document
	faults []*SyntaxError
	err    error // the file could not be read
}

// readState reads and decodes a file, taking over what prev knows when the
// content is still the same. trust allows to conclude that from the file's
// metadata alone.
func readState(file found, prev *fileState, namespace string, trust bool) *fileState {
	if trust && prev != nil && prev.err == nil && sameFile(prev.info, file.info, prev.readAt) {
		return prev
	}
	next := &fileState{rel: file.rel, info: file.info, readAt: time.Now()}
	data, err := os.ReadFile(file.path)
	if err != nil {
		next.err = err
		return next
	}
	next.sum = sha256.Sum256(data)
	if prev != nil && prev.err == nil && prev.sum == next.sum {
		next.empty, next.docs, next.faults = prev.empty, prev.docs, prev.faults
		return next
	}
	next.empty = len(bytes.TrimSpace(data)) == 0
	next.docs, next.faults = decodeFile(file.rel, data, namespace)
	return next
}

// entry is an object in force, as its manifest gives it (no overlay).
type entry struct {
	obj      object // never modified
	uidGiven bool
	file     string // where it was last described
	line     int
	// kept: the last good version of a document that is no longer good.
	kept bool
	// placeholder: there is no good version, only an identity.
	placeholder bool
}

// merged is the outcome of putting all files together.
type merged struct {
	entries  map[key]*entry
	rejected []*Problem // faults, in the order of the files
	ignored  []*Problem
	warnings []*Problem // used all the same
	// complete: every document could be told apart, so an object that is not
	// here does not exist. Otherwise nothing may be concluded from absence.
	complete bool
}

// merge puts the files, which are in the order of their names, together. What
// is rejected keeps its last good version, which prev holds. It is a pure
// function.
func merge(files []*fileState, unreadable map[string]error, prev map[key]*entry, namespace string) merged {
	m := merged{entries: make(map[key]*entry), complete: true}
	keepFiles := make(map[string]bool)
	keepKeys := make(map[key]*document)
	gave := make(map[string]bool)
	for _, e := range prev {
		gave[e.file] = true
	}
	for _, file := range files {
		if m.frozen(file, gave[file.rel]) {
			keepFiles[file.rel] = true
			if gave[file.rel] {
				continue
			}
		}
		for i := range file.docs {
			m.add(&file.docs[i], keepKeys, keepFiles)
		}
	}
	for rel, err := range unreadable {
		m.complete = false
		m.rejected = append(m.rejected, &Problem{File: rel, Err: fmt.Errorf("%w: %w", ErrUnreadable, err)})
	}
	m.keep(prev, keepKeys, func(e *entry) bool { return keepFiles[e.file] || within(e.file, unreadable) })
	m.addNamespaces(prev, namespace)
	return m
}

// keep carries over what prev knows of documents that are rejected, and what
// it knows from files that are unfit.
func (m *merged) keep(prev map[key]*entry, rejected map[key]*document, unfit func(*entry) bool) {
	for k, e := range prev {
		doc := rejected[k]
		if m.entries[k] != nil || doc == nil && !unfit(e) || doc != nil && e.placeholder {
			continue
		}
		kept := *e
		kept.kept = true
		if doc != nil {
			kept.file, kept.line = doc.file, doc.line
		}
		m.entries[k] = &kept
	}
	for k, doc := range rejected {
		if m.entries[k] == nil && doc.placeholder != nil {
			m.entries[k] = &entry{obj: doc.placeholder, file: doc.file, line: doc.line, placeholder: true}
		}
	}
}

// frozen tells whether a file is unfit as a whole, and reports why.
func (m *merged) frozen(file *fileState, gave bool) bool {
	switch {
	case file.err != nil:
		m.rejected = append(m.rejected, &Problem{File: file.rel, Err: fmt.Errorf("%w: %w", ErrUnreadable, file.err)})
	case len(file.faults) > 0:
		for _, fault := range file.faults {
			m.rejected = append(m.rejected, &Problem{File: fault.File, Line: fault.Line, Err: fault})
		}
	case file.empty && gave:
		m.rejected = append(m.rejected, &Problem{File: file.rel, Err: ErrEmptied})
	default:
		return false
	}
	m.complete = false
	return true
}

func (m *merged) add(doc *document, keepKeys map[key]*document, keepFiles map[string]bool) {
	for _, text := range doc.warnings {
		m.warnings = append(m.warnings, doc.problem(errors.New(text)))
	}
	switch {
	case doc.ignored != nil:
		m.ignored = append(m.ignored, doc.ignored)
	case doc.rejected != nil:
		m.rejected = append(m.rejected, doc.rejected)
		if doc.key == (key{}) {
			// It may be any of the file's objects.
			keepFiles[doc.file] = true
			m.complete = false
		} else {
			keepKeys[doc.key] = doc
		}
	default:
		if first := m.entries[doc.key]; first != nil {
			m.rejected = append(m.rejected, doc.problem(fmt.Errorf("%w: %s:%d describes it too, and comes first", ErrDuplicate, first.file, first.line)))
			return
		}
		m.entries[doc.key] = &entry{obj: doc.obj, uidGiven: doc.uidGiven, file: doc.file, line: doc.line}
	}
}

func (d *document) problem(err error) *Problem {
	p := &Problem{File: d.file, Line: d.line, Namespace: d.key.namespace, Name: d.key.name, Err: err}
	if info, ok := infoOf(d.key.kind); ok {
		p.APIVersion, p.Kind = info.gvk.GroupVersion().String(), info.gvk.Kind
	}
	return p
}

// addNamespaces makes a Namespace without labels for every namespace in use
// that no manifest describes, MetalLB's own among them.
func (m *merged) addNamespaces(prev map[key]*entry, own string) {
	info, _ := infoOf(Namespaces)
	used := map[string]bool{own: true}
	for k := range m.entries {
		if k.namespace != "" {
			used[k.namespace] = true
		}
	}
	for name := range used {
		k := key{kind: Namespaces, name: name}
		if m.entries[k] != nil {
			continue
		}
		if old := prev[k]; old != nil && old.file == "" {
			m.entries[k] = old
			continue
		}
		ns := &corev1.Namespace{}
		ns.Name = name
		setDefaults(info, ns)
		m.entries[k] = &entry{obj: ns}
	}
}

// within tells whether file lies in one of the directories, or is one of the
// files, that could not be read.
func within(file string, unreadable map[string]error) bool {
	for dir := file; dir != "." && dir != "/" && dir != ""; dir = path.Dir(dir) {
		if _, ok := unreadable[dir]; ok {
			return true
		}
	}
	return false
}
