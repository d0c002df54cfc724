package bgp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/heraldlb/herald/bgp"
)

func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func good() bgp.Peer {
	return bgp.Peer{Name: "tor", LocalASN: 64512, PeerASN: 64513, Addr: addr("192.0.2.1")}
}

func TestPeerValidate(t *testing.T) {
	second := time.Second
	tests := []struct {
		name  string
		edit  func(*bgp.Peer)
		field string // empty: valid
	}{
		{"as it is", func(*bgp.Peer) {}, ""},
		{"no name", func(p *bgp.Peer) { p.Name = "" }, "Name"},
		{"no local AS", func(p *bgp.Peer) { p.LocalASN = 0 }, "LocalASN"},
		{"no peer AS", func(p *bgp.Peer) { p.PeerASN = 0 }, "PeerASN"},
		{"peer AS and dynamic", func(p *bgp.Peer) { p.Dynamic = bgp.External }, "PeerASN"},
		{"external", func(p *bgp.Peer) { p.PeerASN, p.Dynamic = 0, bgp.External }, ""},
		{"internal", func(p *bgp.Peer) { p.PeerASN, p.Dynamic = 0, bgp.Internal }, ""},
		{"unknown word", func(p *bgp.Peer) { p.PeerASN, p.Dynamic = 0, "both" }, "Dynamic"},
		{"four octets", func(p *bgp.Peer) { p.LocalASN, p.PeerASN = 4200000001, 4294967295 }, ""},
		{"multihop", func(p *bgp.Peer) { p.EBGPMultihop = true }, ""},
		{"multihop inside", func(p *bgp.Peer) { p.EBGPMultihop, p.PeerASN = true, 64512 }, "EBGPMultihop"},
		{"multihop inside by local AS", func(p *bgp.Peer) { p.EBGPMultihop, p.LocalASNOverride = true, 64513 }, "EBGPMultihop"},
		{"multihop dynamic inside", func(p *bgp.Peer) { p.EBGPMultihop, p.PeerASN, p.Dynamic = true, 0, bgp.Internal }, ""},

		{"no address", func(p *bgp.Peer) { p.Addr = netip.Addr{} }, "Addr"},
		{"interface", func(p *bgp.Peer) { p.Addr, p.Interface = netip.Addr{}, "eth1" }, ""},
		{"both", func(p *bgp.Peer) { p.Interface = "eth1" }, "Interface"},
		{"bad interface", func(p *bgp.Peer) { p.Addr, p.Interface = netip.Addr{}, "a/b" }, "Interface"},
		{"long interface", func(p *bgp.Peer) { p.Addr, p.Interface = netip.Addr{}, "abcdefghijklmnop" }, "Interface"},
		{"dots", func(p *bgp.Peer) { p.VRF = ".." }, "VRF"},
		{"vrf", func(p *bgp.Peer) { p.VRF = "blue" }, ""},
		{"zone", func(p *bgp.Peer) { p.Addr = addr("fe80::1%eth0") }, ""},
		{"link-local without", func(p *bgp.Peer) { p.Addr = addr("fe80::1") }, ""},
		{"zone of a global one", func(p *bgp.Peer) { p.Addr = addr("2001:db8::1%eth0") }, "Addr"},
		{"unspecified", func(p *bgp.Peer) { p.Addr = addr("0.0.0.0") }, "Addr"},
		{"multicast", func(p *bgp.Peer) { p.Addr = addr("ff02::1") }, "Addr"},
		{"mapped", func(p *bgp.Peer) { p.Addr = addr("::ffff:192.0.2.1") }, "Addr"},
		{"source", func(p *bgp.Peer) { p.Source = addr("192.0.2.7") }, ""},
		{"source of the other family", func(p *bgp.Peer) { p.Source = addr("2001:db8::7") }, ""},
		{"bad source", func(p *bgp.Peer) { p.Source = addr("::") }, "Source"},

		{"hold 0", func(p *bgp.Peer) { p.HoldTime = new(0 * second) }, ""},
		{"hold 1", func(p *bgp.Peer) { p.HoldTime = new(second) }, "HoldTime"},
		{"hold 2", func(p *bgp.Peer) { p.HoldTime = new(2 * second) }, "HoldTime"},
		{"hold 3", func(p *bgp.Peer) { p.HoldTime = new(3 * second) }, ""},
		{"hold 65535", func(p *bgp.Peer) { p.HoldTime = new(65535 * second) }, ""},
		{"hold 70000", func(p *bgp.Peer) { p.HoldTime = new(70000 * second) }, "HoldTime"},
		{"hold negative", func(p *bgp.Peer) { p.HoldTime = new(-9 * second) }, "HoldTime"},
		{"hold of fractions", func(p *bgp.Peer) { p.HoldTime = new(3500 * time.Millisecond) }, "HoldTime"},
		{"keepalive of fractions", func(p *bgp.Peer) { p.KeepaliveTime = new(900 * time.Millisecond) }, "KeepaliveTime"},
		{"keepalive alone", func(p *bgp.Peer) { p.KeepaliveTime = new(5 * second) }, ""},
		{"keepalive alone, too long", func(p *bgp.Peer) { p.KeepaliveTime = new(30000 * second) }, "KeepaliveTime"},
		{"keepalive negative", func(p *bgp.Peer) { p.KeepaliveTime = new(-second) }, "KeepaliveTime"},
		{"equal", func(p *bgp.Peer) { p.HoldTime, p.KeepaliveTime = new(9*second), new(9*second) }, ""},
		{"keepalive over hold", func(p *bgp.Peer) { p.HoldTime, p.KeepaliveTime = new(15*second), new(20*second) }, "KeepaliveTime"},
		{"keepalive without hold", func(p *bgp.Peer) { p.HoldTime, p.KeepaliveTime = new(0*second), new(10*second) }, "KeepaliveTime"},
		{"both 0", func(p *bgp.Peer) { p.HoldTime, p.KeepaliveTime = new(0*second), new(0*second) }, ""},
		{"connect 0", func(p *bgp.Peer) { p.ConnectRetry = new(0 * second) }, "ConnectRetry"},
		{"connect 65536", func(p *bgp.Peer) { p.ConnectRetry = new(65536 * second) }, "ConnectRetry"},
		{"connect", func(p *bgp.Peer) { p.ConnectRetry = new(7 * second) }, ""},
		{"restart", func(p *bgp.Peer) { p.RestartTime = 4095 * second }, ""},
		{"long restart", func(p *bgp.Peer) { p.RestartTime = 4096 * second }, "RestartTime"},
		{"restart of fractions", func(p *bgp.Peer) { p.RestartTime = time.Millisecond }, "RestartTime"},

		{"password of 80", func(p *bgp.Peer) { p.Password = bgp.Secret(strings.Repeat("x", 80)) }, ""},
		{"password of 81", func(p *bgp.Peer) { p.Password = bgp.Secret(strings.Repeat("x", 81)) }, "Password"},
		{"two passwords", func(p *bgp.Peer) { p.Password, p.PasswordFile = "x", "/etc/x" }, "PasswordFile"},
		{"password file", func(p *bgp.Peer) { p.PasswordFile = "/etc/x" }, ""},

		{"router ID", func(p *bgp.Peer) { p.RouterID = addr("10.9.9.9") }, ""},
		{"router ID 0", func(p *bgp.Peer) { p.RouterID = addr("0.0.0.0") }, "RouterID"},
		{"router ID of loopback", func(p *bgp.Peer) { p.RouterID = addr("127.0.0.1") }, "RouterID"},
		{"router ID multicast", func(p *bgp.Peer) { p.RouterID = addr("224.0.0.1") }, "RouterID"},
		{"router ID of IPv6", func(p *bgp.Peer) { p.RouterID = addr("2001:db8::1") }, "RouterID"},
		{"families", func(p *bgp.Peer) { p.Families = bgp.IPv4 | bgp.IPv6 }, ""},
		{"unknown family", func(p *bgp.Peer) { p.Families = 4 }, "Families"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := good()
			tt.edit(&p)
			err := p.Validate()
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			faults := bgp.PeerErrors(err)
			require.Len(t, faults, 1, "%v", err)
			assert.Equal(t, tt.field, faults[0].Field)
			assert.Equal(t, p.Name, faults[0].Peer)
			assert.ErrorIs(t, err, bgp.ErrInvalid)
			assert.NotContains(t, err.Error(), "xxxxx", "the password")
		})
	}
}

