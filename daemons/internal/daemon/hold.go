package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/heraldlb/herald/election"
)

// HeldUntil notes in a file in dir that the speaker of a node starts at now, and returns until when it leaves its addresses
// to others because it started too often lately (election.Damper). The zero Time is not held. An empty dir turns that off,
// and a file that cannot be read or written costs a warning and the memory, never the start.
func HeldUntil(dir, node string, now time.Time, log *slog.Logger) time.Time {
	if dir == "" {
		return time.Time{}
	}
	file := filepath.Join(dir, "damping-"+url.PathEscape(node)+".json")
	damper, err := election.NewDamper(election.DamperConfig{})
	if err != nil {
		log.Warn("damping is off", "error", err)
		return time.Time{}
	}
	if err := readDamper(file, damper); err != nil {
		log.Warn("how often this node came back is forgotten", "error", err)
	}
	standing := damper.Observe(election.Up, now)
	if err := writeDamper(file, damper); err != nil {
		log.Warn("the next start will not know of this one, so that a node that flaps is not damped",
			"error", err, "hint", "give --run-dir a directory that this user can write to")
	}
	if !standing.Until.IsZero() {
		log.Warn("this node came back too often: the others keep its addresses for a while", "until", standing.Until)
	}
	return standing.Until
}

// readDamper restores what the file says; one that does not exist says nothing.
func readDamper(file string, damper *election.Damper) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := damper.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// writeDamper replaces the file in one step.
func writeDamper(file string, damper *election.Damper) error {
	text, err := json.Marshal(damper)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
