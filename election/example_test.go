package election_test

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/heraldlb/herald/election"
)

func ExampleWinner() {
	nodes := []string{"kw-01", "kw-02", "kw-03", "kw-04", "kw-05"}
	for _, text := range []string{"198.51.100.7", "198.51.100.8", "2001:db8:77::a"} {
		addr := netip.MustParseAddr(text)
		node, _ := election.Winner(addr, nodes)
		fmt.Println(addr, node)
	}
	// Output:
	// 198.51.100.7 kw-02
	// 198.51.100.8 kw-05
	// 2001:db8:77::a kw-04
}

func ExampleRank() {
	addr := netip.MustParseAddr("198.51.100.7")
	nodes := []string{"kw-01", "kw-02", "kw-03", "kw-04", "kw-05"}
	fmt.Println(election.Rank(nil, addr, nodes))

	// Without the winner the others keep their places.
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return n == "kw-02" })
	fmt.Println(election.Rank(nil, addr, nodes))
	// Output:
	// [kw-02 kw-03 kw-05 kw-01 kw-04]
	// [kw-03 kw-05 kw-01 kw-04]
}

func ExampleDecide() {
	d := election.Decide(netip.MustParseAddr("198.51.100.7"), []election.Candidate{
		{Node: "kw-01", Weight: 40},
		{Node: "kw-02", Reason: election.LinkDown},
		{Node: "kw-03"},
		{Node: "kw-04", Reason: election.NotMember},
	})
	fmt.Println("winner:", d.Winner)
	fmt.Println("order:", d.Candidates)
	for _, node := range []string{"kw-01", "kw-02", "kw-03", "kw-04"} {
		fmt.Printf("%s: %q\n", node, d.Reason(node))
	}
	// Output:
	// winner: kw-01
	// order: [kw-01 kw-03]
	// kw-01: ""
	// kw-02: "linkDown"
	// kw-03: "notOwner"
	// kw-04: "notMember"
}
