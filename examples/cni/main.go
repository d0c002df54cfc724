// Command cni shows how a CNI, or any other agent that runs on every node, embeds packages election and membership:
// nothing of Kubernetes comes along. Every node that sees the same members elects the same one for an address, and a
// node that leaves moves only what it held.
package main

import (
	"fmt"
	"net/netip"

	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/membership"
)

func main() {
	// Static members here; membership.New gives the same methods over an encrypted gossip.
	nodes := membership.NewStatic([]membership.Member{
		{Name: "node-a", Eligible: true},
		{Name: "node-b", Eligible: true},
		{Name: "node-c", Eligible: true},
	})
	addr := netip.MustParseAddr("192.0.2.10")

	decide := func() election.Decision {
		var candidates []election.Candidate
		for _, m := range nodes.Members() {
			c := election.Candidate{Node: m.Name}
			if !m.Eligible {
				c.Reason = election.NotEligible
			}
			candidates = append(candidates, c)
		}
		return election.Decide(addr, candidates)
	}

	before := decide()
	fmt.Println("holder:", before.Winner, "then:", before.Candidates[1:])

	nodes.Set([]membership.Member{{Name: "node-a", Eligible: true}, {Name: "node-c", Described: true, Eligible: false}})
	<-nodes.Changed()
	after := decide()
	fmt.Println("holder:", after.Winner, "out:", after.Excluded)
}
