package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// passwordKey is where a Secret of type kubernetes.io/basic-auth has the password.
const passwordKey = corev1.BasicAuthPasswordKey

// BGPPeer is a peer in force: complete, with its password. It is held by no session until a node has it, see
// [Config.PeersFor].
type BGPPeer struct {
	Name string

	obj   *v1beta2.BGPPeer
	nodes []labelSelector
	peer  bgp.Peer // without a router ID, unless it is explicit
}

// MatchesNode says whether a node with these labels has a session with the peer.
func (p BGPPeer) MatchesNode(labels map[string]string) bool {
	return len(p.nodes) == 0 || matchesAny(p.nodes, labels)
}

// peerVersion is one version of a BGPPeer that is good in itself.
type peerVersion struct {
	uid    types.UID
	nodes  []labelSelector
	peer   bgp.Peer // without the password of a Secret
	secret string
}

// PeersFor returns the sessions that a node has, sorted by name. Peers without a router ID get the IPv4 address of the
// node, or else a hash of its name. Rejected are those that cannot be together on this node: of two peers with one
// address the first by name stays. A node that is not known has no session.
func (c Config) PeersFor(node *corev1.Node) (peers []bgp.Peer, rejected []Rejection) {
	if node == nil {
		return nil, nil
	}
	id := bgp.RouterID(node.Name, internalIPv4(node))
	var here []bgp.Peer
	for _, p := range c.Peers {
		if p.MatchesNode(node.Labels) {
			peer := p.peer
			if !peer.RouterID.IsValid() {
				peer.RouterID = id
			}
			here = append(here, peer)
		}
	}
	peers, found := bgp.ValidatePeers(here)
	return peers, c.RejectPeers(found, fmt.Sprintf("node %q has no session with it", node.Name))
}

// RejectPeers makes rejections of the faults that a check of peers has found. The effect says what becomes of them.
func (c Config) RejectPeers(found []*bgp.PeerError, effect string) []Rejection {
	byPeer := make(map[string]faults)
	for _, e := range found {
		byPeer[e.Peer] = append(byPeer[e.Peer], peerFault(e))
	}
	var out []Rejection
	for _, p := range c.Peers {
		if bad := byPeer[p.Name]; len(bad) > 0 {
			out = append(out, Rejection{
				Kind: v1beta2.KindBGPPeer, Namespace: p.obj.Namespace, Name: p.Name, Object: p.obj, Err: bad.err(), effect: effect,
			})
		}
	}
	return out
}

// internalIPv4 is the first IPv4 address of the node, internal ones first.
func internalIPv4(node *corev1.Node) netip.Addr {
	var other netip.Addr
	for _, a := range node.Status.Addresses {
		addr, err := netip.ParseAddr(a.Address)
		switch {
		case err != nil || !addr.Unmap().Is4():
		case a.Type == corev1.NodeInternalIP:
			return addr.Unmap()
		case !other.IsValid():
			other = addr.Unmap()
		}
	}
	return other
}

