package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

func TestPoolRejected(t *testing.T) {
	selectors := func(in ...metav1.LabelSelector) *v1beta1.ServiceAllocation {
		return &v1beta1.ServiceAllocation{ServiceSelectors: in}
	}
	nsSelectors := func(in ...metav1.LabelSelector) *v1beta1.ServiceAllocation {
		return &v1beta1.ServiceAllocation{NamespaceSelectors: in}
	}
	gold := metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	tests := []struct {
		name       string
		addresses  []string
		allocation *v1beta1.ServiceAllocation
		field      string // of the first fault
		value      string
		words      string // in the text
	}{
		{"no addresses", nil, nil, "spec.addresses", "", "at least one"},
		{"octet too large", []string{"10.0.0.300/24"}, nil, "spec.addresses[0]", "10.0.0.300/24", "10.0.0.300/24"},
		{"zone", []string{"fe80::1%eth0/64"}, nil, "spec.addresses[0]", "fe80::1%eth0/64", ""},
		{"bare address", []string{"10.0.0.5"}, nil, "spec.addresses[0]", "10.0.0.5", "/32"},
		{"bare IPv6 address", []string{"2001:db8::5"}, nil, "spec.addresses[0]", "2001:db8::5", "/128"},
		{"prefix too long", []string{"10.9.0.0/33"}, nil, "spec.addresses[0]", "10.9.0.0/33", ""},
		{"start is a prefix", []string{"10.0.0.0/24-"}, nil, "spec.addresses[0]", "10.0.0.0/24-", ""},
		{"start is a word", []string{"foo-10.0.0.9"}, nil, "spec.addresses[0]", "foo-10.0.0.9", ""},
		{"no end", []string{"10.0.0.1-"}, nil, "spec.addresses[0]", "10.0.0.1-", ""},
		{"three ends", []string{"10.0.0.1-10.0.0.2-10.0.0.3"}, nil, "spec.addresses[0]", "10.0.0.1-10.0.0.2-10.0.0.3", ""},
		{"reversed", []string{"10.0.0.9-10.0.0.1"}, nil, "spec.addresses[0]", "10.0.0.9-10.0.0.1", "before"},
		{"IPv6 to IPv4", []string{"fd00::1-10.0.0.1"}, nil, "spec.addresses[0]", "fd00::1-10.0.0.1", "famil"},
		{"IPv4 to IPv6", []string{"10.44.0.1-fd44::1"}, nil, "spec.addresses[0]", "10.44.0.1-fd44::1", "famil"},
		{"empty entry", []string{"10.0.0.0/24", " "}, nil, "spec.addresses[1]", " ", ""},
		{"leading zero", []string{"192.0.2.005/32"}, nil, "spec.addresses[0]", "192.0.2.005/32", ""},
		{"mapped prefix wider than IPv4", []string{"::ffff:10.0.0.0/90"}, nil, "spec.addresses[0]", "::ffff:10.0.0.0/90", ""},
		{"second is bad", []string{"10.0.0.0/24", "nope"}, nil, "spec.addresses[1]", "nope", ""},
		{"overlap inside", []string{"10.44.0.0/30", "10.44.0.2/32"}, nil, "spec.addresses[1]", "10.44.0.2/32", "10.44.0.0/30"},
		{"same entry twice", []string{"10.44.0.0/30", "10.44.0.0/30"}, nil, "spec.addresses[1]", "10.44.0.0/30", "overlaps"},
		{
			"negative priority",
			[]string{"10.0.0.0/24"},
			&v1beta1.ServiceAllocation{Priority: -3}, "spec.serviceAllocation.priority", "-3", "negative",
		},
		{
			"namespace twice",
			[]string{"10.0.0.0/24"},
			&v1beta1.ServiceAllocation{Namespaces: []string{"shop", "shop"}}, "spec.serviceAllocation.namespaces[1]", "shop", "namespaces[0]",
		},
		{
			"service selector twice",
			[]string{"10.0.0.0/24"},
			selectors(gold, gold),
			"spec.serviceAllocation.serviceSelectors[1]", "tier=gold", "serviceSelectors[0]",
		},
		{
			"namespace selector twice",
			[]string{"10.0.0.0/24"},
			nsSelectors(gold, gold),
			"spec.serviceAllocation.namespaceSelectors[1]", "tier=gold", "namespaceSelectors[0]",
		},
		{
			"selector twice in another order",
			[]string{"10.0.0.0/24"},
			selectors(expression("a", "In", "x", "y"), expression("a", "In", "y", "x")),
			"spec.serviceAllocation.serviceSelectors[1]", "a in (x,y)", "same",
		},
		{
			"value twice",
			[]string{"10.0.0.0/24"},
			selectors(expression("a", "In", "x", "x")),
			"spec.serviceAllocation.serviceSelectors[0].matchExpressions[0].values", "x", "twice",
		},
		{
			"expression twice",
			[]string{"10.0.0.0/24"},
			selectors(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: "Exists"}, {Key: "a", Operator: "Exists"},
			}}),
			"spec.serviceAllocation.serviceSelectors[0].matchExpressions[1]", "a Exists ", "same",
		},
		{
			"unknown operator",
			[]string{"10.0.0.0/24"},
			selectors(expression("a", "Near", "x")),
			"spec.serviceAllocation.serviceSelectors[0]", `{"matchExpressions":[{"key":"a","operator":"Near","values":["x"]}]}`, "Near",
		},
		{
			"In without values",
			[]string{"10.0.0.0/24"},
			nsSelectors(expression("a", "In")),
			"spec.serviceAllocation.namespaceSelectors[0]", "", "values",
		},
		{
			"empty key",
			[]string{"10.0.0.0/24"},
			selectors(expression("", "Exists")),
			"spec.serviceAllocation.serviceSelectors[0]", "", "label selector",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad := pool("edge", tt.addresses...)
			bad.Spec.AllocateTo = tt.allocation
			var store config.Store
			cfg := store.Update(pools(bad, pool("other", "172.16.0.0/24")))

			require.Len(t, cfg.Rejected, 1)
			r := cfg.Rejected[0]
			assert.Equal(t, "IPAddressPool", r.Kind)
			assert.Equal(t, metallbSystem, r.Namespace)
			assert.Equal(t, "edge", r.Name)
			assert.Same(t, bad, r.Object)
			assert.False(t, r.Kept)
			var fe *config.FieldError
			require.ErrorAs(t, r.Err, &fe)
			assert.Equal(t, tt.field, fe.Field)
			if tt.value != "" {
				assert.Equal(t, tt.value, fe.Value)
			}
			assert.Contains(t, r.Error(), "IPAddressPool metallb-system/edge")
			assert.Contains(t, r.Error(), tt.field)
			assert.Contains(t, r.Error(), tt.words)
			assert.NotContains(t, r.Error(), "\n")

			p, ok := cfg.Pool("edge")
			require.True(t, ok)
			assert.True(t, p.Alloc.Opaque, "no good version is known")
			assert.Equal(t, []string{"172.16.0.0/24"}, rangesOf(t, cfg, "other"), "the other pool works")
			requireSound(t, cfg)
		})
	}
}

