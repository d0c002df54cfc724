package allocator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSharing(t *testing.T) {
	pools := []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29")}}
	shared := func(rest ...step) []step {
		return append([]step{
			{req: want("a", at("10.44.0.1"), key("dns"), tcp(53)), want: []string{"10.44.0.1"}},
			{req: want("b", at("10.44.0.1"), key("dns"), udp(53)), want: []string{"10.44.0.1"}},
		}, rest...)
	}
	runScenarios(t, []scenario{
		{
			name: "alone, changes its own key", pools: pools,
			steps: []step{
				{req: want("a", at("10.44.0.1"), key("x")), want: []string{"10.44.0.1"}},
				{req: want("a", at("10.44.0.1"), key("y")), want: []string{"10.44.0.1"}},
				{req: want("b", at("10.44.0.1"), key("y")), want: []string{"10.44.0.1"}},
			},
		},
		{
			name: "two share, one changes its key", pools: pools,
			steps: shared(step{
				req: want("b", at("10.44.0.1"), key("web"), udp(53)), is: ErrConflict,
				text: `10.44.0.1 is in use by a with another sharing key, "dns"`,
			}),
		},
		{
			name: "two share, one changes its key without an explicit wish", pools: pools,
			steps: shared(step{req: want("b", key("web"), udp(53)), want: []string{"10.44.0.0"}}),
		},
		{
			name: "two share, one changes ports", pools: pools,
			steps: shared(
				step{req: want("a", at("10.44.0.1"), key("dns"), tcp(443)), want: []string{"10.44.0.1"}},
				step{req: want("c", at("10.44.0.1"), key("dns"), tcp(443)), is: ErrConflict, text: "port TCP/443 of 10.44.0.1 is in use by a"},
				step{req: want("c", at("10.44.0.1"), key("dns"), tcp(53)), want: []string{"10.44.0.1"}},
			),
		},
		{
			name: "port busy", pools: pools,
			steps: shared(step{
				req: want("c", at("10.44.0.1"), key("dns"), udp(53)), is: ErrConflict,
				text: "port UDP/53 of 10.44.0.1 is in use by b",
			}),
		},
		{
			name: "protocols in any case", pools: pools,
			steps: shared(step{
				req: want("c", at("10.44.0.1"), key("dns"), ports("udp", []uint16{53})), is: ErrConflict,
				text: "port UDP/53 of 10.44.0.1 is in use by b",
			}, step{
				req: want("c", at("10.44.0.1"), key("dns"), ports("", []uint16{53})), is: ErrConflict,
				text: "port TCP/53 of 10.44.0.1 is in use by a",
			}),
		},
		{
			name: "other backend", pools: pools,
			steps: shared(step{
				req: want("c", at("10.44.0.1"), key("dns"), backend("default app=dns")), is: ErrConflict,
				text: `10.44.0.1 is in use by a, which has sharing key "dns" too, but another backend key`,
			}),
		},
		{
			name: "no key joining", pools: pools,
			steps: shared(step{
				req: want("c", at("10.44.0.1")), is: ErrConflict,
				text: `10.44.0.1 is in use by a, which shares it with group "dns" only`,
			}),
		},
		{
			name: "other key joining", pools: pools,
			steps: shared(step{req: want("c", at("10.44.0.1"), key("web")), is: ErrConflict, text: "another sharing key"}),
		},
		{
			name: "same backend", pools: pools,
			steps: []step{
				{req: want("a", at("10.44.0.1"), key("k"), backend("n app=a"), tcp(80)), want: []string{"10.44.0.1"}},
				{req: want("b", at("10.44.0.1"), key("k"), backend("n app=a"), tcp(81)), want: []string{"10.44.0.1"}},
				{req: want("c", at("10.44.0.1"), key("k"), backend("n app=b"), tcp(82)), is: ErrConflict, text: "another backend key"},
			},
		},
		{
			// The text of both keys together is the same.
			name: "keys do not run into one another", pools: pools,
			steps: []step{
				{req: want("a", at("10.44.0.1"), key("x"), backend("yz"), tcp(80)), want: []string{"10.44.0.1"}},
				{req: want("b", at("10.44.0.1"), key("xy"), backend("z"), tcp(81)), is: ErrConflict},
			},
		},
		{
			name: "sharer switches its backend, then the other", pools: pools,
			steps: shared(
				step{req: want("b", at("10.44.0.1"), key("dns"), backend("x"), udp(53)), is: ErrConflict, text: "another backend key"},
				step{req: want("b"), release: true},
				step{req: want("a", at("10.44.0.1"), key("dns"), backend("x"), tcp(53)), want: []string{"10.44.0.1"}},
				step{req: want("b", at("10.44.0.1"), key("dns"), backend("x"), udp(53)), want: []string{"10.44.0.1"}},
			),
		},
		{
			name: "group joined before a lower free address", pools: pools,
			steps: shared(
				step{req: want("c", key("dns"), tcp(80)), want: []string{"10.44.0.1"}},
				step{req: want("d", key("dns"), tcp(80)), want: []string{"10.44.0.0"}},
				step{req: want("e", key("dns"), tcp(80)), want: []string{"10.44.0.2"}},
				step{req: want("f", key("dns"), tcp(443)), want: []string{"10.44.0.0"}},
			),
		},
		{
			name: "a group of its own for each backend", pools: pools,
			steps: shared(
				step{req: want("c", key("dns"), backend("x"), tcp(80)), want: []string{"10.44.0.0"}},
				step{req: want("d", key("dns"), backend("x"), tcp(81)), want: []string{"10.44.0.0"}},
			),
		},
		{
			name: "portless sharers keep the group", pools: pools,
			steps: []step{
				{req: want("a", key("k"), at("10.44.0.1")), want: []string{"10.44.0.1"}},
				{req: want("b", key("k"), tcp(80)), want: []string{"10.44.0.1"}},
				{req: want("b"), release: true},
				{req: want("d", at("10.44.0.1")), is: ErrConflict, text: "in use by a"},
				{req: want("d", at("10.44.0.1"), key("x")), is: ErrConflict, text: "in use by a"},
				{req: want("b", key("k"), tcp(80)), want: []string{"10.44.0.1"}},
			},
		},
		{
			name: "key forgotten with the last member", pools: pools,
			steps: shared(
				step{req: want("a"), release: true},
				step{req: want("b"), release: true},
				step{req: want("c", key("dns"), tcp(53)), want: []string{"10.44.0.0"}},
			),
		},
		{
			name: "named pool joins its own group only", pools: []Pool{pools[0], {Name: "q", Ranges: mustRanges(t, "10.45.0.0/29")}},
			steps: shared(
				step{req: want("c", key("dns"), from("q"), tcp(80)), want: []string{"10.45.0.0"}, pool: "q"},
				step{req: want("d", key("dns"), from("q"), tcp(81)), want: []string{"10.45.0.0"}, pool: "q"},
				step{req: want("e", key("dns"), tcp(80)), want: []string{"10.44.0.1"}},
			),
		},
		{
			name: "the key leads into a manual pool, the full group not", pools: []Pool{
				{Name: "man", Manual: true, Ranges: mustRanges(t, "10.45.0.0/29")}, pools[0],
			},
			steps: []step{
				{req: want("a", key("k"), from("man"), tcp(80)), want: []string{"10.45.0.0"}, pool: "man"},
				{req: want("b", key("k"), tcp(81)), want: []string{"10.45.0.0"}, pool: "man"},
				{req: want("c", key("k"), tcp(80)), want: []string{"10.44.0.0"}},
			},
		},
		{
			name: "the key does not lead out of the scope", pools: []Pool{
				{Name: "p", Ranges: mustRanges(t, "10.45.0.0/29")},
				{Name: "s", Scope: &Scope{Namespaces: []string{"team-a"}}, Ranges: mustRanges(t, "10.44.0.0/29")},
			},
			steps: []step{
				{req: want("a", in("team-a"), key("k"), tcp(80)), want: []string{"10.44.0.0"}, pool: "s"},
				{req: want("b", in("team-b"), key("k"), tcp(81)), want: []string{"10.45.0.0"}},
				{req: want("c", in("team-a"), key("k"), tcp(82)), want: []string{"10.44.0.0"}, pool: "s"},
			},
		},
		{
			name: "sharing ends", pools: pools,
			steps: shared(
				step{req: want("b", udp(53)), want: []string{"10.44.0.0"}},
				step{req: want("a", tcp(53)), want: []string{"10.44.0.1"}},
				step{req: want("c", at("10.44.0.1")), is: ErrConflict, text: "10.44.0.1 is in use by a"},
			),
		},
	})
}

