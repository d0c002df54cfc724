package main

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/heraldlb/herald/k8sadapter/source"
)

func loadManifests(t *testing.T, nodes int) *source.Set {
	t.Helper()
	plans := make([]nodePlan, nodes)
	for i := range plans {
		plans[i] = planNode(byte(i + 1))
	}
	dir := filepath.Join(t.TempDir(), "manifests")
	require.NoError(t, writeManifests(dir, plans))
	files, err := source.NewFiles(source.FilesConfig{Dir: dir, ReadOnly: true})
	require.NoError(t, err)
	set, err := files.Load(t.Context())
	require.NoError(t, err)
	return set
}

func TestManifestsAreWhatHeraldReads(t *testing.T) {
	set := loadManifests(t, 4)
	assert.Empty(t, set.Rejected)
	assert.Empty(t, set.Ignored)
	assert.Empty(t, set.Warnings)
	require.Len(t, set.Nodes, 4)
	assert.Equal(t, "node-4", set.Nodes[3].Name)
	assert.Equal(t, "192.0.2.4", set.Nodes[3].Status.Addresses[0].Address)
	assert.Len(t, set.L2Advertisements, 1)
	assert.Len(t, set.Services, 3)
}

// A Service without a slice would never be announced.
func TestEveryServiceHasItsEndpointsOnEveryNode(t *testing.T) {
	set := loadManifests(t, 3)
	families := map[string]string{}
	for _, slice := range set.EndpointSlices {
		name := slice.Labels["kubernetes.io/service-name"]
		families[name] = string(slice.AddressType)
		require.Len(t, slice.Endpoints, 3, name)
		for i, endpoint := range slice.Endpoints {
			assert.Equal(t, set.Nodes[i].Name, *endpoint.NodeName)
			assert.True(t, *endpoint.Conditions.Ready)
			addr, err := netip.ParseAddr(endpoint.Addresses[0])
			require.NoError(t, err)
			assert.Equal(t, slice.AddressType == "IPv6", addr.Is6())
		}
	}
	for _, svc := range set.Services {
		require.Len(t, svc.Spec.IPFamilies, 1)
		assert.Equal(t, string(svc.Spec.IPFamilies[0]), families[svc.Name], svc.Name)
		assert.EqualValues(t, servicePort, svc.Spec.Ports[0].Port)
	}
}

// The nodes' kernels must accept exactly what Herald may give away.
func TestPoolPrefixesAreThoseOfThePools(t *testing.T) {
	var ranges []string
	for _, pool := range loadManifests(t, 2).IPAddressPools {
		ranges = append(ranges, pool.Spec.Addresses...)
	}
	var want []string
	for _, prefix := range poolPrefixes() {
		want = append(want, prefix.String())
	}
	assert.Equal(t, want, ranges)
}

func TestPlanNode(t *testing.T) {
	p := planNode(7)
	assert.Equal(t, "node-7", p.Name)
	assert.Equal(t, netip.MustParseAddr("192.0.2.7"), p.Addr("IPv4"))
	assert.Equal(t, netip.MustParseAddr("2001:db8:77::7"), p.Addr("IPv6"))
	assert.Equal(t, "02:00:00:00:00:07", p.MAC().String())
}
