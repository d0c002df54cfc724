package membership

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func rosterNames(r *roster) string {
	var names []string
	for _, m := range r.members() {
		name := m.Name
		if m.Suspect {
			name += "?"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func raised(s signal) bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

func TestRoster(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.1:7946")
	here := func(m *Member) { m.Addr, m.Port, m.Eligible = at.Addr(), at.Port(), true }
	r := newRoster(Member{Name: "m"})
	assert.Equal(t, "m", rosterNames(r))
	assert.False(t, raised(r.changed), "nothing has changed")

	assert.True(t, r.update("a", here))
	assert.True(t, raised(r.changed))
	assert.False(t, r.update("a", here), "the same again")
	assert.False(t, raised(r.changed))
	assert.True(t, r.update("z", here))
	assert.Equal(t, "a m z", rosterNames(r))

	assert.True(t, r.suspect("a"))
	assert.False(t, r.suspect("a"), "it is already")
	assert.False(t, r.suspect("m"), "not oneself")
	assert.False(t, r.suspect("nobody"))
	assert.Equal(t, "a? m z", rosterNames(r))
	r.seen("a", netip.MustParseAddrPort("192.0.2.9:7946"))
	assert.Equal(t, "a? m z", rosterNames(r), "somebody else of that name")
	r.seen("nobody", at)
	r.seen("a", at)
	assert.Equal(t, "a m z", rosterNames(r))

	assert.False(t, r.remove("m"), "not oneself")
	assert.False(t, r.remove("nobody"))
	assert.True(t, r.remove("z"))
	assert.Equal(t, "a m", rosterNames(r))

	assert.True(t, raised(r.changed))
	r.freeze()
	assert.False(t, r.remove("a") || r.update("b", here) || r.suspect("a"))
	assert.Equal(t, "a m", rosterNames(r), "who leaves keeps what it saw last")
	assert.False(t, raised(r.changed))
}

// TestRosterReaders: every snapshot is complete and sorted, whatever is written
// meanwhile.
func TestRosterReaders(t *testing.T) {
	r := newRoster(Member{Name: "m"})
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				name := fmt.Sprint(w, i%10)
				r.update(name, func(m *Member) { m.Port = uint16(i) })
				r.suspect(name)
				r.remove(name)
			}
		})
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			members := r.members()
			sorted := slices.IsSortedFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
			self := slices.ContainsFunc(members, func(m Member) bool { return m.Name == "m" })
			if !sorted || !self {
				t.Errorf("bad snapshot %+v", members)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(done)
	readers.Wait()
	require.Equal(t, "m", rosterNames(r))
}