func TestSharingDualStack(t *testing.T) {
	dual := Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29", "fd44::/125")}
	runScenarios(t, []scenario{
		{
			name: "both of the pair", pools: []Pool{dual},
			steps: []step{
				{req: want("a", at("10.44.0.5", "fd44::3"), key("k"), tcp(80)), want: []string{"10.44.0.5", "fd44::3"}},
				{req: want("b", both, key("k"), tcp(81)), want: []string{"10.44.0.5", "fd44::3"}},
				{req: want("c", prefer, key("k"), tcp(82)), want: []string{"10.44.0.5", "fd44::3"}},
				{req: want("d", key("k"), tcp(83)), want: []string{"10.44.0.5"}},
				{req: want("e", only(IPv6), key("k"), tcp(83)), want: []string{"fd44::3"}},
			},
		},
		{
			name: "neither when one is busy", pools: []Pool{dual},
			steps: []step{
				{req: want("a", at("10.44.0.5", "fd44::3"), key("k"), tcp(80)), want: []string{"10.44.0.5", "fd44::3"}},
				{req: want("b", at("fd44::3"), key("k"), tcp(81)), want: []string{"fd44::3"}},
				{req: want("c", both, key("k"), tcp(81)), want: []string{"10.44.0.0", "fd44::"}},
				{req: want("d", prefer, key("k"), tcp(82)), want: []string{"10.44.0.0", "fd44::"}},
			},
		},
		{
			name: "one joined, the family that the group lacks fresh", pools: []Pool{dual},
			steps: []step{
				{req: want("a", at("10.44.0.5"), key("k"), tcp(80)), want: []string{"10.44.0.5"}},
				{req: want("b", both, key("k"), tcp(81)), want: []string{"10.44.0.5", "fd44::"}},
				{req: want("c", both, key("k"), tcp(82)), want: []string{"10.44.0.5", "fd44::"}},
			},
		},
		{
			name: "Partial joins one where the pool has one", pools: []Pool{
				{Name: "a-dual", Ranges: mustRanges(t, "10.45.0.0/29", "fd45::/125")},
				{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29")},
			},
			steps: []step{
				{req: want("a", at("10.44.0.5"), key("k"), tcp(80)), want: []string{"10.44.0.5"}},
				{req: want("b", prefer, key("k"), tcp(81)), want: []string{"10.44.0.5"}},
				{req: want("c", both, key("k"), tcp(82)), want: []string{"10.45.0.0", "fd45::"}, pool: "a-dual"},
			},
		},
		{
			name: "a join takes nothing fresh from a manual pool", pools: []Pool{
				{Name: "p", Manual: true, Ranges: dual.Ranges},
				{Name: "q", Ranges: mustRanges(t, "10.45.0.0/29", "fd45::/125")},
			},
			steps: []step{
				{req: want("a", at("10.44.0.5"), key("k"), tcp(80)), want: []string{"10.44.0.5"}},
				{req: want("b", both, key("k"), tcp(81)), want: []string{"10.45.0.0", "fd45::"}, pool: "q"},
				{req: want("c", both, from("p"), key("k"), tcp(81)), want: []string{"10.44.0.5", "fd44::"}},
			},
		},
		{
			name: "completed with the group's address", pools: []Pool{dual},
			steps: []step{
				{req: want("a", key("k"), tcp(80)), want: []string{"10.44.0.0"}},
				{req: want("b", key("k"), tcp(81)), want: []string{"10.44.0.0"}},
				{req: want("a", prefer, key("k"), tcp(80)), want: []string{"10.44.0.0", "fd44::"}},
				{req: want("b", prefer, key("k"), tcp(81)), want: []string{"10.44.0.0", "fd44::"}},
			},
		},
	})
}

// Many sharers of one key and port: each address is full for that port, and
// neither joining nor leaving may look at all of them (it would be 10^8 steps).
func TestManySharersOfOnePort(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/15")})
	const n = 20_000
	for i := range n {
		mustAssign(t, a, want(Owner(fmt.Sprint("o", i)), key("k"), tcp(443)))
	}
	usage, _ := a.Usage("p")
	assert.Equal(t, int64(n), usage.V4.Used)
	as := mustAssign(t, a, want("web", key("k"), tcp(80)))
	assert.Equal(t, addrs("10.44.0.0"), as.Addrs)
	for i := range n {
		a.Release(Owner(fmt.Sprint("o", i)))
	}
	a.Release("web")
	assert.Empty(t, a.groups)
	assert.Empty(t, a.held[0])
}

func TestConflictErrorData(t *testing.T) {
	a := newTest(t, Pool{Name: "p", Ranges: mustRanges(t, "10.44.0.0/29")})
	mustAssign(t, a, want("z", at("10.44.0.1"), key("k"), tcp(80)))
	mustAssign(t, a, want("m", at("10.44.0.1"), key("k"), tcp(81)))
	mustAssign(t, a, want("alone", at("10.44.0.2")))
	addr := addrs("10.44.0.1")[0]
	for _, tt := range []struct {
		req  Request
		want ConflictError
	}{
		{want("c", at("10.44.0.1"), key("k"), tcp(80)), ConflictError{addr, "z", Port{"TCP", 80}, ReasonPort, "k", time.Time{}}},
		{want("c", at("10.44.0.1"), key("k"), backend("b")), ConflictError{addr, "m", Port{}, ReasonBackendKey, "k", time.Time{}}},
		{want("c", at("10.44.0.1"), key("x")), ConflictError{addr, "m", Port{}, ReasonSharingKey, "k", time.Time{}}},
		{want("c", at("10.44.0.1")), ConflictError{addr, "m", Port{}, ReasonGroup, "k", time.Time{}}},
		{want("c", at("10.44.0.2")), ConflictError{addr.Next(), "alone", Port{}, ReasonBusy, "", time.Time{}}},
		{want("c", at("10.44.0.2"), key("k")), ConflictError{addr.Next(), "alone", Port{}, ReasonHolderAlone, "", time.Time{}}},
	} {
		_, err := a.Assign(tt.req)
		var conflict *ConflictError
		require.True(t, errors.As(err, &conflict), "%v", err)
		assert.Equal(t, tt.want, *conflict)
		require.ErrorIs(t, err, ErrConflict)
		if tt.want.Reason == ReasonBusy || tt.want.Reason == ReasonGroup {
			assert.NotContains(t, err.Error(), "sharing key", "merely busy")
		}
	}
}
