package announce

import "golang.org/x/net/bpf"

// otherHost is PACKET_OTHERHOST: frames for another MAC that a promiscuous link
// hands up, and VLAN-tagged frames for which this host has no VLAN link, which
// must not be answered untagged.
const otherHost = 3

// A condition passes frames whose field of the given size at off is val.
type condition struct{ off, size, val uint32 }

// filterFor returns the conditions that the kernel checks for a protocol:
// nothing but well-formed questions reaches us. Conflict detection would add the
// operations and types that claim an address.
func filterFor(p Protocol) []condition {
	if p == ARP {
		return []condition{
			{12, 2, typeARP},
			{14, 4, 1<<16 | 0x0800}, // Ethernet, IPv4
			{18, 4, 0x0604<<16 | arpOpAsk},
		}
	}
	return []condition{
		{12, 2, typeIPv6},
		{20, 1, protoICMPv6},
		{21, 1, hopLimit},
		{icmpStart, 2, typeNS << 8}, // type and code
	}
}

// program turns the conditions into a filter.
func program(conditions []condition) []bpf.Instruction {
	var prog []bpf.Instruction
	for i, c := range conditions {
		prog = append(prog,
			bpf.LoadAbsolute{Off: c.off, Size: int(c.size)},
			// A mismatch skips the rest and the accepting return.
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.val, SkipTrue: uint8(2*(len(conditions)-1-i) + 1)},
		)
	}
	return append(prog, bpf.RetConstant{Val: 1 << 16}, bpf.RetConstant{Val: 0})
}

// kernelFilter assembles the filter of a protocol for a packet socket. The
// packet type comes first; it is not part of program because only the kernel
// knows it.
func kernelFilter(p Protocol) ([]bpf.RawInstruction, error) {
	return bpf.Assemble(append([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: otherHost, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	}, program(filterFor(p))...))
}
