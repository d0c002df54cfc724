package membership_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/membership"
)

// TestProfiles holds the values of MetalLB.
func TestProfiles(t *testing.T) {
	lan := membership.Profile{
		TCPTimeout: 10 * time.Second, IndirectChecks: 3, RetransmitMult: 4, SuspicionMult: 4, SuspicionMaxTimeoutMult: 6,
		PushPullInterval: 30 * time.Second, ProbeTimeout: 500 * time.Millisecond, ProbeInterval: time.Second,
		DisableTCPPings: false, AwarenessMaxMultiplier: 8, GossipNodes: 3, GossipInterval: 200 * time.Millisecond,
		GossipToTheDeadTime: 30 * time.Second, GossipVerifyIncoming: true, GossipVerifyOutgoing: true, EnableCompression: true,
		HandoffQueueDepth: 1024, UDPBufferSize: 1400, QueueCheckInterval: 30 * time.Second,
	}
	wan := lan
	wan.TCPTimeout, wan.SuspicionMult, wan.PushPullInterval = 30*time.Second, 6, 60*time.Second
	wan.ProbeTimeout, wan.ProbeInterval = 3*time.Second, 5*time.Second
	wan.GossipNodes, wan.GossipInterval, wan.GossipToTheDeadTime = 4, 500*time.Millisecond, 60*time.Second
	assert.Equal(t, lan, membership.LAN())
	assert.Equal(t, wan, membership.WAN())
	assert.NoError(t, lan.Validate())
	assert.NoError(t, wan.Validate())
}

// completeFile has every key, each with a value that is no default.
const completeFile = `{
	"TCPTimeout": "11s", "IndirectChecks": 1, "RetransmitMult": 2, "SuspicionMult": 3, "SuspicionMaxTimeoutMult": 5,
	"PushPullInterval": "0s", "ProbeTimeout": "250ms", "ProbeInterval": "900ms", "DisableTcpPings": true,
	"AwarenessMaxMultiplier": 7, "GossipNodes": 0, "GossipInterval": "150ms", "GossipToTheDeadTime": "1m30s",
	"GossipVerifyIncoming": false, "GossipVerifyOutgoing": false, "EnableCompression": false,
	"HandoffQueueDepth": 10, "UDPBufferSize": 1300, "QueueCheckInterval": "12s"
}`

func TestParseProfileComplete(t *testing.T) {
	want := membership.Profile{
		TCPTimeout: 11 * time.Second, IndirectChecks: 1, RetransmitMult: 2, SuspicionMult: 3, SuspicionMaxTimeoutMult: 5,
		PushPullInterval: 0, ProbeTimeout: 250 * time.Millisecond, ProbeInterval: 900 * time.Millisecond, DisableTCPPings: true,
		AwarenessMaxMultiplier: 7, GossipNodes: 0, GossipInterval: 150 * time.Millisecond, GossipToTheDeadTime: 90 * time.Second,
		HandoffQueueDepth: 10, UDPBufferSize: 1300, QueueCheckInterval: 12 * time.Second,
	}
	for name, base := range map[string]membership.Profile{"lan": membership.LAN(), "wan": membership.WAN(), "zero": {}} {
		got, err := membership.ParseProfile(base, []byte(completeFile))
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(completeFile), &keys))
	assert.Len(t, keys, 19)
}

// TestParseProfileOneKey: each key alone changes one field and leaves the base
// alone.
func TestParseProfileOneKey(t *testing.T) {
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(completeFile), &keys))
	for key, value := range keys {
		t.Run(key, func(t *testing.T) {
			file := []byte(`{"` + key + `": ` + string(value) + `}`)
			got, err := membership.ParseProfile(membership.WAN(), file)
			require.NoError(t, err)
			assert.NotEqual(t, membership.WAN(), got)
			again, err := membership.ParseProfile(got, []byte(completeFile))
			require.NoError(t, err)
			complete, err := membership.ParseProfile(membership.LAN(), []byte(completeFile))
			require.NoError(t, err)
			assert.Equal(t, complete, again)
		})
	}
}