// parsePeer checks one peer for itself.
func parsePeer(obj *v1beta2.BGPPeer) (*peerVersion, faults) {
	spec := &obj.Spec
	p := bgp.Peer{
		Name: obj.Name, LocalASN: spec.MyASN, LocalASNOverride: spec.LocalASN, PeerASN: spec.ASN,
		Dynamic: bgp.DynamicASN(spec.DynamicASN), Interface: spec.Interface, Port: spec.Port, VRF: spec.VRFName,
		EBGPMultihop: spec.EBGPMultiHop, Password: bgp.Secret(spec.Password), BFDProfile: spec.BFDProfile,
		HoldTime: duration(spec.HoldTime), KeepaliveTime: duration(spec.KeepaliveTime), ConnectRetry: duration(spec.ConnectTime),
		GracefulRestart: spec.EnableGracefulRestart,
	}
	if spec.DualStackAddressFamily {
		p.Families = bgp.IPv4 | bgp.IPv6
	}
	v := &peerVersion{uid: obj.UID, secret: spec.PasswordSecret.Name}
	bad := peerShape(obj)
	for _, a := range []struct {
		field, text string
		addr        *netip.Addr
	}{
		{"spec.peerAddress", spec.Address, &p.Addr}, {"spec.sourceAddress", spec.SrcAddress, &p.Source}, {"spec.routerID", spec.RouterID, &p.RouterID},
	} {
		if a.text == "" {
			continue
		}
		addr, err := netip.ParseAddr(a.text)
		if err != nil {
			bad = append(bad, &FieldError{Field: a.field, Value: a.text, Reason: "is not an IP address", Err: err})
		}
		*a.addr = addr.Unmap()
	}
	var f faults
	v.nodes, f = parseSelectors("spec.nodeSelectors", spec.NodeSelectors)
	bad = append(bad, f...)
	told := make(map[string]bool, len(bad))
	for _, err := range bad {
		if fe, ok := err.(*FieldError); ok { //nolint:errorlint // ours, as it was made
			told[fe.Field] = true
		}
	}
	for _, e := range bgp.PeerErrors(p.Validate()) {
		if fe := peerFault(e); !told[fe.Field] {
			bad = append(bad, fe)
		}
	}
	v.peer = p
	return v, bad
}

// peerShape checks which fields are there, in the words of the object.
func peerShape(obj *v1beta2.BGPPeer) faults {
	var bad faults
	fail := func(field, value, reason string) {
		bad = append(bad, &FieldError{Field: field, Value: value, Reason: reason})
	}
	spec := &obj.Spec
	if obj.Name == "" {
		fail("metadata.name", "", "is empty; give the peer a name")
	}
	if spec.MyASN == 0 {
		fail("spec.myASN", "0", "is no AS number; use 1 to 4294967295")
	}
	switch {
	case spec.ASN == 0 && spec.DynamicASN == "":
		fail("spec.peerASN", "0", "is no AS number; set it, or dynamicASN")
	case spec.ASN != 0 && spec.DynamicASN != "":
		fail("spec.peerASN", strconv.FormatUint(uint64(spec.ASN), 10), "excludes dynamicASN; set one of them")
	case spec.DynamicASN != "" && spec.DynamicASN != v1beta2.InternalASNMode && spec.DynamicASN != v1beta2.ExternalASNMode:
		fail("spec.dynamicASN", string(spec.DynamicASN), "must be internal or external")
	}
	switch {
	case spec.Address == "" && spec.Interface == "":
		fail("spec.peerAddress", "", "is empty; set it, or interface")
	case spec.Address != "" && spec.Interface != "":
		fail("spec.interface", spec.Interface, "excludes peerAddress; set one of them")
	}
	if spec.Port > 16384 {
		fail("spec.peerPort", strconv.Itoa(int(spec.Port)), "is outside 1 to 16384")
	}
	if spec.Password != "" && spec.PasswordSecret.Name != "" {
		fail("spec.passwordSecret", spec.PasswordSecret.Name, "excludes password; set one of them")
	}
	return bad
}

// peerFault is the fault of a peer in the words of the object.
func peerFault(e *bgp.PeerError) *FieldError {
	fields := map[string]string{
		"Name": "metadata.name", "LocalASN": "spec.myASN", "LocalASNOverride": "spec.localASN", "PeerASN": "spec.peerASN",
		"Dynamic": "spec.dynamicASN", "Addr": "spec.peerAddress", "Interface": "spec.interface", "Source": "spec.sourceAddress",
		"Port": "spec.peerPort", "VRF": "spec.vrf", "EBGPMultihop": "spec.ebgpMultiHop", "Password": "spec.password",
		"HoldTime": "spec.holdTime", "KeepaliveTime": "spec.keepaliveTime", "ConnectRetry": "spec.connectTime",
		"RouterID": "spec.routerID", "BFDProfile": "spec.bfdProfile", "Families": "spec.dualStackAddressFamily",
	}
	field, ok := fields[e.Field]
	if !ok {
		field = "spec." + strings.ToLower(e.Field[:1]) + e.Field[1:]
	}
	return &FieldError{Field: field, Value: e.Value, Reason: e.Reason, Err: e}
}

