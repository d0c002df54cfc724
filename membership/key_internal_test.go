package membership

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestDeriveKey holds vectors of MetalLB's own function.
func TestDeriveKey(t *testing.T) {
	digits := "0123456789abcdef0123456789abcdef"
	tests := []struct {
		name, secret, want string
	}{
		{"short", "abc", "616263e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b78"},
		{"exactly 32", digits, hex.EncodeToString([]byte(digits))},
		{"longer", digits + strings.Repeat("ignored", 30), hex.EncodeToString([]byte(digits))},
		{"newline counts", "abc\n", "6162630ae3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b"},
		{"none", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			secret := []byte(tt.secret)
			got := DeriveKey(secret)
			assert.Equal(t, tt.want, hex.EncodeToString(got))
			if tt.secret == "" {
				assert.Nil(t, got)
				return
			}
			got[0] ^= 0xff
			assert.Equal(t, tt.secret, string(secret), "the key is a copy")
		})
	}
	assert.NoError(t, memberlist.ValidateKey(DeriveKey([]byte("x"))))
}

// TestPropertyInstallKeys: whatever was installed before, afterwards exactly
// the wanted keys are, the first one first, and readers never see anything
// torn (with -race).
func TestPropertyInstallKeys(t *testing.T) {
	all := make([][]byte, 6)
	for i := range all {
		all[i] = DeriveKey(fmt.Appendf(nil, "secret %d", i))
	}
	set := rapid.SliceOfNDistinct(rapid.IntRange(0, len(all)-1), 1, len(all), rapid.ID)
	rapid.Check(t, func(t *rapid.T) {
		ring := &memberlist.Keyring{}
		for step := range 4 {
			var want [][]byte
			for _, i := range set.Draw(t, "keys") {
				want = append(want, all[i])
			}
			var readers sync.WaitGroup
			readers.Go(func() {
				for range 20 {
					for _, k := range ring.GetKeys() {
						if !slices.ContainsFunc(all, func(a []byte) bool { return slices.Equal(a, k) }) {
							t.Errorf("step %d: torn key", step)
						}
					}
				}
			})
			err := installKeys(ring, want)
			readers.Wait()
			require.NoError(t, err)
			require.Equal(t, want[0], ring.GetPrimaryKey())
			require.ElementsMatch(t, want, ring.GetKeys())
		}
	})
}
