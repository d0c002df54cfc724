package speaker

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/k8sadapter/source/sourcetest"
	"github.com/heraldlb/herald/membership"
)

// sharpBoard is a board that notices conflicts.
type sharpBoard struct {
	*board
	conflicts []announce.Conflict
	signal    chan struct{}
}

func (b *sharpBoard) Conflicts() []announce.Conflict {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conflicts
}

func (b *sharpBoard) ConflictsChanged() <-chan struct{} { return b.signal }

func (b *sharpBoard) hears(conflicts ...announce.Conflict) {
	b.mu.Lock()
	b.conflicts = conflicts
	b.mu.Unlock()
	b.signal <- struct{}{}
}

func TestAddressConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sourcetest.Memory{}
		seed(src)
		b := &sharpBoard{board: newBoard("eth0"), signal: make(chan struct{}, 1)}
		events := func() []sourcetest.Event {
			var out []sourcetest.Event
			for _, e := range src.Events() {
				if e.Reason == "addressConflict" {
					out = append(out, e)
				}
			}
			return out
		}
		cfg := Config{Node: "kw-01", Source: src, Membership: membership.NewStatic(members("kw-01")), Announcer: b}
		running(t, cfg, func(_ *Speaker, settle func()) {
			require.Empty(t, events())
			foreign := announce.Conflict{
				Addr: netip.MustParseAddr(dot7), Link: "eth0", MAC: net.HardwareAddr{2, 0, 0, 0, 9, 9}, Kind: announce.ClaimReply,
			}
			b.hears(foreign)
			settle()
			got := events()
			require.Len(t, got, 1, "of one Service, once")
			assert.Equal(t, corev1.EventTypeWarning, got[0].Type)
			assert.Equal(t, `node "kw-01" announces `+dot7+`, but another host claims it: 02:00:00:00:09:09 on link "eth0"`, got[0].Message)
			assert.Contains(t, got[0].Object, "shop/seven")

			foreign.Kind = announce.ClaimAnnouncement
			b.hears(foreign)
			settle()
			require.Len(t, events(), 1, "it goes on")

			foreign.Yielded = true
			second := foreign
			second.Link, second.Yielded = "eth1", false
			b.hears(foreign, second)
			settle()
			require.Len(t, events(), 2)
			assert.Contains(t, events()[1].Message, `02:00:00:00:09:09 on link "eth0" (left to it, by --conflict-policy yield), 02:00:00:00:09:09 on link "eth1"`)

			b.hears()
			settle()
			require.Len(t, events(), 2, "it is over")
			b.hears(second)
			settle()
			require.Len(t, events(), 3, "it begins again")
		})
	})
}

// A conflict of an address that this node was not elected for concerns nobody: it is about to be withdrawn.
func TestConflictOfForeignAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sourcetest.Memory{}
		seed(src)
		b := &sharpBoard{board: newBoard("eth0"), signal: make(chan struct{}, 1)}
		b.conflicts = []announce.Conflict{{Addr: netip.MustParseAddr("198.51.100.200"), Link: "eth0", MAC: net.HardwareAddr{2, 0, 0, 0, 9, 9}}}
		cfg := Config{Node: "kw-01", Source: src, Membership: membership.NewStatic(members("kw-01")), Announcer: b}
		running(t, cfg, func(*Speaker, func()) {
			for _, e := range src.Events() {
				assert.NotEqual(t, "addressConflict", e.Reason)
			}
		})
	})
}
