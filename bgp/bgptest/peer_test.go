package bgptest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/bgp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Messages as a speaker in AS 4200000001 and one in AS 64512 send them.
const (
	openHex   = "0031 01 04 5ba0 005a c0000201 14 0212 0104 0001 0001 0104 0002 0001 4104 fa56ea01"
	updateHex = "0030 02 0000 0015 40010100 400200 400304c0000209 40050400000000 18c00002"
)

func wire(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Repeat("ff", 16) + strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return b
}

func TestParseOpen(t *testing.T) {
	typ, body, err := readMessage(bytes.NewReader(wire(t, openHex)))
	require.NoError(t, err)
	require.Equal(t, byte(msgOpen), typ)
	got, err := parseOpen(body)
	require.NoError(t, err)
	assert.Equal(t, Open{
		ASN: 4200000001, TwoOctetASN: 23456, HoldTime: 90, RouterID: netip.MustParseAddr("192.0.2.1"),
		Families: bgp.IPv4 | bgp.IPv6, FourOctetASN: true,
	}, got)
}

func TestParseUpdate(t *testing.T) {
	_, body, err := readMessage(bytes.NewReader(wire(t, updateHex)))
	require.NoError(t, err)
	got, err := parseUpdate(body, true)
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{prefix("192.0.2.0/24")}, got.announced)
	assert.Equal(t, "via 192.0.2.9 path [] pref 0", describe(got.attrs))

	// AS_PATH of two octets with AS_TRANS, and AS4_PATH beside it.
	body, err = hex.DecodeString("0000" + "0021" + "40010100" + "4002060202" + "fc00" + "5ba0" + "400304c0000209" + "c0110602" + "01" + "fa56ea01" + "20c0000207" + "")
	require.NoError(t, err)
	body[3] = byte(len(body) - 4 - 5)
	got, err = parseUpdate(body, false)
	require.NoError(t, err)
	assert.Equal(t, "via 192.0.2.9 path [64512 4200000001]", describe(got.attrs))
	assert.Equal(t, []netip.Prefix{prefix("192.0.2.7/32")}, got.announced)

	for name, want := range map[string]update{
		"0000 0000":                          {endOfRIB: bgp.IPv4},
		"0000 0006 800f03 0002 01":           {endOfRIB: bgp.IPv6},
		"0005 20c0000207 0000":               {withdrawn: []netip.Prefix{prefix("192.0.2.7/32")}},
		"0000 000a 800f07 0002 01 18200 10d": {withdrawn: []netip.Prefix{prefix("2001:d00::/24")}},
	} {
		body, err := hex.DecodeString(strings.ReplaceAll(name, " ", ""))
		require.NoError(t, err)
		got, err := parseUpdate(body, true)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	for _, bad := range []string{"", "00", "0001", "0000 0001", "0000 0003 400101", "0000 0005 4002020201", "0000 0000 21c0000207", "0000 0004 40050101", "0000 0005 800e020001"} {
		body, err := hex.DecodeString(strings.ReplaceAll(bad, " ", ""))
		require.NoError(t, err)
		_, err = parseUpdate(body, true)
		assert.Error(t, err, bad)
	}
}

// FuzzMessage: whatever comes, no panic, and what was read is inside the message.
func FuzzMessage(f *testing.F) {
	f.Add(wire(f, openHex))
	f.Add(wire(f, updateHex))
	f.Fuzz(func(t *testing.T, data []byte) {
		typ, body, err := readMessage(bytes.NewReader(data))
		if err != nil {
			return
		}
		switch typ {
		case msgOpen:
			_, _ = parseOpen(body)
		case msgUpdate:
			for _, four := range []bool{true, false} {
				u, err := parseUpdate(body, four)
				if n := len(u.announced) + len(u.withdrawn); err == nil && n > len(body) {
					t.Fatalf("%d prefixes of %d octets", n, len(body))
				}
			}
		}
	})
}

