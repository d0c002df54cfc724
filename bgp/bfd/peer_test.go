package bfd

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNormalize(t *testing.T) {
	addr := netip.MustParseAddr
	for name, tt := range map[string]struct{ in, want Peer }{
		"defaults": {
			Peer{Addr: addr("192.0.2.1")},
			Peer{Addr: addr("192.0.2.1"), MinTTL: 255, Transmit: DefaultInterval, Receive: DefaultInterval, Multiplier: 3},
		},
		"mapped": {
			Peer{Addr: addr("::ffff:192.0.2.1"), Local: addr("::ffff:192.0.2.2")},
			Peer{Addr: addr("192.0.2.1"), Local: addr("192.0.2.2"), MinTTL: 255, Transmit: DefaultInterval, Receive: DefaultInterval, Multiplier: 3},
		},
		"zone": {
			Peer{Addr: addr("fe80::1%eth0"), Transmit: MinInterval, Receive: MaxInterval, Multiplier: 255},
			Peer{Addr: addr("fe80::1"), Interface: "eth0", MinTTL: 255, Transmit: MinInterval, Receive: MaxInterval, Multiplier: 255},
		},
		"multihop": {
			Peer{Addr: addr("2001:db8::1"), Multihop: true, Multiplier: 1},
			Peer{Addr: addr("2001:db8::1"), Multihop: true, MinTTL: 254, Transmit: DefaultInterval, Receive: DefaultInterval, Multiplier: 1},
		},
		"minimum TTL does not matter on a single hop": {
			Peer{Addr: addr("192.0.2.1"), MinTTL: 1},
			Peer{Addr: addr("192.0.2.1"), MinTTL: 255, Transmit: DefaultInterval, Receive: DefaultInterval, Multiplier: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.in.Normalize()
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			again, err := got.Normalize()
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

func TestNormalizeRefuses(t *testing.T) {
	addr := netip.MustParseAddr
	for want, p := range map[string]Peer{
		"no Addr":                                 {},
		"not a unicast address":                   {Addr: addr("ff02::1%eth0")},
		"unusable Addr: not a unicast":            {Addr: addr("0.0.0.0")},
		"unusable Local 2001:db8::1: of another":  {Addr: addr("192.0.2.1"), Local: addr("2001:db8::1")},
		"unusable Local 224.0.0.1: not a unicast": {Addr: addr("192.0.2.1"), Local: addr("224.0.0.1")},
		"link-local address needs Interface":      {Addr: addr("fe80::1")},
		`interface "eth1" contradicts`:            {Addr: addr("fe80::1%eth0"), Interface: "eth1"},
		"is for a single hop":                     {Addr: addr("192.0.2.1"), Interface: "eth0", Multihop: true},
		"Transmit is 5ms, must be whole":          {Addr: addr("192.0.2.1"), Transmit: 5 * time.Millisecond},
		"Receive is 1m10s, must be whole":         {Addr: addr("192.0.2.1"), Receive: 70 * time.Second},
		"Receive is 10.0005ms":                    {Addr: addr("192.0.2.1"), Receive: 10*time.Millisecond + 500},
		"Multiplier is 256, must be 1 to 255":     {Addr: addr("192.0.2.1"), Multiplier: 256},
		"Multiplier is -1":                        {Addr: addr("192.0.2.1"), Multiplier: -1},
		"MinTTL is 255, must be 1 to 254":         {Addr: addr("192.0.2.1"), Multihop: true, MinTTL: 255},
		"authentication type 1":                   {Addr: addr("192.0.2.1"), Auth: Auth{Type: 1, Key: "k"}},
		"echo function is not implemented":        {Addr: addr("192.0.2.1"), Echo: true},
		"echo over multiple hops":                 {Addr: addr("192.0.2.1"), Echo: true, Multihop: true},
	} {
		t.Run(want, func(t *testing.T) {
			got, err := p.Normalize()
			require.ErrorIs(t, err, ErrPeer)
			require.ErrorContains(t, err, want)
			require.Equal(t, p.Echo, errors.Is(err, errors.ErrUnsupported))
			require.Equal(t, p, got)
			var pe *PeerError
			require.ErrorAs(t, err, &pe)
			require.Equal(t, p, pe.Peer)
		})
	}
}

func TestNormalizeAllNamesEveryFault(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.1")
	_, err := normalizeAll([]Peer{
		{Addr: a},
		{Addr: netip.MustParseAddr("::ffff:192.0.2.1"), Transmit: time.Second}, // the same session
		{Addr: a, Multihop: true},
		{Addr: a, Interface: "eth0"},
		{Addr: a, Local: netip.MustParseAddr("192.0.2.9"), Multiplier: 999},
	})
	require.EqualError(t, err, "bfd: bad peer ::ffff:192.0.2.1: given twice\n"+
		"bfd: bad peer 192.0.2.1 from 192.0.2.9: Multiplier is 999, must be 1 to 255")
}

func TestPeerString(t *testing.T) {
	p := Peer{Addr: netip.MustParseAddr("fe80::1"), Interface: "eth0", Local: netip.MustParseAddr("fe80::2")}
	require.Equal(t, "fe80::1 on eth0 from fe80::2", p.String())
	require.Equal(t, "192.0.2.1 (multihop)", Peer{Addr: netip.MustParseAddr("192.0.2.1"), Multihop: true}.String())
}
