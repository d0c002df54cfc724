package bfd

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// The packets are made by hand from the figure in RFC 5880 section 4.1, but for the
// one of FRR. TestInterop adds that others read ours in the same way.
func goldenPackets() map[string]struct {
	wire string
	want Packet
} {
	return map[string]struct {
		wire string
		want Packet
	}{
		"all flags and the largest values": {
			"3f fe ff 18 ffffffff ffffffff ffffffff ffffffff ffffffff",
			Packet{
				Diag: 31, State: Up, Poll: true, Final: true, Independent: true, Authenticated: true, Demand: true, Multiplier: 255,
				MyDiscriminator: math.MaxUint32, YourDiscriminator: math.MaxUint32, DesiredMinTx: microseconds(math.MaxUint32),
				RequiredMinRx: microseconds(math.MaxUint32), RequiredMinEchoRx: microseconds(math.MaxUint32),
			},
		},
		"first packet of FRR 8.4.4 with 70 ms and 60 ms x 5": {
			"20 40 05 18 f34cdec0 00000000 000f4240 000f4240 0000c350",
			Packet{
				State: Down, Multiplier: 5, MyDiscriminator: 0xf34cdec0,
				DesiredMinTx: time.Second, RequiredMinRx: time.Second, RequiredMinEchoRx: 50 * time.Millisecond,
			},
		},
		"first packet": {
			"20 40 03 18 00000001 00000000 000f4240 000493e0 00000000",
			Packet{State: Down, Multiplier: 3, MyDiscriminator: 1, DesiredMinTx: time.Second, RequiredMinRx: 300 * time.Millisecond},
		},
		"poll after coming up": {
			"20 e0 03 18 12345678 9abcdef0 0000c350 0000c350 00000000",
			Packet{
				State: Up, Poll: true, Multiplier: 3, MyDiscriminator: 0x12345678, YourDiscriminator: 0x9abcdef0,
				DesiredMinTx: 50 * time.Millisecond, RequiredMinRx: 50 * time.Millisecond,
			},
		},
		"control plane independent, echo": {
			"21 48 05 18 00000007 00000000 000f4240 0000c350 0000c350",
			Packet{
				Diag: DiagTimeExpired, State: Down, Independent: true, Multiplier: 5, MyDiscriminator: 7,
				DesiredMinTx: time.Second, RequiredMinRx: 50 * time.Millisecond, RequiredMinEchoRx: 50 * time.Millisecond,
			},
		},
		"administratively down": {
			"27 00 03 18 00000001 00000002 000f4240 000493e0 00000000",
			Packet{
				Diag: DiagAdminDown, State: AdminDown, Multiplier: 3, MyDiscriminator: 1, YourDiscriminator: 2,
				DesiredMinTx: time.Second, RequiredMinRx: 300 * time.Millisecond,
			},
		},
	}
}

func TestPacketGolden(t *testing.T) {
	for name, tt := range goldenPackets() {
		t.Run(name, func(t *testing.T) {
			wire := unhex(t, tt.wire)
			got, err := tt.want.AppendBinary([]byte("x"))
			require.NoError(t, err)
			require.Equal(t, append([]byte("x"), wire...), got)
			if tt.want.Authenticated {
				wire[3] = headerSize + 2
				wire = append(wire, 9, 2)
			}
			parsed, auth, err := ParsePacket(append(wire, "trailer"...))
			require.NoError(t, err)
			require.Equal(t, tt.want, parsed)
			require.Len(t, auth, len(wire)-headerSize)
		})
	}
}

