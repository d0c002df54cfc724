// Listeners with a password need it, see the limits in the package comment.
//
//go:debug multipathtcp=0

package gobgp

import (
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
	goleak.VerifyTestMain(m, serveStays())
}

// serveStays is the one goroutine that may be left, one for each pooled server:
// the loop of a GoBGP v3 server has no end.
func serveStays() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/osrg/gobgp/v3/pkg/server.(*BgpServer).Serve")
}
