package config_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/allocator"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/config"
)

const metallbSystem = "metallb-system"

// born returns metadata of an object in the MetalLB namespace that is as old as minute is small.
func born(name string, minute int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: metallbSystem, UID: types.UID("uid-" + name),
		CreationTimestamp: metav1.Date(2026, time.March, 1, 12, minute, 0, 0, time.UTC),
	}
}

// pool returns a pool of the addresses; all such pools are of the same age, so that their names order them.
func pool(name string, addresses ...string) *v1beta1.IPAddressPool {
	return &v1beta1.IPAddressPool{ObjectMeta: born(name, 0), Spec: v1beta1.IPAddressPoolSpec{Addresses: addresses}}
}

// allocated returns a pool with a serviceAllocation.
func allocated(name, address string, a v1beta1.ServiceAllocation) *v1beta1.IPAddressPool {
	p := pool(name, address)
	p.Spec.AllocateTo = &a
	return p
}

func l2(name string, spec v1beta1.L2AdvertisementSpec) *v1beta1.L2Advertisement {
	return &v1beta1.L2Advertisement{ObjectMeta: born(name, 0), Spec: spec}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func pools(in ...*v1beta1.IPAddressPool) config.Objects { return config.Objects{Pools: in} }

func labelled(kv ...string) []metav1.LabelSelector {
	var out []metav1.LabelSelector
	for i := 0; i < len(kv); i += 2 {
		out = append(out, metav1.LabelSelector{MatchLabels: map[string]string{kv[i]: kv[i+1]}})
	}
	return out
}

func expression(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func addr(t testing.TB, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	require.NoError(t, err)
	return a
}

func addrs(t testing.TB, texts ...string) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, addr(t, text))
	}
	return out
}

// rangesOf returns the ranges of the pool in force, as texts.
func rangesOf(t testing.TB, cfg config.Config, name string) []string {
	t.Helper()
	p, ok := cfg.Pool(name)
	require.Truef(t, ok, "pool %q is not in force", name)
	var out []string
	for _, r := range p.Alloc.Ranges {
		out = append(out, r.String())
	}
	return out
}

// requireSound checks what holds of every configuration: the allocator accepts it.
func requireSound(t testing.TB, cfg config.Config) {
	t.Helper()
	for _, err := range allocator.ValidatePools(cfg.AllocatorPools()) {
		require.NoError(t, err)
	}
}

func names(ads []config.L2Advertisement) []string {
	var out []string
	for _, a := range ads {
		out = append(out, a.Name)
	}
	return out
}
