package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestEventsAreSaidOnTransitionsOnly(t *testing.T) {
	a := event{corev1.EventTypeWarning, "deprecatedAnnotation", "a"}
	b := event{corev1.EventTypeWarning, "deprecatedAnnotation", "b"}
	gained := event{corev1.EventTypeNormal, "IPAllocated", "assigned 192.0.2.1"}
	again := event{corev1.EventTypeNormal, "IPAllocated", "assigned 192.0.2.2"}

	steps := []struct {
		name    string
		held    []event
		now     []event
		emitted []event
	}{
		{"two of one reason", nil, []event{a, b}, []event{a, b}},
		{"both still true", nil, []event{a, b}, nil},
		{"in another order", nil, []event{b, a}, nil},
		{"twice in one pass", nil, []event{a, a}, nil},
		{"one came back", nil, []event{a, b}, []event{b}},
		{"nothing is wrong", nil, nil, nil},
		{"wrong again", nil, []event{a}, []event{a}},
		{"of two assignments the first", []event{gained}, []event{again}, []event{gained}},
		{"which is over", nil, nil, nil},
	}
	var got []event
	s := newSayer(func(_ runtime.Object, kind, reason, message string) {
		got = append(got, event{kind, reason, message})
	})
	for _, step := range steps {
		got = nil
		s.hold("svc", step.held)
		s.say("svc", &corev1.Service{}, step.now)
		assert.Equal(t, step.emitted, got, step.name)
	}
	assert.Empty(t, s.said)
}
