package allocator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPoolChoice(t *testing.T) {
	one := func(name, addr string, edit ...func(*Pool)) Pool {
		p := Pool{Name: name, Ranges: mustRanges(t, addr+"/32")}
		for _, e := range edit {
			e(&p)
		}
		return p
	}
	prio := func(n int) func(*Pool) { return func(p *Pool) { p.Priority = n } }
	manual := func(p *Pool) { p.Manual = true }
	serves := func(s Scope) func(*Pool) { return func(p *Pool) { p.Scope = &s } }
	teamA := serves(Scope{Namespaces: []string{"team-a"}})
	gold, silver := labelIs{"tier", "gold"}, labelIs{"tier", "silver"}

	byPriority := []Pool{
		one("open", "10.0.0.9"),
		one("p70", "10.0.0.70", prio(70), teamA),
		one("p0", "10.0.0.1", teamA),
		one("p7", "10.0.0.7", prio(7), teamA),
		one("p1", "10.0.0.2", prio(1), teamA, manual),
	}
	labelled := []Pool{
		one("both", "10.0.0.1", serves(Scope{Namespaces: []string{"team-a"}, Services: []Selector{gold}})),
		one("label", "10.0.0.2", serves(Scope{AnyNamespace: true, Services: []Selector{gold, silver}})),
		one("open", "10.0.0.3", prio(1)),
	}
	runScenarios(t, []scenario{
		{
			name: "priority, zero last, open after that, manual never", pools: byPriority,
			steps: []step{
				{req: want("a", in("team-a")), want: []string{"10.0.0.7"}, pool: "p7"},
				{req: want("b", in("team-a")), want: []string{"10.0.0.70"}, pool: "p70"},
				{req: want("c", in("team-a")), want: []string{"10.0.0.1"}, pool: "p0"},
				{req: want("d", in("team-a")), want: []string{"10.0.0.9"}, pool: "open"},
				{
					req: want("e", in("team-a")), is: ErrExhausted,
					text: `no free address: pools "p7", "p70", "p0" and 1 more: no free IPv4 address; pool "p1": only for requests that name the pool`,
				},
				{req: want("e", in("team-a"), from("p1")), want: []string{"10.0.0.2"}, pool: "p1"},
			},
		},
		{
			name: "pools of others do not count", pools: byPriority,
			steps: []step{
				{req: want("a", in("team-b")), want: []string{"10.0.0.9"}, pool: "open"},
				{
					req: want("b", in("team-b")), is: ErrExhausted,
					text: `no free address: pool "open": no free IPv4 address; pools "p1", "p7", "p70" and 1 more: serves other namespaces or labels`,
				},
			},
		},
		{
			name: "namespace and label", pools: labelled,
			steps: []step{{req: want("a", in("team-a", "tier", "gold")), want: []string{"10.0.0.1"}, pool: "both"}},
		},
		{
			name: "label in another namespace", pools: labelled,
			steps: []step{{req: want("a", in("team-b", "tier", "gold")), want: []string{"10.0.0.2"}, pool: "label"}},
		},
		{
			name: "one of two selectors", pools: labelled,
			steps: []step{{req: want("a", in("team-b", "tier", "silver")), want: []string{"10.0.0.2"}, pool: "label"}},
		},
		{
			name: "namespace without the label", pools: labelled,
			steps: []step{{req: want("a", in("team-a")), want: []string{"10.0.0.3"}, pool: "open"}},
		},
		{
			name: "address of a pool that serves others", pools: labelled,
			steps: []step{{
				req: want("a", in("team-b"), at("10.0.0.1")), is: ErrScope,
				text: `pool "both" does not serve namespace "team-b" with labels map[]`,
			}},
		},
		{
			name: "name of a pool that serves others", pools: labelled,
			steps: []step{{req: want("a", in("team-b"), from("both")), is: ErrScope, text: `pool "both" does not serve namespace "team-b"`}},
		},
		{
			name: "a scope that matches no namespace is closed to explicit requests too", pools: []Pool{one("p", "10.0.0.1", serves(Scope{}))},
			steps: []step{
				{req: want("a", from("p")), is: ErrScope, text: `pool "p" does not serve`},
				{req: want("a", at("10.0.0.1")), is: ErrScope, text: `pool "p" does not serve`},
				{req: want("a"), is: ErrNoPool, text: `no pool serves the request: pool "p": serves other namespaces`},
			},
		},
		{
			name: "holder that no longer matches keeps, and gets nothing new there", pools: labelled,
			steps: []step{
				{req: want("a", in("team-a", "tier", "gold")), want: []string{"10.0.0.1"}, pool: "both"},
				{req: want("a", in("team-a")), want: []string{"10.0.0.1"}, pool: "both"},
				{req: want("a", in("team-a"), from("both")), want: []string{"10.0.0.1"}, pool: "both"},
				{req: want("a", in("team-a"), at("10.0.0.1")), want: []string{"10.0.0.1"}, pool: "both"},
				{req: want("a"), release: true},
				{req: want("a", in("team-a")), want: []string{"10.0.0.3"}, pool: "open"},
			},
		},
		{
			name: "priority alone matches everyone and beats open pools", pools: []Pool{one("a-open", "10.0.0.1", prio(1)), one("p", "10.0.0.2", prio(9), serves(Scope{AnyNamespace: true}))},
			steps: []step{
				{req: want("a"), want: []string{"10.0.0.2"}},
				{req: want("b"), want: []string{"10.0.0.1"}, pool: "a-open"},
			},
		},
		{
			name: "named and general scopes merge by priority", pools: []Pool{
				one("n3", "10.0.0.3", prio(3), teamA), one("g2", "10.0.0.2", prio(2), serves(Scope{AnyNamespace: true})),
				one("n1", "10.0.0.1", prio(1), teamA), one("g4", "10.0.0.4", prio(4), serves(Scope{AnyNamespace: true})),
			},
			steps: []step{
				{req: want("a", in("team-a")), want: []string{"10.0.0.1"}, pool: "n1"},
				{req: want("b", in("team-a")), want: []string{"10.0.0.2"}, pool: "g2"},
				{req: want("c", in("team-a")), want: []string{"10.0.0.3"}, pool: "n3"},
				{req: want("d", in("team-a")), want: []string{"10.0.0.4"}, pool: "g4"},
			},
		},
		{
			name: "ties by name", pools: []Pool{one("c", "10.0.0.1", prio(5)), one("b", "10.0.0.2"), one("a", "10.0.0.3"), one("d", "10.0.0.4", prio(5))},
			steps: []step{
				{req: want("1"), want: []string{"10.0.0.1"}, pool: "c"},
				{req: want("2"), want: []string{"10.0.0.4"}, pool: "d"},
				{req: want("3"), want: []string{"10.0.0.3"}, pool: "a"},
				{req: want("4"), want: []string{"10.0.0.2"}, pool: "b"},
			},
		},
		{
			name: "manual pools alone", pools: []Pool{one("p", "10.0.0.1", manual)},
			steps: []step{
				{req: want("a"), is: ErrNoPool, text: `pool "p": only for requests that name the pool or an address in it`},
				{req: want("a", at("10.0.0.1")), want: []string{"10.0.0.1"}},
				{req: want("a"), want: []string{"10.0.0.1"}},
			},
		},
		{
			name: "opaque pools give nothing", pools: []Pool{{Name: "p", Opaque: true}},
			steps: []step{
				{req: want("a"), is: ErrNoPool, text: `pool "p": no accepted version yet, gives nothing new`},
				{req: want("a", from("p")), is: ErrOpaque, text: `"p" gives no new address until it is corrected`},
			},
		},
	})
}

