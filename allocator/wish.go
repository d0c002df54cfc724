package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// wish is a checked Request.
type wish struct {
	req      Request
	families [2]Family // wanted, in order of preference
	n        int       // how many
	ports    []Port    // normalised; nil without a sharing key

	room    int              // how many more addresses the namespace may hold in all pools
	refused map[string]error // by pool: what its source answered
}

func newWish(req *Request) (wish, error) {
	w, err := newClaim(req)
	if err != nil {
		return w, err
	}
	if err := checkAddrs(req.Addresses); err != nil {
		return w, err
	}
	families := req.Families
	if len(families) == 0 {
		for _, addr := range req.Addresses {
			families = append(families, FamilyOf(addr))
		}
	}
	switch w.n = len(families); {
	case w.n == 0:
		return w, fmt.Errorf("%w: it wants no address family", ErrFamily)
	case w.n > 2:
		return w, fmt.Errorf("%w: it wants %d address families, at most two are possible", ErrFamily, w.n)
	}
	copy(w.families[:], families)
	for _, f := range families {
		if !f.valid() {
			return w, fmt.Errorf("%w: %v is none", ErrFamily, f)
		}
	}
	if w.n == 2 && families[0] == families[1] {
		return w, fmt.Errorf("%w: it wants %v twice", ErrFamily, families[0])
	}
	return w, w.checkExplicit()
}

// newClaim checks what Adopt needs as well: owner and ports.
func newClaim(req *Request) (wish, error) {
	w := wish{req: *req}
	if req.Owner == "" {
		return w, fmt.Errorf("%w: it has no owner", ErrInvalid)
	}
	if req.SharingKey != "" {
		w.ports = normalPorts(req.Ports)
	}
	return w, nil
}

func normalPorts(ports []Port) []Port {
	ports = slices.Clone(ports)
	for i := range ports {
		ports[i].Protocol = strings.ToUpper(ports[i].Protocol)
		if ports[i].Protocol == "" {
			ports[i].Protocol = "TCP"
		}
	}
	return ports
}

// checkAddrs accepts what one owner can hold, and nothing at all.
func checkAddrs(addrs []netip.Addr) error {
	for _, addr := range addrs {
		if err := checkAddr(addr); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	switch {
	case len(addrs) > 2:
		return fmt.Errorf("%w: %d addresses, at most one of each family is possible", ErrInvalid, len(addrs))
	case len(addrs) == 2 && FamilyOf(addrs[0]) == FamilyOf(addrs[1]):
		return fmt.Errorf("%w: %s and %s are of one family, at most one of each is possible",
			ErrInvalid, addrs[0], addrs[1])
	}
	return nil
}

// checkExplicit: explicit addresses must be exactly one of each wanted family.
func (w *wish) checkExplicit() error {
	addrs := w.req.Addresses
	if len(addrs) == 0 {
		return nil
	}
	for _, addr := range addrs {
		if !w.wants(FamilyOf(addr)) {
			return fmt.Errorf("%w: %s is not %v, which is wanted", ErrFamily, addr, w.families[0])
		}
	}
	if len(addrs) < w.n {
		return fmt.Errorf("%w: IPv4 and IPv6 are wanted, but only %s is named; name one of each",
			ErrFamily, addrs[0])
	}
	return nil
}

func (w *wish) wants(f Family) bool {
	return slices.Contains(w.families[:w.n], f)
}

// partial reports that one of the two wanted families is acceptable.
func (w *wish) partial() bool { return w.n == 2 && w.req.Partial }
