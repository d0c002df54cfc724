package membership

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// Profile is the set of protocol parameters that MetalLB lets its users set.
// All members of a cluster should use the same. Begin with [LAN] or [WAN]: the
// zero value stands for LAN, anything else must be complete.
type Profile struct {
	// TCPTimeout bounds connecting, reading and writing of a full state sync.
	TCPTimeout time.Duration
	// IndirectChecks is how many others are asked to probe a member that does
	// not answer.
	IndirectChecks int
	// RetransmitMult times log10(members+1) is how often news is sent.
	RetransmitMult int
	// SuspicionMult times max(1, log10(members)) times ProbeInterval is how long
	// a suspected member has to speak up, at the least.
	SuspicionMult int
	// SuspicionMaxTimeoutMult times that is how long it has at the most.
	SuspicionMaxTimeoutMult int
	// PushPullInterval is the time between full state syncs, 0 for none.
	PushPullInterval time.Duration
	// ProbeTimeout is how long the answer to a direct probe may take.
	ProbeTimeout time.Duration
	// ProbeInterval is the time between probes (of one member at a time).
	ProbeInterval time.Duration
	// DisableTCPPings turns off the probe over TCP that follows a failed one.
	DisableTCPPings bool
	// AwarenessMaxMultiplier limits how far a node that has reason to doubt
	// itself slows down its probes.
	AwarenessMaxMultiplier int
	// GossipNodes is to how many members news is sent at a time.
	GossipNodes int
	// GossipInterval is the time between such sends, 0 for news that travels on
	// probes only.
	GossipInterval time.Duration
	// GossipToTheDeadTime is how long the dead are remembered and still told
	// what is said of them.
	GossipToTheDeadTime time.Duration
	// GossipVerifyIncoming refuses traffic that is not encrypted (if there are
	// keys). Off only while a cluster moves to encryption.
	GossipVerifyIncoming bool
	// GossipVerifyOutgoing encrypts what is sent (if there are keys). Off only
	// while a cluster moves to encryption.
	GossipVerifyOutgoing bool
	// EnableCompression compresses messages.
	EnableCompression bool
	// HandoffQueueDepth is how many received messages may wait.
	HandoffQueueDepth int
	// UDPBufferSize is the largest packet sent, in octets.
	UDPBufferSize int
	// QueueCheckInterval is the time between measurements of the send queue.
	QueueCheckInterval time.Duration
}

// LAN is the default profile, memberlist's and MetalLB's: a crash is noticed
// in about six seconds by up to ten members.
func LAN() Profile { return profileOf(memberlist.DefaultLANConfig()) }

// WAN is the profile for members that are far from each other, what MetalLB's
// --ml-wan-config chooses.
func WAN() Profile { return profileOf(memberlist.DefaultWANConfig()) }

// Fast is the profile for members on one LAN that must replace each other in about
// a second: five probes a second, and a suspected member has 0.4 s to speak up
// (up to ten members). A member whose process is stalled for that long is taken
// for dead, so whoever acts on it should ask the wire first; the traffic is five
// times that of LAN. All members must use it.
func Fast() Profile {
	p := LAN()
	p.ProbeInterval = 200 * time.Millisecond
	p.ProbeTimeout = 150 * time.Millisecond
	p.SuspicionMult = 2
	p.SuspicionMaxTimeoutMult = 2
	p.GossipInterval = 50 * time.Millisecond
	p.TCPTimeout = 2 * time.Second
	return p
}

