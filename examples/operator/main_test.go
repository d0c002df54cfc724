package main

func Example_main() {
	main()
	// Output:
	// web has 192.0.2.10 from pool office
	// db has 192.0.2.11 from pool office
	// mail has 192.0.2.12 from pool office
	// waits: assign chat: no free address: pool "office": no free IPv4 address
}
