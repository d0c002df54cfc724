package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// prepare makes the directory and decides the port: the one asked for, else the
// one of the last start, else a free one. The decision is kept for the next start.
func prepare(dir string, port int) (settings, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return settings{}, fmt.Errorf("--dir %q: %w", dir, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return settings{}, fmt.Errorf("--dir %q: %w", dir, err)
	}
	s := settings{dir: abs, port: port}
	if s.port == 0 {
		if s.port, err = lastPort(s); err != nil {
			return settings{}, err
		}
	}
	if s.port == 0 {
		if s.port, err = freePort(); err != nil {
			return settings{}, err
		}
	}
	return s, os.WriteFile(s.path("port"), []byte(strconv.Itoa(s.port)+"\n"), 0o600)
}

func lastPort(s settings) (int, error) {
	text, err := os.ReadFile(s.path("port"))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w; remove the file to have a port picked", s.path("port"), err)
	}
	return port, nil
}

// freePort asks the kernel for a port. Another process could take it before the
// server binds it; the start then fails and says so.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("pick a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
