package labnet

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// ServedBy is the header in which a backend says which node it runs on.
const ServedBy = "Served-By"

// BackendCommand returns the command of a web server that answers on every
// address of the host that it is started on and says on which node it runs.
func BackendCommand(node string, port uint16) *exec.Cmd {
	return SelfCommand(backendRole, node, fmt.Sprint(port))
}

// PauseCommand returns the command of a process that does nothing, by which a
// namespace can be entered from outside.
func PauseCommand() *exec.Cmd { return SelfCommand(pauseRole) }

func backendMain() int {
	if len(os.Args) != 3 {
		fmt.Fprintf(os.Stderr, "usage: %s NODE PORT\n", backendRole)
		return 2
	}
	node, port := os.Args[1], os.Args[2]
	server := &http.Server{
		Addr:              ":" + port,
		Handler:           backendHandler(node),
		ReadHeaderTimeout: 5 * time.Second,
	}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintf(os.Stderr, "backend on %s: %v\n", node, err)
	}
	return 1
}

// backendHandler answers every request with one line.
func backendHandler(node string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(ServedBy, node)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "Hello from %s, you asked %s.\n", node, localAddr(r))
	})
}

// localAddr returns the address that the client connected to.
func localAddr(r *http.Request) netip.Addr {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return addr.AddrPort().Addr().Unmap()
}

func pauseMain() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	return 0
}
