package config_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

// objectMeta draws metadata from so few values that names collide, ages tie, and objects come back as others.
func objectMeta(t *rapid.T, names ...string) metav1.ObjectMeta {
	m := born(rapid.SampledFrom(names).Draw(t, "name"), rapid.IntRange(0, 2).Draw(t, "minute"))
	m.UID = types.UID(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "uid"))
	m.Labels = rapid.SampledFrom([]map[string]string{nil, {"zone": "a"}, {"zone": "b"}}).Draw(t, "labels")
	return m
}

func someSelectors(t *rapid.T, label string) []metav1.LabelSelector {
	return rapid.SliceOfN(rapid.SampledFrom([]metav1.LabelSelector{
		{},
		labelled("zone", "a")[0], labelled("zone", "b")[0], expression("zone", "In", "b", "a"),
		expression("zone", "In", "a", "b"), expression("zone", "Near", "a"), expression("zone", "In"),
	}), 0, 2).Draw(t, label)
}

// someEntry draws entries that lie within 16 addresses of each family, and some that are wrong.
func someEntry(t *rapid.T) string {
	a, b := rapid.IntRange(0, 15).Draw(t, "a"), rapid.IntRange(0, 15).Draw(t, "b")
	switch rapid.IntRange(0, 8).Draw(t, "form") {
	case 0:
		return fmt.Sprintf("2001:db8::%x/127", a)
	case 1:
		return "junk"
	case 2:
		return fmt.Sprintf("192.0.2.%d-192.0.2.%d", a, b) // may be reversed
	default:
		return fmt.Sprintf("192.0.2.%d-192.0.2.%d", a, min(a+b/4, 15))
	}
}

func someObjects(t *rapid.T) config.Objects {
	var in config.Objects
	for range rapid.IntRange(0, 5).Draw(t, "pools") {
		p := &v1beta1.IPAddressPool{ObjectMeta: objectMeta(t, "p", "q", "r", "s")}
		for range rapid.IntRange(0, 2).Draw(t, "entries") {
			p.Spec.Addresses = append(p.Spec.Addresses, someEntry(t))
		}
		if rapid.Bool().Draw(t, "allocated") {
			p.Spec.AllocateTo = &v1beta1.ServiceAllocation{
				Priority: rapid.IntRange(-1, 3).Draw(t, "priority"), NamespaceSelectors: someSelectors(t, "namespaceSelectors"),
			}
		}
		in.Pools = append(in.Pools, p)
	}
	for range rapid.IntRange(0, 3).Draw(t, "ads") {
		a := &v1beta1.L2Advertisement{ObjectMeta: objectMeta(t, "x", "y")}
		a.Spec.IPAddressPools = rapid.SliceOfN(rapid.SampledFrom([]string{"p", "q", "zz"}), 0, 2).Draw(t, "ipAddressPools")
		a.Spec.NodeSelectors = someSelectors(t, "nodeSelectors")
		in.L2Advertisements = append(in.L2Advertisements, a)
	}
	for _, name := range []string{"n1", "n2"} {
		if rapid.Bool().Draw(t, name) {
			in.Namespaces = append(in.Namespaces, namespace(name, map[string]string{"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")}))
		}
	}
	return in
}

func shuffled[T any](t *rapid.T, in []T) []T {
	if len(in) < 2 {
		return in
	}
	return rapid.Permutation(in).Draw(t, "order")
}

