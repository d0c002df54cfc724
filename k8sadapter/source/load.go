package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
	"github.com/heraldlb/herald/k8sadapter/api/v1beta2"
)

// Set is the content of a directory of manifests at one moment, statuses and
// annotations of earlier runs included. Objects are sorted by namespace and
// name and carry no resourceVersion.
type Set struct {
	Services         []*corev1.Service
	EndpointSlices   []*discoveryv1.EndpointSlice
	Nodes            []*corev1.Node
	Namespaces       []*corev1.Namespace
	IPAddressPools   []*v1beta1.IPAddressPool
	L2Advertisements []*v1beta1.L2Advertisement

	BGPPeers          []*v1beta2.BGPPeer // those of v1beta1 are converted
	BGPAdvertisements []*v1beta1.BGPAdvertisement
	BFDProfiles       []*v1beta1.BFDProfile
	Communities       []*v1beta1.Community
	Secrets           []*corev1.Secret // of type kubernetes.io/basic-auth

	// Rejected documents are YAML but not what they claim to be, or describe
	// what another document describes already.
	Rejected []*Problem
	// Ignored documents are of a kind that Herald does not read, or metallb.io
	// objects of a foreign namespace.
	Ignored []*Problem
	// Warnings tell of parts without effect, such as unknown fields, in
	// documents that are used.
	Warnings []*Problem
}

// Load reads the directory once, for --once, and writes nothing. Input that is
// no YAML is an error that joins one *SyntaxError for each such document; so
// is a directory or file that cannot be read. Versions kept from an earlier
// run of a daemon are not looked at: what is rejected is not in the Set, but
// for a pool without addresses in place of a pool that does not decode. What is
// ignored or has no effect is logged; what is rejected is left to the caller.
func (f *Files) Load(ctx context.Context) (*Set, error) {
	cfg := f.cfg
	cfg.ReadOnly = true
	scratch, err := NewFiles(cfg)
	if err != nil {
		return nil, err
	}
	scratch.readOverlays()
	tree, err := scanTree(cfg.Dir, cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("source: directory of manifests: %w", err)
	}
	states := scratch.readFiles(tree, false)
	if err := errors.Join(ctx.Err(), unfit(states, tree.unreadable)); err != nil {
		return nil, err
	}
	m := merge(states, nil, nil, cfg.Namespace)
	scratch.entries = m.entries
	set := &Set{Rejected: m.rejected, Ignored: m.ignored, Warnings: m.warnings}
	f.warnOf(m)
	for _, k := range slices.SortedFunc(maps.Keys(m.entries), compareKeys) {
		obj := scratch.publishOne(k)
		obj.SetResourceVersion("")
		set.add(obj)
	}
	return set, nil
}

// unfit joins what makes files useless as a whole.
func unfit(states []*fileState, unreadable map[string]error) error {
	var errs []error
	for _, state := range states {
		if state.err != nil {
			errs = append(errs, &Problem{File: state.rel, Err: fmt.Errorf("%w: %w", ErrUnreadable, state.err)})
		}
		for _, fault := range state.faults {
			errs = append(errs, fault)
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(unreadable)) {
		errs = append(errs, &Problem{File: rel, Err: fmt.Errorf("%w: %w", ErrUnreadable, unreadable[rel])})
	}
	return errors.Join(errs...)
}

func (s *Set) add(obj object) {
	switch o := obj.(type) {
	case *corev1.Service:
		s.Services = append(s.Services, o)
	case *discoveryv1.EndpointSlice:
		s.EndpointSlices = append(s.EndpointSlices, o)
	case *corev1.Node:
		s.Nodes = append(s.Nodes, o)
	case *corev1.Namespace:
		s.Namespaces = append(s.Namespaces, o)
	case *v1beta1.IPAddressPool:
		s.IPAddressPools = append(s.IPAddressPools, o)
	case *v1beta1.L2Advertisement:
		s.L2Advertisements = append(s.L2Advertisements, o)
	case *v1beta2.BGPPeer:
		s.BGPPeers = append(s.BGPPeers, o)
	case *v1beta1.BGPAdvertisement:
		s.BGPAdvertisements = append(s.BGPAdvertisements, o)
	case *v1beta1.BFDProfile:
		s.BFDProfiles = append(s.BFDProfiles, o)
	case *v1beta1.Community:
		s.Communities = append(s.Communities, o)
	case *corev1.Secret:
		s.Secrets = append(s.Secrets, o)
	}
}
