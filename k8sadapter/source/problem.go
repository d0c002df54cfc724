package source

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonRejected is the reason of the Event that tells of a document which is
// YAML but does not decode as its kind.
const ReasonRejected = "ConfigurationError"

// Reasons why a document is not used. Problem.Err wraps one of them.
var (
	// ErrNotAnObject: the document has no kind, or is no mapping at all.
	ErrNotAnObject = errors.New("not a Kubernetes object")
	// ErrNoName: metadata.name is missing.
	ErrNoName = errors.New("metadata.name is missing")
	// ErrInvalid: the API server would refuse the object.
	ErrInvalid = errors.New("invalid object")
	// ErrDuplicate: another document, earlier in the order of file names,
	// describes the same object.
	ErrDuplicate = errors.New("the object is described twice")
	// ErrUnknownKind: Herald does not read this kind.
	ErrUnknownKind = errors.New("unknown kind")
	// ErrForeignNamespace: a metallb.io object outside MetalLB's namespace.
	ErrForeignNamespace = errors.New("outside the MetalLB namespace")
	// ErrForeignSecret: a Secret that cannot hold the password of a BGPPeer.
	ErrForeignSecret = errors.New("not a Secret of Herald's")
	// ErrUnreadable: a file or directory could not be read.
	ErrUnreadable = errors.New("cannot be read")
	// ErrEmptied: a file that described objects is empty. It counts as being
	// written: its objects stay until it has content again or is deleted.
	ErrEmptied = errors.New("the file has become empty (delete it to delete its objects)")
)

// SyntaxError says that a file is not YAML (or not JSON, by its name).
type SyntaxError struct {
	File string // relative to the directory of manifests
	Line int    // counted from 1 in the file, whichever document it is in
	Err  error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the parser's complaint.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Problem tells why a document, or a whole file, is not used as it stands.
type Problem struct {
	File string // relative to the directory of manifests
	Line int    // where the document begins, counted from 1; 0: the file as a whole

	// What the document calls itself, as far as it does.
	APIVersion, Kind, Namespace, Name string

	Err error
}

// Error names the place, the object and the cause on one line.
func (p *Problem) Error() string {
	if _, ok := errors.AsType[*SyntaxError](p.Err); ok {
		return p.Err.Error()
	}
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if subject := p.subject(); subject != "" {
		return fmt.Sprintf("%s: %s: %v", place, subject, p.Err)
	}
	return fmt.Sprintf("%s: %v", place, p.Err)
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Object returns a stand-in for the object that the document describes, to
// hang an Event on. A problem of a whole file gets the kind "Manifest" and the
// name of the file.
func (p *Problem) Object() runtime.Object {
	obj := &metav1.PartialObjectMetadata{}
	obj.APIVersion, obj.Kind = p.APIVersion, p.Kind
	obj.Namespace, obj.Name = p.Namespace, p.Name
	if p.Kind == "" || p.Name == "" {
		obj.APIVersion, obj.Kind, obj.Namespace, obj.Name = "", "Manifest", "", p.File
	}
	obj.UID = syntheticUID(obj.Kind, obj.Namespace, obj.Name)
	return obj
}

func (p *Problem) subject() string {
	name := p.Name
	if p.Namespace != "" && p.Name != "" {
		name = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String()
	}
	return strings.TrimSpace(p.Kind + " " + name)
}

// identity tells two looks at the same fault from two faults. The line is left
// out, so that an edit further up is no news.
func (p *Problem) identity() string {
	err := p.Err
	if syntax, ok := errors.AsType[*SyntaxError](err); ok {
		err = syntax.Err
	}
	return strings.Join([]string{p.File, p.APIVersion, p.Kind, p.Namespace, p.Name, err.Error()}, "\x00")
}

// referenceTo builds the involvedObject of an Event. Objects that come out of
// a list-watch carry no kind of their own, so the type supplies it.
func referenceTo(obj runtime.Object) (corev1.ObjectReference, error) {
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return corev1.ObjectReference{}, fmt.Errorf("source: event about a %T, which has no metadata", obj)
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	for _, info := range kindTable() {
		if fmt.Sprintf("%T", info.newObject()) == fmt.Sprintf("%T", obj) {
			gvk = info.gvk
		}
	}
	return corev1.ObjectReference{
		APIVersion:      gvk.GroupVersion().String(),
		Kind:            gvk.Kind,
		Namespace:       accessor.GetNamespace(),
		Name:            accessor.GetName(),
		UID:             accessor.GetUID(),
		ResourceVersion: accessor.GetResourceVersion(),
	}, nil
}
