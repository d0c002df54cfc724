package membership_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/membership"
)

// reader is what consumers of a membership declare.
type reader interface {
	Members() []membership.Member
	Changed() <-chan struct{}
}

var (
	_ reader = (*membership.Cluster)(nil)
	_ reader = (*membership.Static)(nil)
)

func changed(r reader) bool {
	select {
	case <-r.Changed():
		return true
	default:
		return false
	}
}

func TestStatic(t *testing.T) {
	given := []membership.Member{
		{Name: "b", Addr: netip.MustParseAddr("::ffff:192.0.2.2")},
		{Name: "a", Described: true},
		{Name: "c", Described: true, Eligible: true},
		{Name: "b", Addr: netip.MustParseAddr("192.0.2.3")},
	}
	s := membership.NewStatic(given)
	assert.False(t, changed(s), "nothing has changed yet")
	want := []membership.Member{
		{Name: "a", Described: true},
		{Name: "b", Addr: netip.MustParseAddr("192.0.2.3"), Eligible: true},
		{Name: "c", Described: true, Eligible: true},
	}
	assert.Equal(t, want, s.Members())

	s.Members()[0].Name = "mine"
	assert.Equal(t, want, s.Members(), "Members is a copy")
	given[2].Name = "x"
	assert.Equal(t, want, s.Members(), "and so is what was given")

	s.Set(want)
	assert.False(t, changed(s), "the same again")
	s.Set(want[:2])
	s.Set(want[:1])
	assert.True(t, changed(s))
	assert.False(t, changed(s), "one signal for two changes")
	s.Set([]membership.Member{want[0].WithLinks([]string{"eth0"})})
	assert.True(t, changed(s), "links count")
	s.Set(nil)
	assert.Empty(t, s.Members())
}

func TestMemberLinks(t *testing.T) {
	m := membership.Member{Name: "a", Eligible: true}
	assert.True(t, m.HasLink("eth0"))
	some := m.WithLinks([]string{"eth0", "eth1"})
	assert.True(t, some.Described && some.Eligible)
	assert.True(t, some.HasLink("eth1"))
	assert.False(t, some.HasLink("eth2"))
	none := m.WithLinks([]string{})
	assert.False(t, none.HasLink("eth0"))
	assert.True(t, none.WithLinks(nil).HasLink("eth0"))
	out := membership.Member{Name: "a", Described: true}.WithLinks(nil)
	assert.False(t, out.Eligible, "WithLinks does not make a node eligible that said no")

	assert.True(t, some.Equal(m.WithLinks([]string{"eth1", "eth0"})))
	assert.False(t, some.Equal(none))
	assert.False(t, some.Equal(m))
	assert.False(t, some.Equal(membership.Member{Name: "b", Described: true, Eligible: true}.WithLinks([]string{"eth0", "eth1"})))

	s := membership.NewStatic([]membership.Member{some})
	require.True(t, s.Members()[0].HasLink("eth1"))
	require.False(t, s.Members()[0].HasLink("eth2"))
}

func TestMemberLogValue(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "member",
		membership.Member{Name: "a", Addr: netip.MustParseAddr("2001:db8::1"), Port: 7946, Suspect: true, Eligible: true})
	assert.Contains(t, out.String(), `member.name=a member.addr=[2001:db8::1]:7946 member.suspect=true member.described=false member.eligible=true`)
}