func TestDualStack(t *testing.T) {
	v4 := Pool{Name: "v4", Ranges: mustRanges(t, "10.44.0.0/30")}
	v6 := Pool{Name: "v6", Ranges: mustRanges(t, "fd44::/126")}
	dual := Pool{Name: "x-dual", Ranges: mustRanges(t, "fd45::/126", "10.45.0.0/30")}
	scoped := v6
	scoped.Scope = &Scope{AnyNamespace: true}
	runScenarios(t, []scenario{
		{
			name: "Partial prefers the pool with both", pools: []Pool{v4, v6, dual},
			steps: []step{{req: want("a", prefer), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"}},
		},
		{
			name: "a pool with both of worse priority beats one family", pools: []Pool{{Name: "first", Priority: 1, Ranges: v4.Ranges}, dual},
			steps: []step{{req: want("a", prefer), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"}},
		},
		{
			name: "a scoped pool with one family beats an open one with both", pools: []Pool{scoped, dual},
			steps: []step{
				{req: want("a", prefer), want: []string{"fd44::"}, pool: "v6"},
				{req: want("b", both), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"},
			},
		},
		{
			name: "Partial takes the preferred family", pools: []Pool{v4, v6},
			steps: []step{
				{req: want("a", prefer), want: []string{"10.44.0.0"}, pool: "v4"},
				{req: want("b", preferV6), want: []string{"fd44::"}, pool: "v6"},
			},
		},
		{
			name: "Partial takes the other family", pools: []Pool{v6},
			steps: []step{{req: want("a", prefer), want: []string{"fd44::"}, pool: "v6"}},
		},
		{
			name: "both required from two pools, metallb#1156", pools: []Pool{v4, v6},
			steps: []step{{
				req: want("a", both), is: ErrFamily,
				text: `no single pool has both families: pool "v6": no IPv4 addresses; pool "v4": no IPv6 addresses`,
			}},
		},
		{
			name: "both required, IPv4 first in any case", pools: []Pool{dual},
			steps: []step{
				{req: want("a", both), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"},
				{req: want("b", only(IPv6, IPv4)), want: []string{"10.45.0.1", "fd45::1"}, pool: "x-dual"},
			},
		},
		{
			name: "both required, one family full", pools: []Pool{{Name: "p", Ranges: mustRanges(t, "10.44.0.0/32", "fd44::/126")}},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.0"}},
				{req: want("b", both), is: ErrExhausted, text: `no free address: pool "p": no free IPv4 address`},
				{req: want("b", prefer), want: []string{"fd44::"}},
				{req: want("a"), release: true},
				{req: want("b", prefer), want: []string{"fd44::", "10.44.0.0"}},
			},
		},
		{
			name: "Partial, named pool with one family", pools: []Pool{v4, dual},
			steps: []step{{req: want("a", prefer, from("v4")), want: []string{"10.44.0.0"}, pool: "v4"}},
		},
		{
			name: "explicit pair in the order of the request", pools: []Pool{dual},
			steps: []step{
				{req: want("a", at("fd45::2", "10.45.0.2"), both), want: []string{"fd45::2", "10.45.0.2"}, pool: "x-dual"},
				{req: want("a", at("10.45.0.2", "fd45::2"), both), want: []string{"fd45::2", "10.45.0.2"}, pool: "x-dual"},
				{req: want("a", both), want: []string{"fd45::2", "10.45.0.2"}, pool: "x-dual"},
			},
		},
		{
			name: "one wanted after two: the other is dropped, the kept one stays", pools: []Pool{dual},
			steps: []step{
				{req: want("a", both), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"},
				{req: want("a", only(IPv6)), want: []string{"fd45::"}, pool: "x-dual"},
				{req: want("b"), want: []string{"10.45.0.0"}, pool: "x-dual"},
			},
		},
		{
			name: "both required after one: completed in place", pools: []Pool{dual},
			steps: []step{
				{req: want("x", both), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"},
				{req: want("a"), want: []string{"10.45.0.1"}, pool: "x-dual"},
				{req: want("x"), release: true},
				{req: want("a", both), want: []string{"10.45.0.1", "fd45::"}, pool: "x-dual"},
			},
		},
		{
			name: "both required after one in a pool of one family: moves", pools: []Pool{v4, dual},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.0"}, pool: "v4"},
				{req: want("a", both), want: []string{"10.45.0.0", "fd45::"}, pool: "x-dual"},
				{req: want("b"), want: []string{"10.44.0.0"}, pool: "v4"},
			},
		},
		{
			name: "both required after one, nowhere to go: the holding stays as it was", pools: []Pool{v4},
			steps: []step{
				{req: want("a"), want: []string{"10.44.0.0"}, pool: "v4"},
				{req: want("a", both), is: ErrFamily, text: "no single pool has both families"},
				{req: want("a", prefer), want: []string{"10.44.0.0"}, pool: "v4"},
			},
		},
		{
			name: "not completed from a pool that no longer serves the owner", pools: []Pool{{Name: "p", Ranges: dual.Ranges, Scope: &Scope{Namespaces: []string{"n"}}}},
			steps: []step{
				{req: want("a", in("n")), want: []string{"10.45.0.0"}},
				{req: want("a", in("m"), prefer), want: []string{"10.45.0.0"}},
				{req: want("a", in("n"), prefer), want: []string{"10.45.0.0", "fd45::"}},
			},
		},
	})
}

func TestExplain(t *testing.T) {
	a := newTest(t,
		Pool{Name: "dual", Ranges: mustRanges(t, "10.1.0.0/31", "fd01::/127")},
		Pool{Name: "man", Manual: true, Ranges: mustRanges(t, "10.2.0.0/31")},
		Pool{Name: "team", Ranges: mustRanges(t, "10.3.0.0/31"), Scope: &Scope{Namespaces: []string{"team-a"}}},
		Pool{Name: "v4", Ranges: mustRanges(t, "10.4.0.0/31")},
		Pool{Name: "void", Opaque: true},
	)
	reasons := func(req Request) map[string]Reason {
		got := map[string]Reason{}
		for _, v := range a.Explain(req) {
			got[v.Pool] = v.Reason
			assert.NotEmpty(t, v.String())
		}
		return got
	}
	assert.Equal(t, map[string]Reason{
		"dual": ReasonUsed, "man": ReasonManual, "team": ReasonScope, "v4": ReasonOutranked, "void": ReasonOpaque,
	}, reasons(want("a")))
	assert.Equal(t, map[string]Reason{
		"dual": ReasonUsed, "man": ReasonManual, "team": ReasonScope, "v4": ReasonMissingFamily, "void": ReasonOpaque,
	}, reasons(want("a", both)))
	assert.Equal(t, map[string]Reason{
		"dual": ReasonNotNamed, "man": ReasonNotNamed, "team": ReasonNotNamed, "v4": ReasonUsed, "void": ReasonNotNamed,
	}, reasons(want("a", from("v4"))))
	assert.Equal(t, map[string]Reason{
		"dual": ReasonNotInPool, "man": ReasonNotInPool, "team": ReasonScope, "v4": ReasonNotInPool, "void": ReasonNotInPool,
	}, reasons(want("a", at("10.3.0.1"))))
	assert.Equal(t, map[string]Reason{
		"dual": ReasonNotNamed, "man": ReasonNotNamed, "team": ReasonNotNamed, "v4": ReasonNotInPool, "void": ReasonNotNamed,
	}, reasons(want("a", at("10.1.0.1"), from("v4"))))
	assert.Empty(t, a.owners, "Explain changes nothing")

	mustAssign(t, a, want("b"))
	mustAssign(t, a, want("c"))
	assert.Equal(t, ReasonFull, reasons(want("a"))["dual"])
	assert.Equal(t, ReasonUsed, reasons(want("b"))["dual"], "a holder is told what it keeps")
	verdict := a.Explain(want("a", at("10.1.0.1")))[1]
	require.Equal(t, ReasonConflict, verdict.Reason)
	assert.Equal(t, `pool "dual": 10.1.0.1 is in use by c`, verdict.String())
	assert.Equal(t, `pool "v4": gives [10.4.0.0]`, a.Explain(want("a"))[3].String())
}