func TestParsePacketRefuses(t *testing.T) {
	const good = "20 c0 03 18 00000001 00000002 000f4240 000493e0 00000000"
	for name, tt := range map[string]struct {
		edit func(b []byte) []byte
		want string
	}{
		"nothing":             {func([]byte) []byte { return nil }, "0 bytes"},
		"23 bytes":            {func(b []byte) []byte { return b[:23] }, "23 bytes"},
		"version 0":           {func(b []byte) []byte { b[0] = 0; return b }, "version 0"},
		"version 2":           {func(b []byte) []byte { b[0] = 2 << 5; return b }, "version 2"},
		"length too small":    {func(b []byte) []byte { b[3] = 23; return b }, "length field 23"},
		"length too large":    {func(b []byte) []byte { b[3] = 25; return b }, "length field 25"},
		"no room for A":       {func(b []byte) []byte { b[1] |= flagAuth; return b }, "length field 24"},
		"multiplier 0":        {func(b []byte) []byte { b[2] = 0; return b }, "multiplier"},
		"multipoint":          {func(b []byte) []byte { b[1] |= flagMultipoint; return b }, "multipoint"},
		"my discriminator 0":  {func(b []byte) []byte { b[7] = 0; return b }, "my discriminator"},
		"up to nobody":        {func(b []byte) []byte { b[11] = 0; return b }, "state up"},
		"initiated by nobody": {func(b []byte) []byte { b[11] = 0; b[1] = byte(Init) << 6; return b }, "state init"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParsePacket(tt.edit(unhex(t, good)))
			require.ErrorIs(t, err, ErrPacket)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, _, err := ParsePacket(unhex(t, good))
	require.NoError(t, err)
}

func TestAppendBinaryRefuses(t *testing.T) {
	for name, p := range map[string]Packet{
		"state":    {State: 4},
		"diag":     {Diag: 32},
		"negative": {DesiredMinTx: -time.Microsecond},
		"too long": {RequiredMinRx: microseconds(math.MaxUint32) + time.Microsecond},
	} {
		b, err := p.AppendBinary([]byte("kept"))
		require.ErrorIs(t, err, ErrPacket, name)
		require.Equal(t, "kept", string(b), name)
	}
}

func packetGen() *rapid.Generator[Packet] {
	us := rapid.Map(rapid.Uint32(), microseconds)
	return rapid.Custom(func(t *rapid.T) Packet {
		return Packet{
			Diag:              Diag(rapid.IntRange(0, 31).Draw(t, "diag")),
			State:             State(rapid.IntRange(0, 3).Draw(t, "state")),
			Poll:              rapid.Bool().Draw(t, "poll"),
			Final:             rapid.Bool().Draw(t, "final"),
			Independent:       rapid.Bool().Draw(t, "independent"),
			Demand:            rapid.Bool().Draw(t, "demand"),
			Multiplier:        rapid.Uint8Min(1).Draw(t, "multiplier"),
			MyDiscriminator:   rapid.Uint32Min(1).Draw(t, "my"),
			YourDiscriminator: rapid.Uint32Min(1).Draw(t, "your"),
			DesiredMinTx:      us.Draw(t, "tx"),
			RequiredMinRx:     us.Draw(t, "rx"),
			RequiredMinEchoRx: us.Draw(t, "echo"),
		}
	})
}

func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := packetGen().Draw(t, "packet")
		b, err := want.AppendBinary(nil)
		require.NoError(t, err)
		got, auth, err := ParsePacket(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Empty(t, auth)
	})
}

// What is accepted is written again as it came, but for bytes behind the length.
func FuzzParsePacket(f *testing.F) {
	for _, g := range goldenPackets() {
		f.Add(unhex(f, g.wire))
	}
	f.Add(Auth{Type: AuthSHA1, Key: "k"}.sign(unhex(f, "20 44 03 18 00000001 00000000 000f4240 000493e0 00000000"), 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, auth, err := ParsePacket(b)
		if err != nil {
			require.ErrorIs(t, err, ErrPacket)
			return
		}
		again, err := p.AppendBinary(nil)
		require.NoError(t, err)
		if p.Authenticated {
			again[3] += byte(len(auth))
		} else {
			again[3] = b[3] // what follows is not looked at
		}
		require.Equal(t, b[:headerSize+len(auth)], append(again, auth...))
		for _, typ := range []AuthType{AuthMD5, AuthMeticulousMD5, AuthSHA1, AuthMeticulousSHA1} {
			_, ok := Auth{Type: typ, Key: "not this one"}.check(b, auth)
			require.False(t, ok)
		}
	})
}

func TestNames(t *testing.T) {
	require.Equal(t, "admin-down down init up state-4", strings.Join([]string{
		AdminDown.String(), Down.String(), Init.String(), Up.String(), State(4).String(),
	}, " "))
	require.Equal(t, "neighbor signaled session down", DiagNeighborDown.String())
	require.Equal(t, "reverse concatenated path down", Diag(8).String())
	require.Equal(t, "diagnostic 9", Diag(9).String())
}
