package bgp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The identifiers that a hash may become: 1.0.0.0 to 223.255.255.255 without 127/8.
const (
	firstRouterID  = 1 << 24
	loopback       = 127 << 24
	afterLoopback  = 128 << 24
	afterRouterIDs = 224 << 24
	hashedIDs      = afterRouterIDs - firstRouterID - (afterLoopback - loopback)
)

// RouterID returns the BGP identifier of a node: its IPv4 address if it has one
// that will do, else a hash of its name. Every node computes the same for a
// name, and the result is always valid; see [DuplicateRouterIDs] for collisions,
// whose chance is about one in 300 for 5,000 nodes.
func RouterID(node string, ipv4 netip.Addr) netip.Addr {
	if ipv4 = ipv4.Unmap(); ipv4.Is4() && CheckRouterID(ipv4) == nil {
		return ipv4
	}
	sum := sha256.Sum256([]byte(node))
	id := uint32(firstRouterID + binary.BigEndian.Uint64(sum[:8])%hashedIDs)
	if id >= loopback {
		id += afterLoopback - loopback
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], id)
	return netip.AddrFrom4(b)
}

// CheckRouterID returns an error unless id is one that peers accept: an IPv4
// unicast address (RFC 4271 section 4.2), so neither 0/8, nor 127/8, nor 224.0.0.0
// and above.
func CheckRouterID(id netip.Addr) error {
	if !id.Is4() {
		return fmt.Errorf("must have the form of an IPv4 address")
	}
	b := id.As4()
	if b[0] == 0 || b[0] == 127 || b[0] >= 224 {
		return fmt.Errorf("must be from 1.0.0.0 to 223.255.255.255 and not in 127.0.0.0/8")
	}
	return nil
}

// DuplicateRouterIDs returns the identifiers that several nodes have, with the
// nodes' names in the order of the argument. Two speakers with one identifier in
// one AS do not get a session with a common internal peer.
func DuplicateRouterIDs(nodes []string, id func(node string) netip.Addr) map[netip.Addr][]string {
	all := make(map[netip.Addr][]string, len(nodes))
	for _, n := range nodes {
		all[id(n)] = append(all[id(n)], n)
	}
	for addr, holders := range all {
		if len(holders) < 2 {
			delete(all, addr)
		}
	}
	return all
}