func TestPeerValidateNamesEveryFault(t *testing.T) {
	p := bgp.Peer{Name: "x", Dynamic: "y", HoldTime: new(time.Second)}
	var fields []string
	for _, f := range bgp.PeerErrors(fmt.Errorf("config: %w", p.Validate())) {
		fields = append(fields, f.Field)
	}
	assert.Equal(t, []string{"LocalASN"}, fields[:1])
	fields = nil
	for _, f := range bgp.PeerErrors(p.Validate()) {
		fields = append(fields, f.Field)
	}
	assert.Equal(t, []string{"LocalASN", "Dynamic", "Addr", "HoldTime"}, fields)
}

func TestEffectiveTimers(t *testing.T) {
	tests := []struct {
		hold, keepalive         *time.Duration
		wantHold, wantKeepalive time.Duration
	}{
		{nil, nil, 90 * time.Second, 30 * time.Second},
		{new(time.Minute), nil, time.Minute, 20 * time.Second},
		{nil, new(5 * time.Second), 15 * time.Second, 5 * time.Second},
		{new(90 * time.Second), new(time.Second), 90 * time.Second, time.Second},
		{new(90 * time.Second), new(time.Duration(0)), 90 * time.Second, 30 * time.Second},
		{new(time.Duration(0)), nil, 0, 0},
		{nil, new(time.Duration(0)), 0, 0},
	}
	for _, tt := range tests {
		p := bgp.Peer{HoldTime: tt.hold, KeepaliveTime: tt.keepalive}
		hold, keepalive := p.EffectiveTimers()
		assert.Equal(t, tt.wantHold, hold)
		assert.Equal(t, tt.wantKeepalive, keepalive)
	}
}

