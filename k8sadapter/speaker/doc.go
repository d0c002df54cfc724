// Package speaker decides, on every node alike, which node answers for which Service address, and tells the announcer of
// its own node what to answer for. It is compatible with MetalLB's speaker: the same placement, reason codes and Events;
// docs/compatibility.md has the differences.
//
// Decide is a pure function of a Snapshot. The Speaker acts on it, Once prints it, and both give the same reasons.
//
// # One owner for an address
//
// Services that share an address form a group with one election: its key is the lowest first address of the group, its
// candidates are those of every member. So all nodes that see the same inputs elect the same one, whatever is shared.
//
// # Routers
//
// By BGP every node that may announce does; there is no election, and nothing of layer 2 matters to it. The routes of all
// Services go into one table, so that an aggregate stays as long as one of them needs it, and from there, with the peers of
// the node, to the Routers of the Config.
//
// # Level, not edge
//
// Each change of an object, a member or a link leads to a new Snapshot, and the announcer is told the whole desired
// state. What was announced before does not matter. When the API server is away, the last state goes on being served.
package speaker
