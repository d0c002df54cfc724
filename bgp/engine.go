package bgp

import (
	"context"
	"errors"
)

var (
	// ErrInvalid is what every [*PeerError], [*RouteError] and parse error is.
	ErrInvalid = errors.New("not valid")
	// ErrUnknownPeer is returned for a name that is not among the peers.
	ErrUnknownPeer = errors.New("no such peer")
	// ErrStopped is returned by calls after Run has ended.
	ErrStopped = errors.New("the engine has stopped")
)

// Speaker is what an engine offers to a program that announces. All methods may
// be called from any goroutine, before and while Run runs, and return without
// waiting for the network.
type Speaker interface {
	// SetPeers replaces the peers. Those that are not valid are left out, unless a
	// good one of that name is running, which then goes on; all others are
	// applied. The error joins a [*PeerError] for each fault.
	SetPeers(peers []Peer) error
	// SetRoutes replaces the routes. A prefix with a route that is not valid keeps
	// the routes that it has, and all others are applied. The error joins a
	// [*RouteError] for each fault.
	SetRoutes(routes []Route) error
	// Sessions returns a snapshot, one entry for each peer, in order of the names.
	Sessions() []Session
	// Changed has an element whenever Sessions may have something new, counters
	// aside. One reader is meant; between two reads changes coalesce.
	Changed() <-chan struct{}
}

// Engine is a [Speaker] that can be run.
type Engine interface {
	Speaker
	// Run holds the sessions until ctx is done, then takes the routes back, closes
	// the sessions, and returns. It is called once. The error says which peers
	// could not be told; nil when all were.
	Run(ctx context.Context) error
}

// Updater is an [Engine] power: to take a change at a cost that depends on the
// change alone, not on the number of routes.
type Updater interface {
	// UpdateRoutes replaces the routes of the given prefixes. A change whose
	// routes are not valid, or of another prefix, is left out and named by a
	// [*RouteError]. After SetRoutes of the same state it does nothing.
	UpdateRoutes(changes []Change) error
}

// Keeper is an [Engine] power: to stop for an upgrade.
type Keeper interface {
	// Keep makes Run return, once its context is done, without a word to the
	// peers: sessions live until the process ends, and where graceful restart was
	// agreed the peers keep the routes until the next process is there. It has no
	// effect on sessions without graceful restart other than that their end is
	// noticed by the closed connection.
	Keep()
}

// PathState says what is known of the path to a peer, by BFD for example.
type PathState uint8

const (
	// PathUnknown is for no information: none is configured, it has not come up
	// yet, or somebody has shut it down administratively (RFC 5882 section 3.2:
	// that is no failure).
	PathUnknown PathState = iota
	PathUp
	PathDown
)

// Path is the liveness of the path to a peer.
type Path struct {
	State PathState
	// ControlPlaneIndependent is the C bit of BFD (RFC 5880 section 4.1) in both
	// directions: the liveness protocol goes on while the peer's control plane
	// restarts, so that its failure is one of the path in any case.
	ControlPlaneIndependent bool
}

// PathSetter is an [Engine] power: to act on the liveness of a path.
type PathSetter interface {
	// SetPath tells the state of the path to a peer. When it goes down the session
	// is closed at once and stays so until the path is up or unknown. Not so when
	// graceful restart was agreed and the liveness is not independent of the
	// control plane: then the failure may well be the peer's restart, which must
	// not be aborted (RFC 5882 section 4.3), and the session is left to its
	// own timers. The state is forgotten with the peer.
	SetPath(peer string, path Path) error
}