func TestPeerDefaults(t *testing.T) {
	p := good()
	assert.Equal(t, uint16(179), p.EffectivePort())
	assert.Equal(t, uint16(179), p.EffectiveListenPort())
	assert.Equal(t, 2*time.Minute, p.EffectiveRestartTime())
	assert.Equal(t, bgp.IPv4, p.EffectiveFamilies())
	assert.Equal(t, uint32(64512), p.ASN())
	assert.False(t, p.IsInternal())
	assert.Equal(t, "192.0.2.1:179", p.Endpoint())
	p.Addr, p.Port, p.VRF = addr("2001:db8::1"), 1790, "blue"
	assert.Equal(t, bgp.IPv6, p.EffectiveFamilies())
	assert.Equal(t, "[2001:db8::1]:1790 in blue", p.Endpoint())
	p.LocalASNOverride = 64513
	assert.True(t, p.IsInternal())
	p = bgp.Peer{Interface: "eth1", Dynamic: bgp.Internal}
	assert.Equal(t, bgp.IPv4|bgp.IPv6, p.EffectiveFamilies())
	assert.Equal(t, "ipv4,ipv6", p.EffectiveFamilies().String())
	assert.Equal(t, "eth1", p.Endpoint())
	assert.True(t, p.IsInternal())
}

