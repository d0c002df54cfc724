package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const routers = `
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: new}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.1, passwordSecret: {name: key}}
---
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: old}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.2, nodeSelectors: [{matchLabels: {rack: r1}}]}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: all}
---
apiVersion: metallb.io/v1beta1
kind: BFDProfile
metadata: {name: quick}
spec: {receiveInterval: 50}
---
apiVersion: metallb.io/v1beta1
kind: Community
metadata: {name: ours}
spec: {communities: [{name: east, value: "64512:1"}]}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
type: kubernetes.io/basic-auth
stringData: {password: sesame}
---
apiVersion: v1
kind: Secret
metadata: {name: memberlist}
data: {secretkey: c2VzYW1l}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
type: kubernetes.io/basic-auth
stringData: {password: open}
`

func TestBGPKindsOfADirectory(t *testing.T) {
	f, log := newFiles(t, newManifests(t, map[string]string{"all.yaml": routers}), nil)
	set, err := f.Load(t.Context())
	require.NoError(t, err)
	assert.Empty(t, set.Rejected)
	assert.Empty(t, set.Warnings)

	require.Len(t, set.BGPPeers, 2)
	for _, p := range set.BGPPeers {
		assert.Equal(t, uint16(179), p.Spec.Port)
		assert.Equal(t, "metallb-system", p.Namespace)
		assert.Equal(t, "metallb.io/v1beta2", p.APIVersion)
		assert.NotEmpty(t, p.UID)
		assert.Nil(t, p.Spec.HoldTime, "absent means the default in either version")
	}
	assert.Equal(t, "r1", set.BGPPeers[1].Spec.NodeSelectors[0].MatchLabels["rack"])
	require.Len(t, set.BGPAdvertisements, 1)
	assert.Equal(t, int32(32), *set.BGPAdvertisements[0].Spec.AggregationLength)
	assert.Equal(t, int32(128), *set.BGPAdvertisements[0].Spec.AggregationLengthV6)
	require.Len(t, set.BFDProfiles, 1)
	assert.Nil(t, set.BFDProfiles[0].Spec.TransmitInterval)
	require.Len(t, set.Communities, 1)

	require.Len(t, set.Secrets, 1, "of the right type, in the right namespace")
	assert.Equal(t, map[string][]byte{"password": []byte("sesame")}, set.Secrets[0].Data)
	require.Len(t, set.Ignored, 2)
	require.ErrorIs(t, set.Ignored[0], ErrForeignSecret)
	require.ErrorIs(t, set.Ignored[1], ErrForeignNamespace)
	for _, hidden := range []string{"sesame", "c2VzYW1l", "open"} {
		assert.NotContains(t, log.String(), hidden)
	}
}

func TestPeerOfTheOlderVersionWithAnUnknownField(t *testing.T) {
	f, _ := newFiles(t, newManifests(t, map[string]string{"all.yaml": `
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: old}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.2, vrf: red}
---
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: bad}
spec: {myASN: many}
`}), nil)
	set, err := f.Load(t.Context())
	require.NoError(t, err)
	require.Len(t, set.Warnings, 1)
	require.ErrorContains(t, set.Warnings[0], `"spec.vrf"`)
	require.Len(t, set.Rejected, 1)
	require.ErrorContains(t, set.Rejected[0], "BGPPeer metallb-system/bad")
}

// What holds a password stays in memory when its document is no longer good, and goes to no file of the state directory.
func TestKeptSecretsAreNotWritten(t *testing.T) {
	m := newManifests(t, map[string]string{
		"secret.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: key}, type: kubernetes.io/basic-auth, data: {password: c2VzYW1l}}",
		"peer.yaml":   "{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor}, spec: {myASN: 1, password: abracadabra}}",
		"pool.yaml":   "{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: p}, spec: {addresses: [192.0.2.0/24]}}",
	})
	f, log, _ := runFiles(t, m, nil)
	for _, name := range []string{"secret.yaml", "peer.yaml", "pool.yaml"} {
		m.write(name, "{not yaml")
	}
	kept := filepath.Join(m.path, ".herald", keptName)
	eventually(t, "the last good versions are kept", func() bool {
		_, err := os.Stat(kept)
		return err == nil && len(f.Problems()) == 3
	})
	assert.True(t, exists(f, Secrets, "metallb-system", "key"))
	assert.True(t, exists(f, BGPPeers, "metallb-system", "tor"))
	require.NoError(t, filepath.Walk(filepath.Join(m.path, ".herald"), func(path string, info os.FileInfo, err error) error {
		require.NoError(t, err)
		if info.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "c2VzYW1l", path)
		assert.NotContains(t, string(text), "abracadabra", path)
		return nil
	}))
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Contains(t, string(text), "192.0.2.0/24")
	assert.NotContains(t, log.String(), "abracadabra")
}
