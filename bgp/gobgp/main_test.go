// Listeners with a password need it, see the limits in the package comment.
//
//go:debug multipathtcp=0

package gobgp

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/heraldlb/herald/internal/netnstest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(child())
	}
	netnstest.Isolate()
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // they wait far more than they compute
		panic(err)
	}
	goleak.VerifyTestMain(m, gobgpLeaves()...)
}

// gobgpLeaves are the goroutines that GoBGP v3 may leave: the loop of each pooled
// server, which has no end, and the buffer of a channel that nobody reads any more
// when a neighbour is deleted in the moment in which its OPEN arrives.
// TestServersAreReused counts both.
func gobgpLeaves() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/osrg/gobgp/v3/pkg/server.(*BgpServer).Serve"),
		goleak.IgnoreTopFunction("github.com/eapache/channels.(*InfiniteChannel).infiniteBuffer"),
	}
}
