// Package announce makes addresses answer on a local network although no
// interface carries them: it replies to ARP requests (IPv4) and to neighbour
// solicitations (IPv6), and tells the network when an address arrives.
//
// # Use
//
//	a, err := announce.New(announce.Config{})
//	if err != nil {
//		return err
//	}
//	go a.Run(ctx) // needs CAP_NET_RAW; join it before you leave
//	err = a.SetAddrs([]announce.Advertisement{
//		{Addr: netip.MustParseAddr("192.0.2.10"), Owner: "default/web"},
//		{Addr: netip.MustParseAddr("2001:db8::10"), Owner: "default/web", Links: []string{"eth1"}},
//	})
//
// SetAddrs is told the whole desired state each time; the package finds out
// what changed. Calling it twice with equal input sends nothing. An address
// that is no longer wanted falls silent at once and without a packet, because
// its new holder has to be the one who speaks.
//
// # What is answered
//
// ARP as in RFC 826 and RFC 5227: every well-formed request for an address that
// is held, probes with sender 0.0.0.0 included, is answered to its sender with
// the MAC of the link it arrived on.
//
// NDP as in RFC 4861: every valid solicitation, multicast or unicast, with or
// without a source link-layer option. The advertisement has R=0, S=1 and O=1.
// Override is set because section 7.2.4 clears it only for anycast and proxied
// addresses: this node is the one holder of the address, and a neighbour with
// the previous holder's MAC in its cache ignores an answer without it (section
// 7.2.5). A duplicate address detection probe (source ::) is answered to ff02::1
// with S=0. The source of every advertisement is the held address itself. That
// is what a Linux host does for its own addresses, it satisfies section 4.4 (the
// address is assigned to the interface as far as the network can tell), and it
// works on a link that has no link-local address, or only a tentative one.
//
// # Announcements
//
// An address that is new on a link is announced at once and then repeated: five
// rounds, 1.1 s apart, unless Config says otherwise. One round is a gratuitous
// ARP request and a gratuitous ARP reply, since some receivers honour only one
// form, or one unsolicited neighbour advertisement. The distance is above
// the one second during which Linux ignores changes to a fresh entry. Frames are
// paced per link, so that thousands of addresses neither flood nor starve it.
//
// # Links
//
// A link is used when it is Ethernet with a 6-byte MAC, up and running, has no
// master (ports of bridges, bonds and teams: their master answers), does ARP, and
// matches no exclusion pattern. It needs no address. Links are followed by
// netlink, with a slow full resynchronisation behind it. When a link appears,
// regains its carrier, or changes its name, its MAC or its index, its sockets are
// opened anew and everything on it is announced again.
//
// Each link has one AF_PACKET socket for ARP and one for NDP, with kernel filters
// that pass nothing but well-formed questions and, of answers and announcements,
// those of addresses in at most 16 prefixes that cover what is held. A plain ICMPv6
// socket joins the solicited-node groups, so that switches which snoop MLD forward
// the questions. Failures are per link and family: they are counted, logged once and
// retried, and never stop anything else.
//
// # Conflicts
//
// Another host that claims an announced address is told by Conflicts: with an ARP
// packet from the address (RFC 5227 section 2.4), an advertisement, a solicitation
// from the address, or a question whether it may take it. A claim of a member that
// takes the address over is none; since this package knows no members, a conflict
// is what outlasts Config.ClaimGrace. Config.ConflictPolicy says what else to do.
// Detection is as good as what can be heard: a host that answers only those who ask
// is not noticed before it speaks on its own.
//
// # Probes
//
// Probe asks the links who has an address. It is a way to know whether the holder of
// an address is still there: a node whose announcer is dead answers for its own
// addresses, but no longer for this one.
//
// # Concurrency and limits
//
// All methods may be called at any time from any goroutine. SetAddrs never waits
// for the network. The look-up per packet takes no lock and does not allocate.
// Run opens every socket on the goroutine that called it: lock that goroutine to
// a thread in another network namespace to serve that namespace.
//
// Two holders of one address are reported, not prevented; deciding who holds it is
// the caller's part. Linux only: elsewhere Run returns an error that wraps
// [errors.ErrUnsupported], unless Config.Open supplies a [Network].
package announce