func TestPoolAccepted(t *testing.T) {
	tests := []struct {
		name      string
		addresses []string
		want      []string
		warns     string // words of the only warning, or empty
	}{
		{"prefix", []string{"10.0.0.5/32"}, []string{"10.0.0.5/32"}, ""},
		{"range", []string{"10.44.0.5-10.44.0.9"}, []string{"10.44.0.5-10.44.0.9"}, ""},
		{"spaces around the dash", []string{"10.44.0.5 - 10.44.0.9"}, []string{"10.44.0.5-10.44.0.9"}, ""},
		{"tabs and a line break", []string{"\t192.0.2.81\t-\t192.0.2.99\n"}, []string{"192.0.2.81-192.0.2.99"}, ""},
		{"spaces at both ends", []string{" 10.44.0.0/24 "}, []string{"10.44.0.0/24"}, ""},
		{"one address as a range", []string{"10.44.0.5-10.44.0.5"}, []string{"10.44.0.5/32"}, ""},
		{"host bits", []string{"10.44.0.77/24"}, []string{"10.44.0.0/24"}, "host bits"},
		{"mapped range", []string{"::ffff:10.44.0.1-10.44.0.4"}, []string{"10.44.0.1-10.44.0.4"}, "IPv6 form"},
		{"mapped prefix", []string{"::ffff:10.0.0.0/120"}, []string{"10.0.0.0/24"}, "IPv6 form"},
		{"adjacent ranges", []string{"10.44.0.1-10.44.0.100", "10.44.0.101-10.44.0.200"}, []string{"10.44.0.1-10.44.0.100", "10.44.0.101-10.44.0.200"}, ""},
		{"both families, order kept", []string{"2001:db8::/64", "10.0.0.0/24"}, []string{"2001:db8::/64", "10.0.0.0/24"}, ""},
		{"everything", []string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0", "::/0"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var store config.Store
			cfg := store.Update(pools(pool("edge", tt.addresses...)))
			require.Empty(t, cfg.Rejected)
			assert.Equal(t, tt.want, rangesOf(t, cfg, "edge"))
			if tt.warns == "" {
				assert.Empty(t, cfg.Warnings)
			} else if assert.Len(t, cfg.Warnings, 1) {
				w := cfg.Warnings[0]
				assert.Equal(t, "spec.addresses[0]", w.Field)
				assert.Contains(t, w.Message, tt.warns)
				assert.Contains(t, w.Message, tt.want[0])
			}
			requireSound(t, cfg)
		})
	}
}

