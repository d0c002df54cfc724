package config

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// labelSelector is a label selector with a canonical text: two selectors that ask for the same in another order have
// the same text. It implements allocator.Selector.
type labelSelector struct {
	selector labels.Selector
	text     string
}

// Matches says whether the selector matches the labels.
func (s labelSelector) Matches(set map[string]string) bool {
	return s.selector.Matches(labels.Set(set))
}

// String returns the requirements in the form of kubectl's --selector, sorted; {} stands for the selector that
// matches everything.
func (s labelSelector) String() string { return s.text }

// Equal says whether both ask for the same.
func (s labelSelector) Equal(o labelSelector) bool { return s.text == o.text }

func (s labelSelector) matchesAll() bool { return s.selector.Empty() }

// matchesAny says whether one of the selectors matches. None at all match nothing.
func matchesAny(selectors []labelSelector, set map[string]string) bool {
	return slices.ContainsFunc(selectors, func(s labelSelector) bool { return s.Matches(set) })
}

// texts returns the sorted texts of the selectors.
func texts(selectors []labelSelector) []string {
	out := make([]string, len(selectors))
	for i, s := range selectors {
		out[i] = s.text
	}
	slices.Sort(out)
	return out
}

// parseSelectors checks the selectors in the field and returns them in the order of their texts.
func parseSelectors(field string, in []metav1.LabelSelector) ([]labelSelector, faults) {
	var bad faults
	out := make([]labelSelector, 0, len(in))
	seen := make(map[string]int, len(in))
	for i := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		s, f := parseSelector(at, &in[i])
		if len(f) > 0 {
			bad = append(bad, f...)
			continue
		}
		if first, dup := seen[s.text]; dup {
			bad = append(bad, &FieldError{
				Field: at, Value: s.text,
				Reason: fmt.Sprintf("is the same as %s[%d]; remove one of them", field, first),
			})
			continue
		}
		seen[s.text] = i
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b labelSelector) int { return strings.Compare(a.text, b.text) })
	return out, bad
}

func parseSelector(field string, in *metav1.LabelSelector) (labelSelector, faults) {
	bad := duplicateExpressions(field, in.MatchExpressions)
	selector, err := metav1.LabelSelectorAsSelector(in)
	if err != nil {
		bad = append(bad, &FieldError{
			Field: field, Value: text(in),
			Reason: fmt.Sprintf("is not a label selector: %v; the operators are In and NotIn with values, Exists and DoesNotExist without", err),
			Err:    err,
		})
	}
	if len(bad) > 0 {
		return labelSelector{}, bad
	}
	return labelSelector{selector: selector, text: canonical(selector)}, nil
}

func canonical(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	if len(requirements) == 0 {
		return "{}"
	}
	out := make([]string, len(requirements))
	for i := range requirements {
		out[i] = requirements[i].String()
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// duplicateExpressions finds values that are listed twice in one expression, and expressions that are listed twice.
func duplicateExpressions(field string, in []metav1.LabelSelectorRequirement) faults {
	var bad faults
	seen := make(map[string]int, len(in))
	for i, e := range in {
		at := fmt.Sprintf("%s.matchExpressions[%d]", field, i)
		values := slices.Sorted(slices.Values(e.Values))
		for j := 1; j < len(values); j++ {
			if values[j] == values[j-1] {
				bad = append(bad, &FieldError{Field: at + ".values", Value: values[j], Reason: "is listed twice; remove one of them"})
				break
			}
		}
		text := fmt.Sprintf("%q %q %q", e.Key, e.Operator, values)
		if first, dup := seen[text]; dup {
			bad = append(bad, &FieldError{
				Field: at, Value: fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")),
				Reason: fmt.Sprintf("is the same as %s.matchExpressions[%d]; remove one of them", field, first),
			})
			continue
		}
		seen[text] = i
	}
	return bad
}

// duplicateStrings finds entries of a list that are in it twice.
func duplicateStrings(field string, in []string) faults {
	var bad faults
	seen := make(map[string]int, len(in))
	for i, s := range in {
		if first, dup := seen[s]; dup {
			bad = append(bad, &FieldError{
				Field: fmt.Sprintf("%s[%d]", field, i), Value: s,
				Reason: fmt.Sprintf("is already in %s[%d]; remove one of them", field, first),
			})
			continue
		}
		seen[s] = i
	}
	return bad
}
