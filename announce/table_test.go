package announce

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMayHold(t *testing.T) {
	may := func(tab *table, addr string) bool { return tab.mayHold(netip.MustParseAddr(addr)) }
	empty := tableOf(t)
	require.False(t, may(empty, "192.0.2.1"))
	require.False(t, may(empty, "2001:db8::1"))
	tab := tableOf(t, ad("192.0.2.20"), ad("192.0.2.10"), ad("2001:db8::10"))
	for addr, want := range map[string]bool{
		"192.0.2.9": false, "192.0.2.10": true, "192.0.2.15": true, "192.0.2.20": true, "192.0.2.21": false,
		"2001:db8::f": false, "2001:db8::10": true, "2001:db8::11": false, "0.0.0.0": false, "::": false,
	} {
		require.Equal(t, want, may(tab, addr), addr)
	}
}