// speak connects to a peer as a speaker that knows nothing else.
func speak(t *testing.T, p *Peer) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	for _, m := range [][]byte{wire(t, openHex), message(msgKeepalive, nil)} {
		_, err := conn.Write(m)
		require.NoError(t, err)
	}
	p.WaitEstablished(t)
	return conn
}

func TestPeer(t *testing.T) {
	p := NewPeer(t, PeerConfig{ASN: 64513})
	conn := speak(t, p)
	_, err := conn.Write(wire(t, updateHex))
	require.NoError(t, err)
	r := p.WaitRoute(t, prefix("192.0.2.0/24"))
	assert.Equal(t, netip.MustParseAddr("192.0.2.9"), r.NextHop)
	_, err = conn.Write(message(msgNotification, []byte{6, 3}))
	require.NoError(t, err)
	p.Wait(t, "closed", func(v View) bool { return !v.Established() && v.Count() == 0 })
	var seen []string
	for _, e := range p.Events() {
		switch {
		case e.Up:
			seen = append(seen, "up")
		case e.Down:
			seen = append(seen, "down")
		case e.Announce.IsValid():
			seen = append(seen, e.Announce.String())
		default:
			seen = append(seen, e.Notified.String())
		}
	}
	assert.Equal(t, []string{"up", "192.0.2.0/24", "notification 6/3", "down"}, seen)
}

// TestPeerKeepsForRestart: routes of a broken session stay if both sides can do
// graceful restart, and go with the next session if that does not keep them.
func TestPeerKeepsForRestart(t *testing.T) {
	p := NewPeer(t, PeerConfig{ASN: 64513, GracefulRestart: true})
	// Graceful restart of IPv4, without the F bit.
	graceful := wire(t, "0039 01 04 5ba0 005a c0000201 1c 021a 0104 0001 0001 0104 0002 0001 4104 fa56ea01 4006 0078 0001 01 00")
	conn, err := net.Dial("tcp", p.Addr().String())
	require.NoError(t, err)
	_, err = conn.Write(append(append(graceful, message(msgKeepalive, nil)...), wire(t, updateHex)...))
	require.NoError(t, err)
	p.WaitCount(t, 1)
	require.True(t, p.Open().GracefulRestart)
	require.Zero(t, p.Open().Forwarding)
	conn.Close()
	p.Wait(t, "down", func(v View) bool { return !v.Established() })
	require.Len(t, p.Routes(), 1, "the route is kept")
	speak(t, p)
	p.WaitCount(t, 0)
}

// TestPeerReportsNonsense keeps what an engine does wrong from going unseen.
func TestPeerReportsNonsense(t *testing.T) {
	rec := &recorder{TB: t}
	p := NewPeer(rec, PeerConfig{ASN: 64513})
	conn := speak(t, p)
	_, err := conn.Write(message(msgUpdate, []byte{0, 0, 0, 1}))
	require.NoError(t, err)
	p.Wait(t, "closed", func(v View) bool { return !v.Established() })
	for _, f := range rec.cleanups {
		f()
	}
	require.Len(t, rec.errors, 1)
	assert.Contains(t, rec.errors[0], "UPDATE is short")
}

type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// What a speaker says of itself. In a test the first argument is its testing.TB.
func ExamplePeer_Events() {
	t := &recorder{}
	router := NewPeer(t, PeerConfig{ASN: 64513})
	conn, err := net.Dial("tcp", router.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	open, _ := hex.DecodeString(strings.Repeat("ff", 16) + strings.ReplaceAll(openHex, " ", ""))
	_, _ = conn.Write(append(open, message(msgKeepalive, nil)...))
	router.WaitEstablished(t)
	fmt.Println(router.Open().ASN, router.Open().Families)
	conn.Close()
	for _, f := range t.cleanups {
		f()
	}
	// Output: 4200000001 ipv4,ipv6
}