func TestParseProfile(t *testing.T) {
	wanSlow := membership.WAN()
	wanSlow.ProbeInterval = 10 * time.Second
	tests := []struct {
		name string
		base membership.Profile
		in   string
		want membership.Profile
		errs []string
	}{
		{name: "empty object keeps the base", base: membership.WAN(), in: `{}`, want: membership.WAN()},
		{name: "zero base is LAN", in: ` {} `, want: membership.LAN()},
		{name: "file over base", base: membership.WAN(), in: `{"ProbeInterval":"10s"}`, want: wanSlow},
		{name: "unknown keys are named, all of them", in: `{"Zeal": 1, "BindPort": 1}`, errs: []string{`unknown key "Zeal"`, `unknown key "BindPort"`}},
		{name: "spelling", in: `{"probeInterval": "1s"}`, errs: []string{`unknown key "probeInterval" (the key is spelled "ProbeInterval")`}},
		{name: "duration without unit", in: `{"ProbeTimeout": "5"}`, errs: []string{"ProbeTimeout", "missing unit"}},
		{name: "duration as a number", in: `{"ProbeTimeout": 5}`, errs: []string{"ProbeTimeout", "5 is not a duration in quotes"}},
		{name: "number as a string", in: `{"GossipNodes": "3"}`, errs: []string{"GossipNodes"}},
		{name: "broken number", in: `{"GossipNodes": 3.5}`, errs: []string{"GossipNodes"}},
		{name: "boolean as a number", in: `{"EnableCompression": 1}`, errs: []string{"EnableCompression"}},
		{name: "null", in: `{"GossipNodes": null}`, errs: []string{"GossipNodes: null is not a value"}},
		{name: "several faults", in: `{"A": 1, "GossipNodes": "x", "ProbeTimeout": ""}`, errs: []string{`"A"`, "GossipNodes", "ProbeTimeout"}},
		{name: "value that cannot work", in: `{"ProbeInterval": "0s", "UDPBufferSize": 512}`, errs: []string{"ProbeInterval is 0s, must be above 0", "UDPBufferSize is 512, must be between 1024 and 65535"}},
		{name: "twice", in: `{"GossipNodes": 3, "GossipNodes": 4}`, errs: []string{`key "GossipNodes" occurs twice`}},
		{name: "nothing", in: ``, errs: []string{"not a JSON object"}},
		{name: "a list", in: `[]`, errs: []string{"not a JSON object"}},
		{name: "cut off", in: `{"GossipNodes": 3`, errs: []string{"membership: profile: "}},
		{name: "cut off in a value", in: `{"GossipNodes": `, errs: []string{"GossipNodes"}},
		{name: "rubbish behind", in: `{} x`, errs: []string{"text after the JSON object"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := membership.ParseProfile(tt.base, []byte(tt.in))
			if len(tt.errs) == 0 {
				require.NoError(t, err)
				assert.Equal(t, tt.want, got)
				return
			}
			require.Error(t, err)
			assert.Zero(t, got)
			for _, want := range tt.errs {
				assert.Contains(t, err.Error(), want)
			}
		})
	}
}

func TestProfileValidate(t *testing.T) {
	err := membership.Profile{
		IndirectChecks: -1, PushPullInterval: -1, GossipNodes: -1, GossipInterval: -1, GossipToTheDeadTime: -1, UDPBufferSize: 70000,
	}.Validate()
	require.Error(t, err)
	for _, key := range []string{
		"TCPTimeout", "IndirectChecks", "RetransmitMult", "SuspicionMult", "SuspicionMaxTimeoutMult", "PushPullInterval",
		"ProbeTimeout", "ProbeInterval", "AwarenessMaxMultiplier", "GossipNodes", "GossipInterval", "GossipToTheDeadTime",
		"HandoffQueueDepth", "UDPBufferSize", "QueueCheckInterval",
	} {
		assert.ErrorContains(t, err, key+" is ")
	}
}

func TestFastIsValidAndFaster(t *testing.T) {
	fast, lan := membership.Fast(), membership.LAN()
	require.NoError(t, fast.Validate())
	assert.Less(t, fast.ProbeTimeout, fast.ProbeInterval)
	noticed := func(p membership.Profile) time.Duration {
		return 2*p.ProbeInterval + time.Duration(p.SuspicionMult)*p.ProbeInterval
	}
	assert.LessOrEqual(t, noticed(fast), time.Second)
	assert.Greater(t, noticed(lan), 5*time.Second)
}
