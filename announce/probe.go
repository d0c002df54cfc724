package announce

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ndp"
)

// ErrLink is wrapped by the errors of Probe for links that could not be asked.
var ErrLink = errors.New("announce: link could not be asked")

// Probes are sent at the start and after each pause but the last. RFC 5227 spreads
// as many over some seconds, so as not to collide with hosts that start at the same
// time; here somebody waits for the answer.
const (
	probeCount = 3
	probePause = 50 * time.Millisecond
)

// ProbeTime is how long Probe listens.
const ProbeTime = probeCount * probePause

// An Answer says that a host on a link has an address.
type Answer struct {
	Link string
	MAC  net.HardwareAddr
}

// Probe asks on the named links, or on every link in use if there are none, who
// has an address, whether it is held here or not, and returns the answers that came
// within ProbeTime, by link and MAC, each once. Hosts other than this one answer:
// MACs of its own links are left out. Asking changes no neighbour cache (RFC 5227
// probes; neighbour solicitations from the link-local address made of the MAC), and
// other announcers do not take it for a claim.
//
// No answer and no error means that nobody has the address there. Links that
// could not be asked, for example because they are down, are named by an error that
// wraps ErrLink; the answers of the others are returned with it. If ctx is done
// first, its error is returned with what has come so far. Run has to be running.
func (a *Announcer) Probe(ctx context.Context, addr netip.Addr, links ...string) ([]Answer, error) {
	addr, err := checkAddr(Advertisement{Addr: addr})
	if err != nil {
		return nil, err
	}
	q := &inquiry{
		sent:    make(chan probeSent, claimBuffer),
		answers: make(chan Answer, claimBuffer),
		open:    make(map[string]error),
	}
	asked := a.askers(addr, links, q)
	if len(asked) == 0 {
		return nil, q.errs()
	}
	a.inquire(addr, q, true)
	defer func() {
		a.inquire(addr, q, false)
		narrow(asked)
	}()
	narrow(asked)
	found := make(map[string]Answer)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for round := 0; ; {
		select {
		case <-ctx.Done():
			return sortAnswers(found), errors.Join(ctx.Err(), q.errs())
		case s := <-q.sent:
			q.note(s)
		case x := <-q.answers:
			if _, ours := q.open[x.Link]; ours {
				found[x.Link+" "+x.MAC.String()] = x
			}
		case <-timer.C:
			if round == probeCount {
				return sortAnswers(found), q.errs()
			}
			round++
			for _, r := range asked {
				if !r.ask(ask{addr: addr, sent: q.sent}) {
					q.note(probeSent{r.link, errors.New("too many probes wait")})
				}
			}
			timer.Reset(probePause)
		}
	}
}

// askers returns what serves the address's family on the links, and notes in q
// which links are missing.
func (a *Announcer) askers(addr netip.Addr, links []string, q *inquiry) []*responder {
	a.mu.Lock()
	defer a.mu.Unlock()
	var asked []*responder
	for _, l := range links {
		q.open[l] = errors.New("it is not in use")
	}
	for _, p := range a.ports {
		if len(links) > 0 && !slices.Contains(links, p.link.Name) {
			continue
		}
		q.open[p.link.Name] = errors.New("its socket is not open")
		if r := p.responder(addr); r != nil {
			q.open[p.link.Name] = errors.New("nothing was sent")
			asked = append(asked, r)
		}
	}
	if len(links) == 0 && len(a.ports) == 0 {
		q.open["(any)"] = errors.New("no link is in use")
	}
	return asked
}

// narrow tells the kernel to let the answers through.
func narrow(asked []*responder) {
	for _, r := range asked {
		r.narrow()
	}
}

func sortAnswers(found map[string]Answer) []Answer {
	return slices.SortedFunc(maps.Values(found), func(x, y Answer) int {
		return cmp.Or(strings.Compare(x.Link, y.Link), bytes.Compare(x.MAC, y.MAC))
	})
}

// An inquiry is one call of Probe. The packet path writes to its channels, but
// never waits for room.
type inquiry struct {
	sent    chan probeSent
	answers chan Answer
	open    map[string]error // by link: why it was not asked; nil: it was
}

type probeSent struct {
	link string
	err  error
}

// note keeps that a probe was sent, or why not if none was.
func (q *inquiry) note(s probeSent) {
	if q.open[s.link] != nil {
		q.open[s.link] = s.err
	}
}

