// Package bfd finds out within a fraction of a second whether the path to a
// neighbour works in both directions: Bidirectional Forwarding Detection as in
// RFC 5880, over a single hop (RFC 5881) and over several (RFC 5883).
//
// # Use
//
//	m, err := bfd.New(bfd.Config{})
//	if err != nil {
//		return err
//	}
//	go m.Run(ctx) // join it before you leave
//	err = m.SetPeers([]bfd.Peer{
//		{Addr: netip.MustParseAddr("192.0.2.1")}, // 300 ms x 3
//		{Addr: netip.MustParseAddr("fe80::1"), Interface: "eth1", Transmit: 50 * time.Millisecond, Receive: 50 * time.Millisecond},
//		{Addr: netip.MustParseAddr("198.51.100.1"), Multihop: true, MinTTL: 250},
//	})
//	for range m.Changed() {
//		for _, s := range m.Sessions() {
//			if s.Failed {
//				// stop to use the path to s.Peer.Addr
//			}
//		}
//	}
//
// SetPeers is told the whole desired state each time; the package finds out what
// changed. New intervals are negotiated with the remote system while the session
// stays up (a poll sequence, RFC 5880 section 6.8.3).
//
// # Sessions
//
// A session starts in state Down, with a packet a second at most. When both
// systems hear each other it is Up, and each sends at the slower of what it wants
// to send and what the other wants to receive, less a random quarter. The
// session goes down when nothing was heard for the detection time, which is the
// multiplier of the remote system times the interval agreed for its direction, or
// when the remote system says so.
//
// Status.Failed tells failure from intent. A system that shuts a session down
// says AdminDown, and that must not take the protocol down that uses the session
// (RFC 5882 section 3.2). A failure during a graceful restart of that protocol is
// one of the path only if the remote system's BFD is independent of its control
// plane, which is Status.RemoteIndependent (section 4.3). When Run ends and when
// a peer is removed the remote system is told AdminDown.
//
// # Security
//
// Over a single hop packets must arrive with a TTL or hop limit of 255, which
// nobody beyond the link can forge (RFC 5881 section 5, RFC 5082). Over several
// hops Peer.MinTTL says how near a sender must be. Packets must come from the
// address of the peer, on its interface if one is given, to the local address if
// one is given, also when they know the discriminator, which is random. Keyed MD5
// and SHA1, meticulous or not, are there for those who need them (RFC 5880 section
// 6.7); FRR has neither, BIRD has both.
//
// # Sockets
//
// Run opens at most four ports, UDP 3784 and 4784 for each family, each when the
// first peer needs it, and a socket with a source port of its own for each
// session. No privilege is needed. The ports are not shared with another BFD daemon of the host:
// if one is there the sessions that need the port stay down, send nothing, and say
// so in Status.Err. Sockets are opened on the goroutine that called Run: lock it
// to a thread in another network namespace to serve that namespace.
//
// # Limits
//
// Asynchronous mode only. A remote system may ask for demand mode, and gets it.
//
// The echo function is refused, see Peer.Echo, and remote systems are told so
// (Required Min Echo RX Interval is zero), upon which they do not use it either.
// It needs frames that a host addresses to itself and has its neighbour send
// back, which takes a raw socket and a neighbour that forwards; what it would
// save, packets that must be parsed, is no cost at 50 ms.
//
// Intervals below 50 ms are possible and unwise: the detection time must bear the
// scheduler and the garbage collector of a shared host. When the process gets no
// CPU for longer than the detection time, sessions are judged only after what has
// arrived in the meantime is read.
//
// Linux only: elsewhere Status.Err wraps [errors.ErrUnsupported], unless
// Config.Transport supplies a [Transport].
//
// # Concurrency
//
// All methods may be called at any time from any goroutine; none waits for the
// network. There is one goroutine for each open port and the one that called Run.
package bfd
