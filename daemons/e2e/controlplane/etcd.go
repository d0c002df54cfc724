package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// etcdTimeout bounds the start of etcd; it takes under a second on an idle machine.
const etcdTimeout = 2 * time.Minute

// walSegment is the size of a file of the write-ahead log, which etcd allocates
// beforehand, two at a time. Its default of 64 MB is much where tests write to memory.
const walSegment = 4 << 20

// store is a running etcd.
type store struct{ *embed.Etcd }

// etcdURL is where the API server finds etcd. A socket in a directory that only
// its owner may read keeps every other user and every other test away.
func etcdURL(s settings) string { return "unix://" + s.path("etcd.sock") }

// startEtcd runs etcd on the data of the directory and waits until it serves.
func startEtcd(s settings) (*store, error) {
	cfg, err := etcdConfig(s)
	if err != nil {
		return nil, err
	}
	// A killed process leaves its socket behind, and nobody else can be using it:
	// two members on one directory are kept apart by etcd's lock on its data.
	if err := os.Remove(s.path("etcd.sock")); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	wal.SegmentSizeBytes = walSegment
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", cfg.Dir, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	select {
	case <-etcd.Server.ReadyNotify():
		return &store{etcd}, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("etcd in %s: %w", cfg.Dir, err)
	case <-ctx.Done():
		etcd.Close()
		return nil, fmt.Errorf("etcd in %s did not serve within %v", cfg.Dir, etcdTimeout)
	}
}

func etcdConfig(s settings) (*embed.Config, error) {
	client, err := url.Parse(etcdURL(s))
	if err != nil {
		return nil, err
	}
	// 108 bytes hold a socket's name, its end mark included.
	if len(client.Path) > 107 {
		return nil, errors.New("--dir is too long for a socket in it: choose one below 90 characters")
	}
	// A single member talks to no peer, but etcd wants an address to listen on.
	peer, err := url.Parse("unix://" + s.path("peer.sock"))
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir = s.path("etcd")
	cfg.LogLevel = "fatal"   // it calls its own orderly end an error; what stops a start is returned
	cfg.UnsafeNoFsync = true // it is a test: a stop of the process loses nothing, a power cut may
	cfg.ListenClientUrls = []url.URL{*client}
	cfg.AdvertiseClientUrls = []url.URL{*client}
	cfg.ListenPeerUrls = []url.URL{*peer}
	cfg.AdvertisePeerUrls = []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return cfg, nil
}
