package source

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// document is what one YAML document, or one item of a List, turned out to be.
// Exactly one of obj, rejected and ignored is set.
type document struct {
	file string
	line int

	key key    // set when the document names a served kind and an object
	obj object // complete with defaults

	// uidGiven says that the manifest, not the package, chose the UID.
	uidGiven bool

	rejected *Problem
	ignored  *Problem
	warnings []string

	// placeholder stands for a rejected pool of which no good version is known.
	placeholder object
}

// decodeFile decodes every document of a file. The documents that could be
// read are returned beside the faults of those that could not.
func decodeFile(file string, data []byte, namespace string) ([]document, []*SyntaxError) {
	split := splitYAML
	if strings.EqualFold(path.Ext(file), ".json") {
		split = splitJSON
	}
	chunks, faults := split(file, data)
	d := decoder{file: file, namespace: namespace}
	for _, c := range chunks {
		d.decode(c, 0)
	}
	return d.docs, faults
}

// maxListDepth bounds Lists inside Lists.
const maxListDepth = 8

type decoder struct {
	file, namespace string
	docs            []document
}

// header is what a document says about itself, before its kind is known.
type header struct {
	gvk             schema.GroupVersionKind
	apiVersion      string
	namespace, name string
	isObject        bool
	items           []json.RawMessage
	hasItems        bool
	badItems        bool // it is a List, and its items are something else
}

func readHeader(data []byte) header {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return header{}
	}
	// A field of another type reads as empty here; decoding into the kind says
	// what is wrong with it.
	text := func(raw json.RawMessage) (s string) {
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	}
	h := header{isObject: true, apiVersion: text(fields["apiVersion"])}
	h.gvk = schema.FromAPIVersionAndKind(h.apiVersion, text(fields["kind"]))
	var metadata map[string]json.RawMessage
	if json.Unmarshal(fields["metadata"], &metadata) == nil {
		h.namespace, h.name = text(metadata["namespace"]), text(metadata["name"])
	}
	raw, ok := fields["items"]
	h.hasItems = ok && json.Unmarshal(raw, &h.items) == nil
	if h.gvk == (schema.GroupVersionKind{Version: "v1", Kind: "List"}) {
		h.badItems = ok && !h.hasItems
		h.hasItems = !h.badItems // without items it is empty
	}
	return h
}

func (d *decoder) decode(c chunk, depth int) {
	h := readHeader(c.json)
	if !h.isObject && string(c.json) == "null" {
		return
	}
	if h.hasItems && strings.HasSuffix(h.gvk.Kind, "List") && depth < maxListDepth {
		for _, item := range h.items {
			d.decode(chunk{line: c.line, json: withListKind(item, h), warning: c.warning}, depth+1)
			c.warning = nil // once for the whole document
		}
		return
	}
	d.docs = append(d.docs, d.document(c, h))
}

// withListKind gives an item of a typed list, such as a ServiceList, the kind
// that the list implies; the API server leaves it out there.
func withListKind(item json.RawMessage, list header) json.RawMessage {
	kind := strings.TrimSuffix(list.gvk.Kind, "List")
	var fields map[string]json.RawMessage
	if kind == "" || json.Unmarshal(item, &fields) != nil || fields["kind"] != nil {
		return item
	}
	fields["kind"], _ = json.Marshal(kind)
	fields["apiVersion"], _ = json.Marshal(list.apiVersion)
	typed, err := json.Marshal(fields)
	if err != nil {
		return item
	}
	return typed
}