func TestPeerEqual(t *testing.T) {
	a, b := good(), good()
	a.HoldTime, b.HoldTime = new(time.Minute), new(time.Minute)
	assert.True(t, a.Equal(&b))
	assert.NotNil(t, a.HoldTime, "Equal changed its argument")
	b.HoldTime = new(time.Hour)
	assert.False(t, a.Equal(&b))
	b.HoldTime = nil
	assert.False(t, a.Equal(&b))
	b = a
	b.Password = "x"
	assert.False(t, a.Equal(&b))
}

func TestSecretIsNeverSeen(t *testing.T) {
	p := good()
	p.Password = "hunter2"
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "peer", p, "password", p.Password)
	text := slog.New(slog.NewTextHandler(&log, nil))
	text.Info("x", "peer", p, "password", p.Password)
	data, err := json.Marshal(p)
	require.NoError(t, err)
	for _, seen := range []string{
		log.String(), string(data), fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s %q %x", p, p, p, p.Password, p.Password, p.Password), p.Password.String(),
	} {
		assert.NotContains(t, seen, "hunter2")
		assert.NotContains(t, seen, "68756e74657232")
	}
	assert.Contains(t, log.String(), "192.0.2.1:179")
}

func TestValidatePeers(t *testing.T) {
	a, b, c, d := good(), good(), good(), good()
	b.Name, b.Addr = "b", addr("192.0.2.2")
	c.Name = "another" // the endpoint of tor, and first by name
	d.Name, d.Source = "d", addr("192.0.2.9")
	bad := good()
	bad.Name, bad.LocalASN = "bad", 0
	twin := b
	twin.Addr = addr("192.0.2.3")
	got, faults := bgp.ValidatePeers([]bgp.Peer{a, b, c, d, bad, twin})
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"another", "b", "d"}, names)
	require.Len(t, faults, 3)
	assert.Equal(t, "b", faults[0].Peer)
	assert.Equal(t, "Name", faults[0].Field)
	assert.Equal(t, "bad", faults[1].Peer)
	assert.Equal(t, "tor", faults[2].Peer)
	assert.Contains(t, faults[2].Error(), `"another"`)
	in := c
	in.VRF = "blue"
	got, faults = bgp.ValidatePeers([]bgp.Peer{a, in})
	assert.Len(t, got, 2)
	assert.Empty(t, faults)
}

func TestRouterID(t *testing.T) {
	assert.Equal(t, addr("192.0.2.5"), bgp.RouterID("n1", addr("192.0.2.5")))
	assert.Equal(t, addr("192.0.2.5"), bgp.RouterID("n1", addr("::ffff:192.0.2.5")))
	hashed := bgp.RouterID("n1", netip.Addr{})
	for _, unusable := range []string{"127.0.0.1", "0.0.0.0", "2001:db8::1"} {
		assert.Equal(t, hashed, bgp.RouterID("n1", addr(unusable)))
	}
	assert.Equal(t, addr("200.231.38.125"), hashed, "a node must keep its identifier from release to release")
}

func TestRouterIDIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := bgp.RouterID(rapid.String().Draw(t, "node"), netip.Addr{})
		if err := bgp.CheckRouterID(id); err != nil {
			t.Fatal(id, err)
		}
	})
	var nodes []string
	for i := range 5000 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	hashed := func(node string) netip.Addr { return bgp.RouterID(node, netip.Addr{}) }
	assert.Empty(t, bgp.DuplicateRouterIDs(nodes, hashed))
	assert.Equal(t, map[netip.Addr][]string{addr("192.0.2.1"): {"a", "c"}}, bgp.DuplicateRouterIDs([]string{"a", "b", "c"}, func(n string) netip.Addr {
		if n == "b" {
			return addr("192.0.2.2")
		}
		return addr("192.0.2.1")
	}))
}

func TestPeerErrorsOfOthers(t *testing.T) {
	assert.Empty(t, bgp.PeerErrors(nil))
	assert.Empty(t, bgp.PeerErrors(errors.New("x")))
}