// equalConfigs compares everything, the memory of selectors included: a selector is equal when its text is.
func equalConfigs(a, b config.Config) string {
	return cmp.Diff(a, b,
		cmp.Exporter(func(reflect.Type) bool { return true }),
		cmp.Comparer(func(x, y allocator.Selector) bool { return x.String() == y.String() }),
		cmp.Comparer(func(x, y netip.Addr) bool { return x == y }),
		cmp.Comparer(func(x, y error) bool { return x.Error() == y.Error() }),
		cmpopts.EquateEmpty(),
	)
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, other config.Store
		for range rapid.IntRange(1, 4).Draw(t, "updates") {
			in := someObjects(t)
			mixed := config.Objects{
				Pools:            shuffled(t, in.Pools),
				L2Advertisements: shuffled(t, in.L2Advertisements),
				Namespaces:       shuffled(t, in.Namespaces),
			}
			if diff := equalConfigs(one.Update(in), other.Update(mixed)); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestUpdateInvariants runs a store through a random history beside a plain memory of what was good, and checks what
// must hold of every configuration.
func TestUpdateInvariants(t *testing.T) {
	type version struct {
		uid    types.UID
		ranges []allocator.Range
	}
	rapid.Check(t, func(t *rapid.T) {
		var store config.Store
		lastGood := map[string]version{}
		for range rapid.IntRange(1, 5).Draw(t, "updates") {
			in := someObjects(t)
			cfg := store.Update(in)
			for _, err := range allocator.ValidatePools(cfg.AllocatorPools()) {
				t.Fatalf("the allocator refuses it: %v", err)
			}

			rejected := map[*v1beta1.IPAddressPool]config.Rejection{}
			for _, r := range cfg.Rejected {
				var fe *config.FieldError
				require.ErrorAs(t, r.Err, &fe)
				if p, ok := r.Object.(*v1beta1.IPAddressPool); ok {
					rejected[p] = r
				}
			}
			now := map[string]version{}
			for _, obj := range in.Pools {
				r, bad := rejected[obj]
				was, known := lastGood[obj.Name]
				known = known && was.uid == obj.UID
				p, inForce := cfg.Pool(obj.Name)
				require.True(t, inForce, "no name is ever lost")
				switch {
				case !bad:
					now[obj.Name] = version{obj.UID, p.Alloc.Ranges}
					require.Len(t, p.Alloc.Ranges, len(obj.Spec.Addresses))
				case strings.Contains(r.Error(), "older object of the same kind"):
				case known:
					now[obj.Name] = was
					require.Equal(t, !p.Alloc.Opaque, r.Kept)
					for _, part := range p.Alloc.Ranges {
						require.True(t, slices.ContainsFunc(was.ranges, func(w allocator.Range) bool {
							return w.Contains(part.From) && w.Contains(part.To)
						}), "%s was not in the last good version", part)
					}
				default:
					require.True(t, p.Alloc.Opaque)
					require.False(t, r.Kept)
				}
			}
			lastGood = now
			checkPoolOf(t, cfg)
		}
	})
}

// checkPoolOf compares PoolOf with a look at every range of every pool, for every address that the pools may hold.
func checkPoolOf(t *rapid.T, cfg config.Config) {
	for i := range 20 {
		for _, text := range []string{fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("2001:db8::%x", i)} {
			a := netip.MustParseAddr(text)
			want := ""
			for _, p := range cfg.Pools {
				if slices.ContainsFunc(p.Alloc.Ranges, func(r allocator.Range) bool { return r.Contains(a) }) {
					want = p.Name
				}
			}
			got, ok := cfg.PoolOf([]netip.Addr{a}, "")
			assert.Equal(t, want, got.Name, a)
			assert.Equal(t, want != "", ok, a)
		}
	}
}

// FuzzServiceRequest feeds texts into every field of a Service that a user can fill freely.
func FuzzServiceRequest(f *testing.F) {
	f.Add("192.0.2.5,2001:db8::5", "edge", "key", "192.0.2.9", "10.96.0.9,fd00::9", "RequireDualStack", "192.0.2.1")
	f.Add(" , ", "", "", "", "None", "", "junk")
	f.Add("::ffff:1.2.3.4", "\x00", "k", "fe80::1%e", "", "PreferDualStack", "")
	f.Fuzz(func(t *testing.T, ips, pool, key, lbIP, cluster, policyText, status string) {
		svc := service(clusterIPs(strings.Split(cluster, ",")...), policy(corev1.IPFamilyPolicy(policyText)), loadBalancerIP(lbIP),
			annotated(config.AnnotationLoadBalancerIPs, ips, config.LegacyAddressPool, pool, config.AnnotationAllowSharedIP, key),
			holding(strings.Split(status, ",")...), local(map[string]string{key: pool}))
		before := svc.DeepCopy()
		req, _, err := config.ServiceRequest(svc)
		assert.Equal(t, before, svc, "the Service must not change")
		if err != nil {
			var re *config.RequestError
			require.ErrorAs(t, err, &re)
			require.NotEmpty(t, re.Field)
			return
		}
		require.NotEmpty(t, req.Families)
		require.LessOrEqual(t, len(req.Families), 2)
		for _, a := range req.Addresses {
			require.Contains(t, req.Families, allocator.FamilyOf(a))
			require.Empty(t, a.Zone())
		}
		if len(req.Addresses) > 0 {
			require.Len(t, req.Addresses, len(req.Families), "one of each family")
		}
		held, _ := config.StatusAddrs(svc)
		for _, a := range held {
			require.True(t, a.IsValid() && !a.Is4In6() && a.Zone() == "")
		}
	})
}

// FuzzParseAddresses checks that what is accepted reads back as the same.
func FuzzParseAddresses(f *testing.F) {
	for _, s := range []string{"192.0.2.5", " 2001:DB8::5 , 192.0.2.5", "192.0.2.5,", ",", "1.2.3.4,5.6.7.8", "fe80::1%eth0", "::ffff:1.2.3.4", "192.0.2.005"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := config.ParseAddresses(list)
		if err != nil {
			require.Empty(t, got)
			require.NotEmpty(t, err.Error())
			return
		}
		var canonical []string
		for _, a := range got {
			canonical = append(canonical, a.String())
		}
		again, err := config.ParseAddresses(strings.Join(canonical, ","))
		require.NoError(t, err)
		require.Equal(t, got, again)
		require.True(t, len(got) == 1 || len(got) == 2 && got[0].Is4() != got[1].Is4())
	})
}

// FuzzPoolAddresses checks that no text breaks an update, and that the allocator takes what is accepted.
func FuzzPoolAddresses(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.0.5 - 10.0.0.9")
	f.Add("::ffff:10.0.0.0/120", "10.0.0.0-10.0.0.0")
	f.Add("0.0.0.0/0", "::/0")
	f.Fuzz(func(t *testing.T, a, b string) {
		var store config.Store
		store.Update(pools(pool("a", "10.0.0.0/24"), pool("b", "10.0.1.0/24")))
		cfg := store.Update(pools(pool("a", a), pool("b", b, a)))
		require.Len(t, cfg.Pools, 2)
		requireSound(t, cfg)
		for _, r := range cfg.Rejected {
			require.NotContains(t, r.Error(), "\n")
		}
	})
}
