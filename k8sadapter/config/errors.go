package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// FieldError says what is wrong with one field of an object. The error of a [Rejection] holds one for every fault;
// errors.As finds the first.
type FieldError struct {
	// Field is the path of the field, such as spec.addresses[1].
	Field string
	// Value is the value as the object has it.
	Value string
	// Reason says what is wrong with the value, and the way out.
	Reason string
	// Other is the name of the other object that is concerned, as with pools that overlap. It is mostly empty.
	Other string
	// Err is the error of the library that refused the value, or nil.
	Err error
}

// Error returns the field, the value and the reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Field, quote(e.Value), e.Reason)
}

// Unwrap returns e.Err.
func (e *FieldError) Unwrap() error { return e.Err }

// faults are all the things that are wrong with one object, in one line.
type faults []error

func (f faults) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (f faults) Unwrap() []error { return f }

// err returns nil when there is no fault.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Rejection is an object whose present version is not in force.
type Rejection struct {
	Kind, Namespace, Name string
	// Object is the object as it was given.
	Object runtime.Object
	// Err says what is wrong, and holds a [*FieldError] for every fault.
	Err error
	// Kept says that the last good version of the object stays in force.
	Kept bool

	effect string
}

// Error names the object, what is wrong with it, and what is in force instead.
func (r Rejection) Error() string {
	return fmt.Sprintf("%s %s is rejected: %v; %s", r.Kind, objectName(r.Namespace, r.Name), r.Err, r.effect)
}

// Unwrap returns r.Err.
func (r Rejection) Unwrap() error { return r.Err }

// Effect says in words what is in force in place of the rejected version.
func (r Rejection) Effect() string { return r.effect }

// Texts returns the texts of rejections, in their order.
func Texts(rejected []Rejection) []string {
	out := make([]string, len(rejected))
	for i, r := range rejected {
		out[i] = r.Error()
	}
	return out
}

// Warning is something that is probably not meant, in an object that is in force.
type Warning struct {
	Kind, Namespace, Name string
	// Object is the object as it was given.
	Object runtime.Object
	// Field is the path of the field.
	Field string
	// Message says what is odd and what it means; it names field and value.
	Message string
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