func profileOf(c *memberlist.Config) Profile {
	return Profile{
		TCPTimeout:              c.TCPTimeout,
		IndirectChecks:          c.IndirectChecks,
		RetransmitMult:          c.RetransmitMult,
		SuspicionMult:           c.SuspicionMult,
		SuspicionMaxTimeoutMult: c.SuspicionMaxTimeoutMult,
		PushPullInterval:        c.PushPullInterval,
		ProbeTimeout:            c.ProbeTimeout,
		ProbeInterval:           c.ProbeInterval,
		DisableTCPPings:         c.DisableTcpPings,
		AwarenessMaxMultiplier:  c.AwarenessMaxMultiplier,
		GossipNodes:             c.GossipNodes,
		GossipInterval:          c.GossipInterval,
		GossipToTheDeadTime:     c.GossipToTheDeadTime,
		GossipVerifyIncoming:    c.GossipVerifyIncoming,
		GossipVerifyOutgoing:    c.GossipVerifyOutgoing,
		EnableCompression:       c.EnableCompression,
		HandoffQueueDepth:       c.HandoffQueueDepth,
		UDPBufferSize:           c.UDPBufferSize,
		QueueCheckInterval:      c.QueueCheckInterval,
	}
}

// apply writes the profile into memberlist's configuration.
func (p Profile) apply(c *memberlist.Config) {
	c.TCPTimeout = p.TCPTimeout
	c.IndirectChecks = p.IndirectChecks
	c.RetransmitMult = p.RetransmitMult
	c.SuspicionMult = p.SuspicionMult
	c.SuspicionMaxTimeoutMult = p.SuspicionMaxTimeoutMult
	c.PushPullInterval = p.PushPullInterval
	c.ProbeTimeout = p.ProbeTimeout
	c.ProbeInterval = p.ProbeInterval
	c.DisableTcpPings = p.DisableTCPPings
	c.AwarenessMaxMultiplier = p.AwarenessMaxMultiplier
	c.GossipNodes = p.GossipNodes
	c.GossipInterval = p.GossipInterval
	c.GossipToTheDeadTime = p.GossipToTheDeadTime
	c.GossipVerifyIncoming = p.GossipVerifyIncoming
	c.GossipVerifyOutgoing = p.GossipVerifyOutgoing
	c.EnableCompression = p.EnableCompression
	c.HandoffQueueDepth = p.HandoffQueueDepth
	c.UDPBufferSize = p.UDPBufferSize
	c.QueueCheckInterval = p.QueueCheckInterval
}

// fields maps the keys of MetalLB's file to the fields of p.
func (p *Profile) fields() map[string]any {
	return map[string]any{
		"TCPTimeout":              &p.TCPTimeout,
		"IndirectChecks":          &p.IndirectChecks,
		"RetransmitMult":          &p.RetransmitMult,
		"SuspicionMult":           &p.SuspicionMult,
		"SuspicionMaxTimeoutMult": &p.SuspicionMaxTimeoutMult,
		"PushPullInterval":        &p.PushPullInterval,
		"ProbeTimeout":            &p.ProbeTimeout,
		"ProbeInterval":           &p.ProbeInterval,
		"DisableTcpPings":         &p.DisableTCPPings,
		"AwarenessMaxMultiplier":  &p.AwarenessMaxMultiplier,
		"GossipNodes":             &p.GossipNodes,
		"GossipInterval":          &p.GossipInterval,
		"GossipToTheDeadTime":     &p.GossipToTheDeadTime,
		"GossipVerifyIncoming":    &p.GossipVerifyIncoming,
		"GossipVerifyOutgoing":    &p.GossipVerifyOutgoing,
		"EnableCompression":       &p.EnableCompression,
		"HandoffQueueDepth":       &p.HandoffQueueDepth,
		"UDPBufferSize":           &p.UDPBufferSize,
		"QueueCheckInterval":      &p.QueueCheckInterval,
	}
}

// minUDPBuffer leaves room for the largest description of a member in one
// packet (512 octets, a name of 253, addresses, encryption).
const minUDPBuffer = 1024

