package allocator

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustRanges(tb testing.TB, texts ...string) []Range {
	tb.Helper()
	var list []Range
	for _, text := range texts {
		r, _, err := ParseRange(text)
		require.NoError(tb, err)
		list = append(list, r)
	}
	return list
}

func newTest(tb testing.TB, pools ...Pool) *Allocator {
	tb.Helper()
	a, err := New(Config{Pools: pools})
	require.NoError(tb, err)
	return a
}

func mustAssign(tb testing.TB, a *Allocator, req Request) Assignment {
	tb.Helper()
	as, err := a.Assign(req)
	require.NoError(tb, err)
	return as
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// labelIs selects by one label.
type labelIs struct{ key, value string }

func (l labelIs) Matches(labels map[string]string) bool { return labels[l.key] == l.value }
func (l labelIs) String() string                        { return l.key + "=" + l.value }

// want is a request for automatic addresses; the options set what is special.
func want(owner Owner, options ...func(*Request)) Request {
	req := Request{Owner: owner, Namespace: "default", Families: []Family{IPv4}}
	for _, option := range options {
		option(&req)
	}
	return req
}

func at(texts ...string) func(*Request) {
	return func(r *Request) { r.Addresses, r.Families = addrs(texts...), nil }
}

func from(pool string) func(*Request) { return func(r *Request) { r.Pool = pool } }

func in(namespace string, labels ...string) func(*Request) {
	return func(r *Request) {
		r.Namespace, r.Labels = namespace, map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			r.Labels[labels[i]] = labels[i+1]
		}
	}
}

func key(sharing string) func(*Request) { return func(r *Request) { r.SharingKey = sharing } }

func backend(text string) func(*Request) { return func(r *Request) { r.BackendKey = text } }

func tcp(numbers ...uint16) func(*Request) { return ports("TCP", numbers) }

func udp(numbers ...uint16) func(*Request) { return ports("UDP", numbers) }

func ports(protocol string, numbers []uint16) func(*Request) {
	return func(r *Request) {
		for _, n := range numbers {
			r.Ports = append(r.Ports, Port{protocol, n})
		}
	}
}

func only(families ...Family) func(*Request) { return func(r *Request) { r.Families = families } }

// both is RequireDualStack, prefer PreferDualStack.
func both(r *Request) { r.Families = []Family{IPv4, IPv6} }

func prefer(r *Request) { r.Families, r.Partial = []Family{IPv4, IPv6}, true }

func preferV6(r *Request) { r.Families, r.Partial = []Family{IPv6, IPv4}, true }

// requireHeld checks what an owner holds; no address means nothing.
func requireHeld(tb testing.TB, a *Allocator, owner Owner, pool string, texts ...string) {
	tb.Helper()
	as, ok := a.Get(owner)
	require.Equal(tb, len(texts) > 0, ok, "holds anything")
	if ok {
		require.Equal(tb, Assignment{owner, pool, addrs(texts...)}, as)
	}
}