func (q *inquiry) errs() error {
	var errs []error
	for _, link := range slices.Sorted(maps.Keys(q.open)) {
		if err := q.open[link]; err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrLink, link, err))
		}
	}
	return errors.Join(errs...)
}

// inquiries are the running inquiries by address. A map is immutable.
type inquiries map[netip.Addr][]*inquiry

func (q inquiries) tell(addr netip.Addr, link string, by mac) {
	for _, i := range q[addr] {
		select {
		case i.answers <- Answer{Link: link, MAC: slices.Clone(by[:])}:
		default:
		}
	}
}

// prefixes are what the filter of a protocol has to let through.
func (q inquiries) prefixes(p Protocol) []netip.Prefix {
	var addrs []netip.Addr
	for addr := range q {
		if addr.Is4() == (p == ARP) {
			addrs = append(addrs, addr)
		}
	}
	return cover(addrs, maxPrefixes)
}

// inquire adds an inquiry or removes it.
func (a *Announcer) inquire(addr netip.Addr, q *inquiry, add bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := maps.Clone(*a.inquiries.Load())
	if next == nil {
		next = make(inquiries)
	}
	rest := slices.DeleteFunc(slices.Clone(next[addr]), func(o *inquiry) bool { return o == q })
	if add {
		rest = append(rest, q)
	}
	next[addr] = rest
	if len(rest) == 0 {
		delete(next, addr)
	}
	a.inquiries.Store(&next)
}

// An ask is a probe to be sent.
type ask struct {
	addr netip.Addr
	sent chan<- probeSent // nil: nobody wants to know
}

// ask has a probe sent, and reports false if too many wait. It never blocks.
func (r *responder) ask(q ask) bool {
	select {
	case r.asks <- q:
		notify(r.queue.wake)
		return true
	default:
		return false
	}
}

// writeProbes sends the probes that wait, as many as there are buffers for.
func (r *responder) writeProbes(buf [][]byte) {
	var asks []ask
	var frames [][]byte
	for len(asks) < len(buf) {
		select {
		case q := <-r.asks:
			frames = append(frames, r.appendProbe(buf[len(asks)][:0], q.addr))
			asks = append(asks, q)
			continue
		default:
		}
		break
	}
	if len(asks) == 0 {
		return
	}
	n, err := r.conn.WriteFrames(frames)
	if err != nil {
		r.writeError(err)
	}
	for i, q := range asks {
		s := probeSent{link: r.link}
		if i >= n {
			s.err = err
		}
		select {
		case q.sent <- s: // never if it is nil
		default:
		}
	}
}

func (r *responder) appendProbe(dst []byte, addr netip.Addr) []byte {
	if r.protocol == ARP {
		return appendProbeARP(dst, r.own, addr)
	}
	return appendSolicitation(dst, r.own, addr)
}

// appendProbeARP appends an ARP probe (RFC 5227 section 2.1.1): from 0.0.0.0, the
// target hardware address zero. The padding carries probeMark.
func appendProbeARP(dst []byte, own mac, addr netip.Addr) []byte {
	start := len(dst)
	dst = appendARP(dst, broadcast(), own, arp.OperationRequest, netip.IPv4Unspecified(), mac{}, addr)
	copy(dst[start+etherLen+arpLen:], probeMark)
	return dst
}

// appendSolicitation appends a neighbour solicitation (RFC 4861 section 4.3) from
// the link-local address that RFC 4291 appendix A makes of the MAC. The link need
// not have it: the answer goes to the MAC in the option. The source is not ::,
// since a host that is about to take the address itself would give it up.
func appendSolicitation(dst []byte, own mac, target netip.Addr) []byte {
	source := netip.AddrFrom16([16]byte{
		0xfe, 0x80, 8: own[0] ^ 2, 9: own[1], 10: own[2], 11: 0xff, 12: 0xfe, 13: own[3], 14: own[4], 15: own[5],
	})
	group := solicitedNode(target.As16())
	// Fails only for addresses that are not IPv6, which no caller has.
	body, _ := ndp.MarshalMessageChecksum(&ndp.NeighborSolicitation{
		TargetAddress: target,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: net.HardwareAddr(own[:])}},
	}, source, group)
	return appendIPv6(appendEther(dst, groupMAC(group), own, typeIPv6), source, group, body)
}
