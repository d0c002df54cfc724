package gobgp

import (
	"fmt"
	"os"
	"strings"

	"github.com/heraldlb/herald/bgp"
)

// password returns the password of a peer; empty when it has none. The error says
// why the peer has to be held back, and holds nothing of the content.
func password(p *bgp.Peer) (bgp.Secret, error) {
	if p.PasswordFile == "" {
		return p.Password, nil
	}
	content, err := os.ReadFile(p.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if err := bgp.CheckPassword(bgp.Secret(text)); err != nil {
		return "", fmt.Errorf("password file %s: %w", p.PasswordFile, err)
	}
	return bgp.Secret(text), nil
}