func TestPoolFlags(t *testing.T) {
	no := false
	p := pool("edge", "10.0.0.0/24")
	p.Labels = map[string]string{"zone": "a"}
	p.Spec.AutoAssign = &no
	p.Spec.AvoidBuggyIPs = true
	var store config.Store
	cfg := store.Update(pools(p, pool("plain", "10.0.1.0/24")))
	edge, _ := cfg.Pool("edge")
	assert.True(t, edge.Alloc.Manual)
	assert.True(t, edge.Alloc.AvoidBuggyIPs)
	assert.Nil(t, edge.Alloc.Scope)
	assert.Equal(t, map[string]string{"zone": "a"}, edge.Labels)
	plain, _ := cfg.Pool("plain")
	assert.False(t, plain.Alloc.Manual, "autoAssign is true when absent")
}

func TestServiceAllocation(t *testing.T) {
	everyone := &allocator.Scope{AnyNamespace: true}
	namespaces := []string{"blue-1", "red-1", "red-2"}
	tests := []struct {
		name      string
		in        v1beta1.ServiceAllocation
		want      *allocator.Scope // without Services
		selectors []string
		priority  int
		warns     bool
	}{
		{"only a priority", v1beta1.ServiceAllocation{Priority: 7}, everyone, nil, 7, false},
		{"names", v1beta1.ServiceAllocation{Namespaces: []string{"x", "a"}}, &allocator.Scope{Namespaces: []string{"a", "x"}}, nil, 0, false},
		{
			"selectors",
			v1beta1.ServiceAllocation{NamespaceSelectors: labelled("team", "red")},
			&allocator.Scope{Namespaces: []string{"red-1", "red-2"}},
			nil, 0, false,
		},
		{
			"names and selectors",
			v1beta1.ServiceAllocation{Namespaces: []string{"x", "red-1"}, NamespaceSelectors: labelled("team", "red")},
			&allocator.Scope{Namespaces: []string{"red-1", "red-2", "x"}}, nil, 0, false,
		},
		{"selector matches nothing", v1beta1.ServiceAllocation{NamespaceSelectors: labelled("team", "green")}, &allocator.Scope{}, nil, 0, true},
		{"selector matches nothing, one by name", v1beta1.ServiceAllocation{
			Namespaces: []string{"x"}, NamespaceSelectors: labelled("team", "green"),
		}, &allocator.Scope{Namespaces: []string{"x"}}, nil, 0, false},
		{"selector of everything", v1beta1.ServiceAllocation{NamespaceSelectors: []metav1.LabelSelector{{}}}, everyone, nil, 0, false},
		{
			"service selectors",
			v1beta1.ServiceAllocation{ServiceSelectors: labelled("tier", "silver", "tier", "gold")},
			everyone,
			[]string{"tier=gold", "tier=silver"},
			0, false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := pools(allocated("edge", "10.0.0.0/24", tt.in))
			for _, n := range namespaces {
				team, _, _ := strings.Cut(n, "-")
				in.Namespaces = append(in.Namespaces, namespace(n, map[string]string{"team": team}))
			}
			var store config.Store
			cfg := store.Update(in)
			require.Empty(t, cfg.Rejected)
			p, _ := cfg.Pool("edge")
			require.NotNil(t, p.Alloc.Scope)
			assert.Equal(t, tt.priority, p.Alloc.Priority)
			assert.Equal(t, tt.want.AnyNamespace, p.Alloc.Scope.AnyNamespace)
			assert.Equal(t, tt.want.Namespaces, p.Alloc.Scope.Namespaces)
			var selectors []string
			for _, s := range p.Alloc.Scope.Services {
				selectors = append(selectors, s.String())
			}
			assert.Equal(t, tt.selectors, selectors)
			assert.Equal(t, tt.warns, len(cfg.Warnings) == 1, "%v", cfg.Warnings)
			requireSound(t, cfg)
		})
	}
}

