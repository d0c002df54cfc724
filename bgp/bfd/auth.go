package bfd

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// An AuthType is a way to authenticate packets (RFC 5880 section 4.1). The simple
// password (type 1) is not supported, as it protects from nothing.
type AuthType uint8

const (
	AuthNone           AuthType = 0
	AuthMD5            AuthType = 2 // keyed MD5
	AuthMeticulousMD5  AuthType = 3 // and every packet has a new sequence number
	AuthSHA1           AuthType = 4
	AuthMeticulousSHA1 AuthType = 5
)

// A Secret formats as "***", so that it is in no log or error.
type Secret string

const hidden = "***"

func (Secret) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(hidden)) }
func (Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Auth is how the packets of a session are authenticated (RFC 5880 section 6.7).
// Both systems must have the same.
type Auth struct {
	Type  AuthType // zero: not at all
	KeyID uint8    // names the key to the remote system
	Key   Secret   // 1 to 16 bytes for MD5, 1 to 20 for SHA1
}

func (a Auth) validate() error {
	switch a.Type {
	case AuthNone:
		if a != (Auth{}) {
			return fmt.Errorf("authentication key without a type")
		}
	case AuthMD5, AuthMeticulousMD5, AuthSHA1, AuthMeticulousSHA1:
		if n := len(a.Key); n < 1 || n > a.digestSize() {
			return fmt.Errorf("authentication key of %d bytes, must be 1 to %d", n, a.digestSize())
		}
	default:
		return fmt.Errorf("authentication type %d is not supported, use 2 to 5", a.Type)
	}
	return nil
}

func (a Auth) meticulous() bool { return a.Type == AuthMeticulousMD5 || a.Type == AuthMeticulousSHA1 }

func (a Auth) digestSize() int {
	if a.Type == AuthMD5 || a.Type == AuthMeticulousMD5 {
		return md5.Size
	}
	return sha1.Size
}

// authHeaderSize is type, length, key ID, a reserved byte and the sequence number.
const authHeaderSize = 8

// sign appends the authentication section to a packet that consists of the
// mandatory section.
func (a Auth) sign(packet []byte, seq uint32) []byte {
	size := authHeaderSize + a.digestSize()
	packet[3] = byte(headerSize + size)
	packet = append(packet, byte(a.Type), byte(size), a.KeyID, 0)
	packet = binary.BigEndian.AppendUint32(packet, seq)
	return append(packet, a.digest(packet)...)
}

// digest computes the digest of a packet without its last field, where the key
// takes the place of the digest.
func (a Auth) digest(packet []byte) []byte {
	var key [sha1.Size]byte
	copy(key[:], a.Key)
	keyed := append(slices.Clip(packet), key[:a.digestSize()]...)
	if a.digestSize() == md5.Size {
		sum := md5.Sum(keyed)
		return sum[:]
	}
	sum := sha1.Sum(keyed)
	return sum[:]
}

// check returns the sequence number of a packet if its authentication is right.
func (a Auth) check(packet, section []byte) (seq uint32, ok bool) {
	size := authHeaderSize + a.digestSize()
	if len(section) != size || section[0] != byte(a.Type) || int(section[1]) != size || section[2] != a.KeyID {
		return 0, false
	}
	packet = packet[:headerSize+size]
	digest := a.digest(packet[:len(packet)-a.digestSize()])
	return binary.BigEndian.Uint32(section[4:]), subtle.ConstantTimeCompare(digest, section[authHeaderSize:]) == 1
}

// authState is the part of the state variables that is about sequence numbers.
type authState struct {
	sent, received uint32
	known          bool // received is valid
	heard          time.Time
}

// accept says whether a packet is authentic and not a replay.
func (s *authState) accept(now time.Time, peer Peer, detect time.Duration, packet, section []byte) bool {
	if peer.Auth.Type == AuthNone {
		return len(section) == 0
	}
	seq, ok := peer.Auth.check(packet, section)
	if !ok {
		return false
	}
	// RFC 5880 section 6.8.1: forgotten after twice the detection time.
	if s.known && now.Sub(s.heard) < 2*detect {
		ahead := seq - s.received // modulo 2^32
		if ahead > 3*uint32(peer.Multiplier) || ahead == 0 && peer.Auth.meticulous() {
			return false
		}
	}
	s.received, s.known, s.heard = seq, true, now
	return true
}
