package bfd

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const authPacket = "20 44 03 18 00000001 00000000 000f4240 000493e0 00000000"

// The digests are from coreutils: printf ... | xxd -r -p | md5sum, sha1sum.
func TestAuthGolden(t *testing.T) {
	for _, tt := range []struct {
		auth Auth
		want string
	}{
		{Auth{AuthMD5, 1, "secret"}, "204403300000000100000000000f4240000493e0000000000218010001020304453b8c8e1a49b90ad73c07969ea44856"},
		{Auth{AuthMeticulousSHA1, 9, "12345678901234567890"}, "204403340000000100000000000f4240000493e000000000051c09000102030484ab3b9753f32dcf431d8058ff66eff6d8eaccfd"},
	} {
		got := tt.auth.sign(unhex(t, authPacket), 0x01020304)
		require.Equal(t, tt.want, hex.EncodeToString(got))
		p, section, err := ParsePacket(got)
		require.NoError(t, err)
		require.True(t, p.Authenticated)
		seq, ok := tt.auth.check(got, section)
		require.True(t, ok)
		require.EqualValues(t, 0x01020304, seq)

		for i := range got { // no bit may be changed but the reserved byte's
			forged := bytes.Clone(got)
			forged[i] ^= 1
			if _, section, err := ParsePacket(forged); err == nil && i != headerSize+3 {
				_, ok := tt.auth.check(forged, section)
				require.False(t, ok, "byte %d", i)
			}
		}
		for name, other := range map[string]Auth{
			"key":    {tt.auth.Type, tt.auth.KeyID, tt.auth.Key[1:]},
			"key ID": {tt.auth.Type, tt.auth.KeyID + 1, tt.auth.Key},
			"type":   {tt.auth.Type ^ 1, tt.auth.KeyID, tt.auth.Key},
		} {
			_, ok := other.check(got, section)
			require.False(t, ok, name)
		}
	}
}

// Two packets in a row of BIRD 2.0.12, "meticulous keyed sha1" with the password
// "golden" and id 3.
func TestAuthOfBIRD(t *testing.T) {
	auth := Auth{Type: AuthMeticulousSHA1, KeyID: 3, Key: "golden"}
	for wire, want := range map[string]uint32{
		"2044053415b9838500000000000f42400000ea6000000000051c03009ac448f94e4f65bd7abd4c919f7fd7cddbe2e91f3aef611d": 0x9ac448f9,
		"2044053415b9838500000000000f42400000ea6000000000051c03009ac448fa77cbfecfedc4586b9b55890ea3bd051acbe6cd9c": 0x9ac448fa,
	} {
		b := unhex(t, wire)
		p, section, err := ParsePacket(b)
		require.NoError(t, err)
		seq, ok := auth.check(b, section)
		require.True(t, ok)
		require.Equal(t, want, seq)

		p.Authenticated = true
		again, err := p.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, b, auth.sign(again, want))
	}
}

func TestAuthSequence(t *testing.T) {
	const detect = 150 * time.Millisecond
	for _, typ := range []AuthType{AuthMD5, AuthMeticulousMD5, AuthSHA1, AuthMeticulousSHA1} {
		peer := normalized(t, Peer{Auth: Auth{Type: typ, Key: "k"}})
		var s authState
		now := start()
		accept := func(seq uint32) bool {
			b := peer.Auth.sign(unhex(t, authPacket), seq)
			_, section, err := ParsePacket(b)
			require.NoError(t, err)
			return s.accept(now, peer, detect, b, section)
		}
		require.True(t, accept(1<<32-2), "any is good to begin with")
		require.True(t, accept(1<<32-1))
		require.Equal(t, !peer.Auth.meticulous(), accept(1<<32-1), "again, type %d", typ)
		require.False(t, accept(1<<32-2), "back")
		require.True(t, accept(8), "nine ahead, over zero")
		require.False(t, accept(8+10), "ten ahead")
		now = now.Add(2 * detect)
		require.True(t, accept(5000), "after a silence")
	}
	var s authState
	require.True(t, s.accept(start(), normalized(t, Peer{}), detect, nil, nil))
	require.False(t, s.accept(start(), normalized(t, Peer{}), detect, nil, []byte{1, 3, 0}), "authentication that nobody asked for")
}

func TestAuthValidate(t *testing.T) {
	for want, a := range map[string]Auth{
		"without a type":      {Key: "k"},
		"type 1 is not":       {Type: 1, Key: "k"},
		"of 0 bytes":          {Type: AuthMD5},
		"17 bytes, must be 1": {Type: AuthMeticulousMD5, Key: "12345678901234567"},
		"21 bytes, must be 1": {Type: AuthSHA1, Key: "123456789012345678901"},
	} {
		require.ErrorContains(t, a.validate(), want)
	}
	require.NoError(t, Auth{Type: AuthSHA1, Key: "12345678901234567890"}.validate())
}

func TestSecretIsHidden(t *testing.T) {
	p := Peer{Auth: Auth{Type: AuthMD5, Key: "hunter2"}}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "peer", p, "auth", p.Auth, "key", p.Auth.Key)
	inJSON, err := json.Marshal(p.Auth)
	require.NoError(t, err)
	_, bad := p.Normalize()
	for _, s := range []string{log.String(), string(inJSON), bad.Error(), fmt.Sprintf("%v %+v %#v %s %q %x", p, p.Auth, p.Auth, p.Auth.Key, p.Auth.Key, p.Auth)} {
		require.NotContains(t, s, "hunter2")
		require.NotContains(t, s, hex.EncodeToString([]byte("hunter2")))
	}
}