func TestServiceSelectorsMatch(t *testing.T) {
	var store config.Store
	cfg := store.Update(pools(allocated("edge", "10.0.0.0/24", v1beta1.ServiceAllocation{
		ServiceSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"tier": "gold", "app": "shop"}}, // both
			expression("tier", "In", "silver", "bronze"),                    // or this
		},
	})))
	p, _ := cfg.Pool("edge")
	match := func(labels map[string]string) bool {
		for _, s := range p.Alloc.Scope.Services {
			if s.Matches(labels) {
				return true
			}
		}
		return false
	}
	assert.True(t, match(map[string]string{"tier": "gold", "app": "shop", "x": "y"}))
	assert.False(t, match(map[string]string{"tier": "gold"}))
	assert.True(t, match(map[string]string{"tier": "bronze"}))
	assert.False(t, match(nil))
}

func TestNamespaceEditResolvesAnew(t *testing.T) {
	in := pools(allocated("edge", "10.0.0.0/24", v1beta1.ServiceAllocation{NamespaceSelectors: labelled("team", "red")}))
	var store config.Store
	in.Namespaces = append(in.Namespaces, namespace("n1", nil), nil)
	cfg := store.Update(in)
	p, _ := cfg.Pool("edge")
	assert.Empty(t, p.Alloc.Scope.Namespaces)

	in.Namespaces[0] = namespace("n1", map[string]string{"team": "red"})
	p, _ = store.Update(in).Pool("edge")
	assert.Equal(t, []string{"n1"}, p.Alloc.Scope.Namespaces)

	// A rejected pool sees the namespaces as they are now, too.
	broken := in.Pools[0].DeepCopy()
	broken.Spec.Addresses = []string{"nonsense"}
	in.Pools[0] = broken
	in.Namespaces = append(in.Namespaces, namespace("n2", map[string]string{"team": "red"}))
	cfg = store.Update(in)
	require.Len(t, cfg.Rejected, 1)
	p, _ = cfg.Pool("edge")
	assert.Equal(t, []string{"n1", "n2"}, p.Alloc.Scope.Namespaces)
}
