package election_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

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

func ExampleTable() {
	table := election.NewTable(election.TableConfig{
		Addrs: []netip.Addr{netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8")},
		Nodes: []string{"kw-01", "kw-02", "kw-03"},
	})
	for _, move := range table.Leave("kw-02") {
		fmt.Printf("%s: from %s to %s\n", move.Addr, move.From, move.To)
	}
	for _, move := range table.Join("kw-05") {
		fmt.Printf("%s: from %s to %s\n", move.Addr, move.From, move.To)
	}
	// Output:
	// 198.51.100.7: from kw-02 to kw-03
	// 198.51.100.8: from kw-01 to kw-05
}

// requests asks for a holder of ten addresses among three nodes.
func requests() []election.Request {
	out := make([]election.Request, 10)
	for i := range out {
		out[i].Addr = netip.AddrFrom4([4]byte{198, 51, 100, byte(50 + i)})
		for _, node := range []string{"kw-01", "kw-02", "kw-03"} {
			out[i].Candidates = append(out[i].Candidates, election.Candidate{Node: node})
		}
	}
	return out
}

func ExampleBounded() {
	for _, s := range []election.Strategy{election.Hash{}, election.Bounded{Percent: 100}} {
		load := make(map[string]int)
		for _, d := range s.Elect(requests()) {
			load[d.Winner]++
		}
		fmt.Printf("%T %v\n", s, load)
	}
	// Output:
	// election.Hash map[kw-01:1 kw-02:3 kw-03:6]
	// election.Bounded map[kw-01:2 kw-02:4 kw-03:4]
}

func ExampleSticky() {
	r := requests()[7:8]
	fmt.Println("new:", election.Sticky{}.Elect(r)[0].Winner)
	r[0].Holder = "kw-01"
	fmt.Println("held by kw-01:", election.Sticky{}.Elect(r)[0].Winner)
	r[0].Candidates[0].Reason = election.NotMember
	fmt.Println("kw-01 is gone:", election.Sticky{}.Elect(r)[0].Winner)
	// Output:
	// new: kw-02
	// held by kw-01: kw-01
	// kw-01 is gone: kw-02
}

func ExampleDamper() {
	now := time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)
	var file []byte // what survives a restart
	for range 5 {
		d, err := election.NewDamper(election.DamperConfig{})
		if err != nil {
			panic(err)
		}
		if file != nil {
			if err := json.Unmarshal(file, d); err != nil {
				panic(err)
			}
		}
		s := d.Observe(election.Up, now)
		if s.Eligible() {
			fmt.Println(now.Format(time.TimeOnly), "eligible")
		} else {
			fmt.Println(now.Format(time.TimeOnly), "held until", s.Until.Format(time.TimeOnly))
		}
		if file, err = json.Marshal(d); err != nil {
			panic(err)
		}
		now = now.Add(30 * time.Second) // and it crashes again
	}
	// Output:
	// 12:00:00 eligible
	// 12:00:30 eligible
	// 12:01:00 held until 12:02:00
	// 12:01:30 held until 12:03:30
	// 12:02:00 held until 12:06:00
}
