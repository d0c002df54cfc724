package harness

import (
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"
)

// relay copies bytes between connections that it accepts and ones that it makes.
type relay struct {
	target string

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// serve accepts until the listener is closed.
func (r *relay) serve(listener net.Listener, group *errgroup.Group) error {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		group.Go(func() error {
			r.carry(conn)
			return nil
		})
	}
}

// carry joins one connection with the target until either side ends.
func (r *relay) carry(conn net.Conn) {
	defer conn.Close()
	upstream, err := net.Dial("tcp", r.target)
	if err != nil {
		return // the server is down: the client sees its connection end
	}
	defer upstream.Close()
	if !r.keep(conn, upstream) {
		return
	}
	defer r.forget(conn, upstream)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, upstream}, {upstream, conn}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = conn.Close()
			_ = upstream.Close()
		})
	}
	both.Wait()
}

func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = true
	}
	return !r.closed
}

func (r *relay) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

func (r *relay) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
}
