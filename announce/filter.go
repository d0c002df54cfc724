package announce

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
)

// otherHost is PACKET_OTHERHOST: frames for another MAC that a promiscuous link
// hands up, and VLAN-tagged frames for which this host has no VLAN link, which
// must not be answered untagged.
const otherHost = 3

// maxPrefixes bounds the prefixes in a filter, and thus its length.
const maxPrefixes = 16

// A condition passes frames whose field of the given size at off is val.
type condition struct{ off, size, val uint32 }

func (c condition) load() bpf.Instruction { return bpf.LoadAbsolute{Off: c.off, Size: int(c.size)} }

// check drops what does not meet the condition.
func (c condition) check() []bpf.Instruction {
	return []bpf.Instruction{
		c.load(), bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.val, SkipTrue: 1}, bpf.RetConstant{Val: 0},
	}
}

// A pass is what the kernel lets through for a protocol: frames that meet all the
// conditions and whose op field asks, or claims an address of a prefix.
type pass struct {
	conditions []condition
	op         condition // of a question; opClaim is the value of what only claims
	opClaim    uint32
	addr       uint32 // offset of what it claims
}

func passFor(p Protocol) pass {
	if p == ARP {
		return pass{
			conditions: []condition{
				{12, 2, typeARP},
				{14, 4, 1<<16 | 0x0800}, // Ethernet, IPv4
				{18, 2, 0x0604},
			},
			op: condition{20, 2, arpOpAsk}, opClaim: arpOpReply, addr: arpSender,
		}
	}
	return pass{
		conditions: []condition{
			{12, 2, typeIPv6},
			{20, 1, protoICMPv6},
			{21, 1, hopLimit},
		},
		op: condition{icmpStart, 2, typeNS << 8}, opClaim: typeNA << 8, addr: nsTarget, // type and code
	}
}

// program makes the filter of a protocol: nothing reaches us but well-formed
// questions, and answers and announcements of addresses in one of the prefixes. The
// host gets many of these that are none of our business.
func program(p Protocol, claims []netip.Prefix) []bpf.Instruction {
	const all = 1 << 16
	f := passFor(p)
	var prog []bpf.Instruction
	for _, c := range f.conditions {
		prog = append(prog, c.check()...)
	}
	prog = append(prog,
		f.op.load(),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: f.op.val, SkipTrue: 1}, bpf.RetConstant{Val: all},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: f.opClaim, SkipTrue: 1}, bpf.RetConstant{Val: 0})
	for _, prefix := range claims {
		prog = append(prog, within(prefix, f.addr)...)
	}
	return append(prog, bpf.RetConstant{Val: 0})
}

// within accepts if the address at off is in the prefix, and goes on if not.
func within(prefix netip.Prefix, off uint32) []bpf.Instruction {
	var prog []bpf.Instruction
	addr := prefix.Masked().Addr().AsSlice()
	var jumps []int
	for left := prefix.Bits(); left > 0; left, addr, off = left-32, addr[4:], off+4 {
		prog = append(prog, bpf.LoadAbsolute{Off: off, Size: 4})
		if left < 32 {
			prog = append(prog, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ^uint32(0) << (32 - left)})
		}
		jumps = append(jumps, len(prog))
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(addr)})
	}
	for _, i := range jumps {
		jump, _ := prog[i].(bpf.JumpIf)
		jump.SkipTrue = uint8(len(prog) - i) // to behind the accepting return
		prog[i] = jump
	}
	return append(prog, bpf.RetConstant{Val: 1 << 16})
}

// kernelFilter assembles the filter of a protocol for a packet socket. The
// packet type comes first; it is not part of program because only the kernel
// knows it.
func kernelFilter(p Protocol, claims []netip.Prefix) ([]bpf.RawInstruction, error) {
	return bpf.Assemble(append([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: otherHost, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	}, program(p, claims)...))
}

// cover returns at most limit prefixes that contain all the addresses, which are of
// one family; it sorts them. The neighbours that differ earliest are parted first,
// so that a few pools of adjacent addresses are covered tightly.
func cover(addrs []netip.Addr, limit int) []netip.Prefix {
	if len(addrs) == 0 {
		return nil
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	ends := make([]int, 0, len(addrs)) // of groups, before the last
	for i := range addrs[1:] {
		ends = append(ends, i)
	}
	if len(ends) >= limit {
		common := func(i int) int { return commonBits(addrs[i], addrs[i+1]) }
		slices.SortFunc(ends, func(i, j int) int { return common(i) - common(j) })
		ends = ends[:limit-1]
		slices.Sort(ends)
	}
	prefixes := make([]netip.Prefix, 0, len(ends)+1)
	first := 0
	for _, last := range append(ends, len(addrs)-1) {
		bits := addrs[first].BitLen()
		if first != last {
			bits = commonBits(addrs[first], addrs[last])
		}
		prefixes = append(prefixes, netip.PrefixFrom(addrs[first], bits).Masked())
		first = last + 1
	}
	return prefixes
}

// commonBits is how many leading bits two addresses of one family share.
func commonBits(a, b netip.Addr) int {
	x, y := a.As16(), b.As16()
	n := 0
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			n += bits.LeadingZeros8(d)
			break
		}
		n += 8
	}
	return n - (128 - a.BitLen())
}
