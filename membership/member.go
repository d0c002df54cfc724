package membership

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
)

// Member is a node of the cluster, as a value.
type Member struct {
	// Name is the name of the node.
	Name string
	// Addr is the address at which the member is reached, without zone and
	// never IPv4-mapped.
	Addr netip.Addr
	// Port is the gossip port of the member, 0 if it has none.
	Port uint16
	// Suspect is set while probes of this node have shown no life of the
	// member, and it is not given up yet. It is a hint: other nodes may not
	// share it, and it is cleared by any sign of life.
	Suspect bool
	// Described is set if the member says of itself what the two following
	// say. MetalLB's speakers do not.
	Described bool
	// Eligible is set if the member may hold addresses: it says so, or says
	// nothing.
	Eligible bool

	links *linkSet // nil: every link
}

// HasLink reports whether the network interface of that name is up on the
// member. It is true of every name if the member says nothing about its links.
// Names travel as hashes: with very many links (about 200) the answer for a
// link that is not up is wrong once in a thousand.
func (m Member) HasLink(name string) bool { return m.links.has(name) }

// WithLinks returns a copy of m that is described and has exactly the links of
// these names up; nil stands for all links. It is for members of a [Static] and
// for tests.
func (m Member) WithLinks(names []string) Member {
	if !m.Described {
		m.Described, m.Eligible = true, true
	}
	m.links = nil
	if names != nil {
		m.links = newLinkSet(names)
	}
	return m
}

// Equal reports whether m and o say the same.
func (m Member) Equal(o Member) bool {
	links := m.links.equal(o.links)
	m.links, o.links = nil, nil
	return links && m == o
}

// LogValue makes a Member readable in a log line.
func (m Member) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", m.Name),
		slog.String("addr", netip.AddrPortFrom(m.Addr, m.Port).String()),
		slog.Bool("suspect", m.Suspect),
		slog.Bool("described", m.Described),
		slog.Bool("eligible", m.Eligible),
	)
}

// describe sets what metadata says.
func (m *Member) describe(meta []byte) {
	d, ok := decodeMeta(meta)
	if !ok {
		d = description{eligible: true}
	}
	m.Described, m.Eligible, m.links = ok, d.eligible, d.links
}

// sortMembers orders by name; of several members with one name the last one
// stays.
func sortMembers(members []Member) []Member {
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	out := members[:0]
	for _, m := range members {
		if n := len(out); n > 0 && out[n-1].Name == m.Name {
			out[n-1] = m
			continue
		}
		out = append(out, m)
	}
	return out
}
