package harness

import (
	"bytes"
	"strings"
	"sync"
)

// lineCounter is a writer that counts lines and keeps the last few kilobytes.
type lineCounter struct {
	mu    sync.Mutex
	count int
	kept  []byte
}

const keptBytes = 8 << 10

func (c *lineCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += bytes.Count(p, []byte("\n"))
	c.kept = append(c.kept, p...)
	if len(c.kept) > keptBytes {
		c.kept = append([]byte(nil), c.kept[len(c.kept)-keptBytes:]...)
	}
	return len(p), nil
}

func (c *lineCounter) lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *lineCounter) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(string(c.kept))
}