func (d *decoder) document(c chunk, h header) document {
	doc := document{file: d.file, line: c.line}
	if c.warning != nil {
		doc.warnings = append(doc.warnings, c.warning.Error())
	}
	problem := func(err error) *Problem {
		return &Problem{
			File: d.file, Line: c.line, Err: err,
			APIVersion: h.apiVersion, Kind: h.gvk.Kind, Namespace: h.namespace, Name: h.name,
		}
	}
	if !h.isObject || h.gvk.Kind == "" || h.gvk.Version == "" {
		doc.rejected = problem(fmt.Errorf("%w: a manifest needs apiVersion and kind", ErrNotAnObject))
		return doc
	}
	info, ok := infoFor(h.gvk)
	if !ok && h.badItems {
		doc.rejected = problem(fmt.Errorf("%w: does not decode as %s: items is not a list", ErrInvalid, h.gvk.Kind))
		return doc
	}
	if !ok {
		doc.ignored = problem(fmt.Errorf("%w %s of %s", ErrUnknownKind, h.gvk.Kind, h.gvk.GroupVersion()))
		return doc
	}
	h.namespace = d.placement(info, h.namespace)
	if info.scope == metallbScoped && h.namespace != d.namespace {
		doc.ignored = problem(fmt.Errorf("%w: only objects in %q are read", ErrForeignNamespace, d.namespace))
		return doc
	}
	if h.name != "" {
		doc.key = key{info.kind, h.namespace, h.name}
	}
	obj, strict, err := info.decode(h.gvk, c.json)
	if err != nil {
		doc.placeholder = placeholderFor(info, c.json, h)
		doc.rejected = problem(fmt.Errorf("%w: does not decode as %s: %w", ErrInvalid, h.gvk.Kind, err))
		return doc
	}
	if secret, ok := obj.(*corev1.Secret); ok && secret.Type != corev1.SecretTypeBasicAuth {
		doc.ignored = problem(fmt.Errorf("%w: its type is %q; only those of type %s are read", ErrForeignSecret, secret.Type, corev1.SecretTypeBasicAuth))
		return doc
	}
	for _, unknown := range strict {
		doc.warnings = append(doc.warnings, unknown.Error())
	}
	obj.SetNamespace(h.namespace)
	if err := validateName(info, h); err != nil {
		doc.rejected = problem(err)
		return doc
	}
	doc.uidGiven = obj.GetUID() != ""
	setDefaults(info, obj)
	if err := validateObject(obj); err != nil {
		doc.rejected = problem(fmt.Errorf("%w: %w", ErrInvalid, err))
		return doc
	}
	doc.obj = obj
	return doc
}

// placeholderFor returns a pool that has an identity and no contents, for a
// document that says which pool it is but does not decode. Those who know
// nothing better may then leave the addresses that are held in it alone: to
// them a pool without addresses is a rejected one, not a deleted one. There is
// none for other kinds.
func placeholderFor(info kindInfo, data []byte, h header) object {
	if info.kind != IPAddressPools || h.name == "" {
		return nil
	}
	pool := &v1beta1.IPAddressPool{}
	var known struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if json.Unmarshal(data, &known) == nil {
		pool.ObjectMeta = known.Metadata
	}
	pool.Name, pool.Namespace = h.name, h.namespace
	if validateName(info, h) != nil {
		return nil
	}
	setDefaults(info, pool)
	return pool
}

// placement says in which namespace an object lives. One that names none goes
// where kubectl would put it with MetalLB's namespace (metallb.io kinds) or
// with "default" (all others) as its current namespace.
func (d *decoder) placement(info kindInfo, given string) string {
	switch {
	case info.scope == clusterScoped:
		return ""
	case given != "":
		return given
	case info.scope == metallbScoped:
		return d.namespace
	default:
		return "default"
	}
}

// validateName holds names to the API server's rules; they become file names.
func validateName(info kindInfo, h header) error {
	if h.name == "" {
		return ErrNoName
	}
	check := validation.IsDNS1123Subdomain
	if info.kind == Services || info.kind == Namespaces {
		check = validation.IsDNS1123Label
	}
	if faults := check(h.name); len(faults) > 0 {
		return fmt.Errorf("%w: metadata.name %q: %s", ErrInvalid, h.name, strings.Join(faults, "; "))
	}
	if h.namespace == "" {
		return nil
	}
	if faults := validation.IsDNS1123Label(h.namespace); len(faults) > 0 {
		return fmt.Errorf("%w: metadata.namespace %q: %s", ErrInvalid, h.namespace, strings.Join(faults, "; "))
	}
	return nil
}
