package membership

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// keySize is the length of derived keys, for AES-256.
const keySize = 32

// ErrEncryptionOff is returned by [Cluster.SetKeys] when it is asked to remove
// all keys from a cluster that is encrypted. Only a restart can turn encryption
// off.
var ErrEncryptionOff = errors.New("membership: encryption cannot be turned off at run time")

// DeriveKey makes a gossip key out of a secret of any length, in the way of
// MetalLB, so that both can decrypt each other: the first 32 octets of the
// secret followed by the SHA-256 digest of nothing. It is padding, not
// hashing: octets after the 32nd do not count, a newline at the end of a short
// secret does. The result is 32 octets long (AES-256), or nil for an empty
// secret.
func DeriveKey(secret []byte) []byte {
	if len(secret) == 0 {
		return nil
	}
	pad := sha256.Sum256(nil)
	return slices.Concat(secret, pad[:])[:keySize]
}

// cloneKeys copies and checks keys.
func cloneKeys(keys [][]byte) ([][]byte, error) {
	var errs []error
	cloned := make([][]byte, 0, len(keys))
	for i, key := range keys {
		if err := memberlist.ValidateKey(key); err != nil {
			errs = append(errs, fmt.Errorf("key %d of %d has %d octets, must have 16, 24 or 32 (DeriveKey makes such a key of any secret)",
				i+1, len(keys), len(key)))
		}
		cloned = append(cloned, slices.Clone(key))
	}
	return cloned, errors.Join(errs...)
}

// installKeys makes ring hold exactly keys, the first being the one that
// encrypts. The ring is in use by others meanwhile.
//
// memberlist's RemoveKey moves the keys behind the removed one within an array
// that readers hold, which is a data race unless the removed key is the last.
// So the keys that stay are brought to the front first. In an ordinary
// rotation they are there already.
func installKeys(ring *memberlist.Keyring, keys [][]byte) error {
	for _, key := range keys {
		if err := ring.AddKey(key); err != nil {
			return err
		}
	}
	stays := func(key []byte) bool {
		return slices.ContainsFunc(keys, func(k []byte) bool { return slices.Equal(k, key) })
	}
	if err := ring.UseKey(keys[0]); err != nil {
		return err
	}
	installed := ring.GetKeys()
	firstStale := slices.IndexFunc(installed, func(key []byte) bool { return !stays(key) })
	if firstStale < 0 {
		return nil
	}
	if slices.ContainsFunc(installed[firstStale:], stays) {
		for _, key := range slices.Backward(keys) {
			if err := ring.UseKey(key); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Backward(ring.GetKeys()) {
		if stays(key) {
			break
		}
		if err := ring.RemoveKey(key); err != nil {
			return err
		}
	}
	return nil
}
