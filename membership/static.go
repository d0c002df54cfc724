package membership

import (
	"slices"
	"sync/atomic"
)

// Static is a membership whose list somebody else keeps: a file, the API's
// nodes, a test. It has the reading methods of [Cluster]. All methods may be
// called concurrently. Use [NewStatic].
type Static struct {
	changed signal
	members atomic.Pointer[[]Member]
}

// NewStatic returns a membership with the given members; see [Static.Set].
func NewStatic(members []Member) *Static {
	s := &Static{changed: newSignal()}
	list := normalize(members)
	s.members.Store(&list)
	return s
}

// Set replaces the list. Members that are not described become eligible, as
// their documentation says; to take a node out of elections set Described and
// leave Eligible false. Of several members with one name the last one counts.
// Set signals a change only if there is one.
func (s *Static) Set(members []Member) {
	list := normalize(members)
	old := s.members.Swap(&list)
	if !slices.EqualFunc(*old, list, Member.Equal) {
		s.changed.raise()
	}
}

// Members returns a copy of the list, sorted by name.
func (s *Static) Members() []Member { return slices.Clone(*s.members.Load()) }

// Changed returns a channel that holds a signal after the list has changed. See
// [Cluster.Changed].
func (s *Static) Changed() <-chan struct{} { return s.changed }

func normalize(members []Member) []Member {
	list := sortMembers(slices.Clone(members))
	for i := range list {
		list[i].Addr = list[i].Addr.Unmap()
		if !list[i].Described {
			list[i].Eligible, list[i].links = true, nil
		}
	}
	return list
}
