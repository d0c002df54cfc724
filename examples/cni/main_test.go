package main

func Example_main() {
	main()
	// Output:
	// holder: node-c then: [node-b node-a]
	// holder: node-a out: map[node-c:notEligible]
}