func duration(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}

// addPeers puts peers in force. One whose password or BFD profile is not to be had is held back: it is rejected, and there
// is no session with it, however good the rest of it is.
func (u *update) addPeers(objs []*v1beta2.BGPPeer, secrets []*corev1.Secret) {
	byName := make(map[string]*corev1.Secret, len(secrets))
	for _, s := range secrets {
		if s != nil {
			byName[s.Namespace+"/"+s.Name] = s
		}
	}
	u.store.peers = keepGood(u, v1beta2.KindBGPPeer, objs, u.store.peers, goodness[*v1beta2.BGPPeer, *peerVersion]{
		parse: parsePeer,
		use: func(obj *v1beta2.BGPPeer, v *peerVersion) {
			u.cfg.Warnings = append(u.cfg.Warnings, peerWarnings(obj)...)
			p := BGPPeer{Name: obj.Name, obj: obj, nodes: v.nodes, peer: v.peer}
			bad := u.checkProfile(v)
			if v.secret != "" {
				password, err := secretPassword(byName[obj.Namespace+"/"+v.secret], obj.Namespace, v.secret)
				if err != nil {
					bad = append(bad, err)
				}
				p.peer.Password = password
			}
			if len(bad) > 0 {
				u.reject(v1beta2.KindBGPPeer, obj, bad, false, "it is held back: there is no session with it until that is mended")
				return
			}
			u.cfg.Peers = append(u.cfg.Peers, p)
		},
		uid:  func(v *peerVersion) types.UID { return v.uid },
		lost: "no earlier version is known, and there is no session with it",
	})
}

func (u *update) checkProfile(v *peerVersion) faults {
	name := v.peer.BFDProfile
	if name == "" || slices.ContainsFunc(u.cfg.BFDProfiles, func(p BFDProfile) bool { return p.Name == name }) {
		return nil
	}
	return faults{&FieldError{Field: "spec.bfdProfile", Value: name, Other: name, Reason: "is the name of no good BFDProfile; create it"}}
}

// secretPassword returns the password in a Secret. The error holds nothing of it.
func secretPassword(s *corev1.Secret, namespace, name string) (bgp.Secret, error) {
	fail := func(reason string) error {
		return &FieldError{Field: "spec.passwordSecret.name", Value: name, Other: name, Reason: reason}
	}
	if s == nil || s.Type != corev1.SecretTypeBasicAuth {
		return "", fail(fmt.Sprintf("is the name of no Secret of type %s in namespace %s; create it", corev1.SecretTypeBasicAuth, namespace))
	}
	password := bgp.Secret(s.Data[passwordKey])
	if err := bgp.CheckPassword(password); err != nil {
		return "", fail(fmt.Sprintf("names a Secret whose key %q will not do: %v", passwordKey, err))
	}
	return password, nil
}

func peerWarnings(obj *v1beta2.BGPPeer) []Warning {
	var out []Warning
	warn := func(field, message string) {
		out = append(out, Warning{
			Kind: v1beta2.KindBGPPeer, Namespace: obj.Namespace, Name: obj.Name, Object: obj, Field: field, Message: field + ": " + message,
		})
	}
	if obj.Spec.DisableMP {
		warn("spec.disableMP", "has no effect: a session carries the family of its address, or both with dualStackAddressFamily")
	}
	if ns := obj.Spec.PasswordSecret.Namespace; ns != "" && ns != obj.Namespace {
		warn("spec.passwordSecret.namespace", fmt.Sprintf("%s is ignored: the Secret is looked for in %s", quote(ns), obj.Namespace))
	}
	return out
}
