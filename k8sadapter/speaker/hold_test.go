package speaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/source/sourcetest"
	"github.com/heraldlb/herald/membership"
)

// heard returns what the membership was told.
func (c *cluster) heard() []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]bool(nil), c.eligible...)
}

// held runs a speaker on kw-01 that is held for ten minutes, among members of which kw-01 says that it is not eligible.
func held(t *testing.T, others []membership.Member, f func(s *Speaker, c *cluster, src *sourcetest.Memory, settle func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		src := &sourcetest.Memory{}
		seed(src)
		c := &cluster{Static: membership.NewStatic(append(others, notEligible("kw-01")))}
		running(t, Config{
			Node: "kw-01", Source: src, Membership: c, Announcer: newBoard("eth0"), HeldUntil: time.Now().Add(10 * time.Minute),
		}, func(s *Speaker, settle func()) { f(s, c, src, settle) })
	})
}

func notEligible(name string) membership.Member {
	return membership.Member{Name: name, Described: true}
}

func eligible(name string) membership.Member {
	return membership.Member{Name: name, Described: true, Eligible: true}
}

func TestHeldUntil(t *testing.T) {
	held(t, []membership.Member{eligible("kw-02")}, func(_ *Speaker, c *cluster, src *sourcetest.Memory, settle func()) {
		assert.Equal(t, []bool{false}, c.heard())
		src.Set(source.EndpointSlices, slice("nine", "")) // nobody can announce it, this node neither
		time.Sleep(9 * time.Minute)
		settle()
		assert.Equal(t, []bool{false}, c.heard())
		time.Sleep(time.Minute + recheck)
		assert.Equal(t, []bool{false, true}, c.heard())
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []bool{false, true}, c.heard(), "once")
	})
}

func TestHeldUntilThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &sourcetest.Memory{}
		seed(src)
		c := &cluster{Static: membership.NewStatic(members("kw-01", "kw-02"))}
		running(t, Config{Node: "kw-01", Source: src, Membership: c, Announcer: newBoard("eth0"), HeldUntil: time.Now()}, func(*Speaker, func()) {
			assert.Equal(t, []bool{true}, c.heard())
		})
	})
}

func TestHeldAmongSpeakersOfMetalLB(t *testing.T) {
	held(t, members("kw-02"), func(_ *Speaker, c *cluster, _ *sourcetest.Memory, _ func()) {
		assert.Equal(t, []bool{false, true}, c.heard(), "they would leave it addresses in any case")
	})
}

func TestHeldAlone(t *testing.T) {
	held(t, nil, func(_ *Speaker, c *cluster, _ *sourcetest.Memory, settle func()) {
		settle()
		assert.Equal(t, []bool{false, true}, c.heard(), "a node that flaps is better than none")
	})
}

func TestHeldUntilTheOthersAreGone(t *testing.T) {
	held(t, []membership.Member{eligible("kw-02")}, func(_ *Speaker, c *cluster, _ *sourcetest.Memory, settle func()) {
		settle()
		assert.Equal(t, []bool{false}, c.heard())
		c.Set([]membership.Member{notEligible("kw-01"), notEligible("kw-02")})
		synctest.Wait()
		assert.Equal(t, []bool{false, true}, c.heard(), "at once")
	})
}

func TestHeldAndDrained(t *testing.T) {
	held(t, []membership.Member{eligible("kw-02")}, func(s *Speaker, c *cluster, _ *sourcetest.Memory, settle func()) {
		s.Drain(t.Context())
		time.Sleep(20 * time.Minute)
		settle()
		assert.Equal(t, []bool{false}, c.heard(), "who leaves does not become eligible")
	})
}
