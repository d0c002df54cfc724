package speaker

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/heraldlb/herald/bgp"
	"github.com/heraldlb/herald/election"
	"github.com/heraldlb/herald/k8sadapter/config"
	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/membership"
)

// ErrRejected is returned by Once when at least one object was rejected: the others are decided and printed all the same.
var ErrRejected = errors.New("at least one object was rejected")

// OnceConfig configures Once.
type OnceConfig struct {
	Node          string   // the node to decide for; it need not exist
	Members       []string // the nodes that are alive; their links count as up
	LBClass       string
	IgnoreExclude bool
	Logger        *slog.Logger // rejections at Warn; nil discards
}

// printed is a Decision in the form of the stream. Every field is always present.
type printed struct {
	Service    string                     `json:"service"`
	Protocol   Protocol                   `json:"protocol"`
	Address    string                     `json:"address"`
	Announce   bool                       `json:"announce"`
	Announcer  string                     `json:"announcer"`
	Reason     election.Reason            `json:"reason"`
	Candidates []string                   `json:"candidates"`
	Excluded   map[string]election.Reason `json:"excluded"`
	Interfaces []string                   `json:"interfaces"`
	Routes     []route                    `json:"routes"`
}

// route is one route of a BGP decision.
type route struct {
	Prefix      string   `json:"prefix"`
	LocalPref   uint32   `json:"localPref"`
	Communities []string `json:"communities"`
	Peers       []string `json:"peers"`
}

// Once decides on the objects of set for one node, and prints to w a YAML stream of decisions, one document for each
// Service address and protocol. It looks at nothing local. The error is ErrRejected when an object was rejected.
func Once(w io.Writer, set *source.Set, cfg OnceConfig) error {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var store config.Store
	snap := Snapshot{
		Self: cfg.Node, LBClass: cfg.LBClass, IgnoreExclude: cfg.IgnoreExclude,
		Config: store.Update(config.Objects{
			Pools: set.IPAddressPools, L2Advertisements: set.L2Advertisements, Namespaces: set.Namespaces,
			BGPPeers: set.BGPPeers, BGPAdvertisements: set.BGPAdvertisements, BFDProfiles: set.BFDProfiles,
			Communities: set.Communities, Secrets: set.Secrets, Nodes: set.Nodes,
		}),
		Nodes: make(map[string]*corev1.Node, len(set.Nodes)), Services: set.Services,
		Slices: slicesByService(set.EndpointSlices),
	}
	for _, n := range set.Nodes {
		snap.Nodes[n.Name] = n
	}
	for _, name := range cfg.Members {
		if name = strings.TrimSpace(name); name != "" {
			snap.Members = append(snap.Members, membership.Member{Name: name, Eligible: true})
		}
	}
	if snap.Nodes[cfg.Node] == nil {
		log.Warn("no Node has the name of --node-name: no advertisement covers it", "node", cfg.Node)
	}
	for _, m := range snap.Members {
		if snap.Nodes[m.Name] == nil {
			log.Warn("a member of --members has no Node: no advertisement covers it", "node", m.Name)
		}
	}
	for _, x := range set.Rejected {
		log.Warn("object rejected", "error", x)
	}
	_, unfit := snap.Config.PeersFor(snap.Nodes[cfg.Node])
	rejected := slices.Concat(snap.Config.Rejected, unfit)
	for _, r := range rejected {
		log.Warn("object rejected", "error", r)
	}
	for _, d := range Decide(snap) {
		text, err := yaml.Marshal(print(d))
		if err != nil {
			return fmt.Errorf("render decision on %s: %w", d.Service, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return fmt.Errorf("print decisions: %w", err)
		}
	}
	if len(set.Rejected)+len(rejected) > 0 {
		return ErrRejected
	}
	return nil
}

func print(d Decision) printed {
	p := printed{
		Service: d.Service.String(), Protocol: d.Protocol, Address: d.Address.String(), Announce: d.Announce,
		Announcer: d.Announcer, Reason: d.Reason, Candidates: d.Candidates, Excluded: d.Excluded,
		Interfaces: d.Interfaces, Routes: []route{},
	}
	for _, r := range d.Routes {
		p.Routes = append(p.Routes, printRoute(r))
	}
	if p.Candidates == nil {
		p.Candidates = []string{}
	}
	if p.Excluded == nil {
		p.Excluded = map[string]election.Reason{}
	}
	if p.Interfaces == nil {
		p.Interfaces = []string{}
	}
	return p
}

func printRoute(r bgp.Route) route {
	out := route{Prefix: r.Prefix.String(), Communities: communityText(r), Peers: slices.Concat([]string{}, r.Peers)}
	if r.LocalPref != nil {
		out.LocalPref = *r.LocalPref
	}
	return out
}

// slicesByService sorts EndpointSlices by the Service that their label names; those without one belong to none.
func slicesByService(all []*discoveryv1.EndpointSlice) map[types.NamespacedName][]*discoveryv1.EndpointSlice {
	out := make(map[types.NamespacedName][]*discoveryv1.EndpointSlice)
	for _, s := range all {
		if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
			key := types.NamespacedName{Namespace: s.Namespace, Name: name}
			out[key] = append(out[key], s)
		}
	}
	return out
}
