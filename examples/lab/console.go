package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// console prints for people: steps with the time since the start, tables and
// plain text. On a terminal it makes headings bold; nothing else.
type console struct {
	w     io.Writer
	start time.Time
	tty   bool

	mu sync.Mutex
}

func newConsole(w io.Writer) *console {
	return &console{w: w, start: time.Now(), tty: isTerminal(w) && os.Getenv("NO_COLOR") == ""}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// step prints a line behind the seconds since the start.
func (c *console) step(format string, args ...any) {
	c.print(fmt.Sprintf("[%6.2fs] ", time.Since(c.start).Seconds()) + fmt.Sprintf(format, args...) + "\n")
}

// text prints lines as they are.
func (c *console) text(format string, args ...any) {
	c.print(fmt.Sprintf(format, args...) + "\n")
}

// table prints rows in columns, the first row as heading, between empty lines.
func (c *console) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString("\n")
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[j], cell)
		}
		text := strings.TrimRight(line.String(), " ")
		if i == 0 {
			text = c.bold(text)
		}
		b.WriteString("    " + text + "\n")
	}
	c.print(b.String() + "\n")
}

func (c *console) bold(text string) string {
	if !c.tty {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func (c *console) print(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.w, text)
}

// seconds prints a duration for people: 5.31 s, or 12 ms when it is short.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