// Validate reports every value with which the protocol cannot work.
func (p Profile) Validate() error {
	var errs []error
	fault := func(bad bool, key string, value any, rule string) {
		if bad {
			errs = append(errs, fmt.Errorf("%s is %v, must be %s", key, value, rule))
		}
	}
	fault(p.TCPTimeout <= 0, "TCPTimeout", p.TCPTimeout, "above 0")
	fault(p.IndirectChecks < 0, "IndirectChecks", p.IndirectChecks, "0 or more")
	fault(p.RetransmitMult < 1, "RetransmitMult", p.RetransmitMult, "1 or more")
	fault(p.SuspicionMult < 1, "SuspicionMult", p.SuspicionMult, "1 or more")
	fault(p.SuspicionMaxTimeoutMult < 1, "SuspicionMaxTimeoutMult", p.SuspicionMaxTimeoutMult, "1 or more")
	fault(p.PushPullInterval < 0, "PushPullInterval", p.PushPullInterval, "0 or more")
	fault(p.ProbeTimeout <= 0, "ProbeTimeout", p.ProbeTimeout, "above 0")
	fault(p.ProbeInterval <= 0, "ProbeInterval", p.ProbeInterval, "above 0")
	fault(p.AwarenessMaxMultiplier < 1, "AwarenessMaxMultiplier", p.AwarenessMaxMultiplier, "1 or more")
	fault(p.GossipNodes < 0, "GossipNodes", p.GossipNodes, "0 or more")
	fault(p.GossipInterval < 0, "GossipInterval", p.GossipInterval, "0 or more")
	fault(p.GossipToTheDeadTime < 0, "GossipToTheDeadTime", p.GossipToTheDeadTime, "0 or more")
	fault(p.HandoffQueueDepth < 1, "HandoffQueueDepth", p.HandoffQueueDepth, "1 or more")
	fault(p.UDPBufferSize < minUDPBuffer || p.UDPBufferSize > 65535, "UDPBufferSize", p.UDPBufferSize,
		fmt.Sprintf("between %d and 65535", minUDPBuffer))
	fault(p.QueueCheckInterval <= 0, "QueueCheckInterval", p.QueueCheckInterval, "above 0")
	return errors.Join(errs...)
}

// ParseProfile reads a file in the format of MetalLB's
// /etc/metallb/memberlist/config.json over base: a JSON object with the keys
// that MetalLB knows, durations as Go writes them ("500ms"). A key that is
// absent keeps the value of base (in MetalLB it becomes zero, or an error). All
// faults are reported together: unknown keys by name, wrong types, values that
// cannot work.
func ParseProfile(base Profile, data []byte) (Profile, error) {
	raw, err := decodeObject(data)
	if err != nil {
		return Profile{}, fmt.Errorf("membership: profile: %w", err)
	}
	if base == (Profile{}) {
		base = LAN()
	}
	p := base
	fields := p.fields()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		field, ok := fields[key]
		if !ok {
			errs = append(errs, unknownKey(key, fields))
			continue
		}
		if err := decodeField(field, raw[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, p.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return Profile{}, fmt.Errorf("membership: profile: %w", err)
	}
	return p, nil
}

// decodeObject splits a JSON object into its members. A key that occurs twice
// is an error, because nobody can tell which of the two was meant.
func decodeObject(data []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	} else if token != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: begins with %v", token)
	}
	raw := make(map[string]json.RawMessage)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder allows nothing else here
		if _, ok := raw[key]; ok {
			return nil, fmt.Errorf("key %q occurs twice", key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		raw[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return raw, nil
}

func unknownKey(key string, fields map[string]any) error {
	for known := range fields {
		if strings.EqualFold(known, key) {
			return fmt.Errorf("unknown key %q (the key is spelled %q)", key, known)
		}
	}
	return fmt.Errorf("unknown key %q", key)
}

func decodeField(field any, value json.RawMessage) error {
	if bytes.Equal(value, []byte("null")) {
		return errors.New("null is not a value; leave the key out to keep its default")
	}
	d, ok := field.(*time.Duration)
	if !ok {
		return json.Unmarshal(value, field)
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return fmt.Errorf("%s is not a duration in quotes, such as \"500ms\"", value)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
