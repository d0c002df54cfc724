package gobgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"

	"github.com/heraldlb/herald/bgp"
)

// closeTimeout is how long a peer may take to accept the Cease.
const closeTimeout = 800 * time.Millisecond

// deferral is how long routes wait for the End-of-RIB of the peer after a restart.
const deferral = 10

// instance is one GoBGP server with at most one neighbour. At one time it
// belongs to one worker, or to the pool.
type instance struct {
	process *process
	server  *server.BgpServer
	bridge  *bridge
	freed   chan struct{} // GoBGP has let go of a deleted neighbour
	closing atomic.Bool   // and before that
	used    bool          // started since it was cleaned
	address string        // of the neighbour, as GoBGP knows it; empty: none

	starting atomic.Bool   // the gate of the process does not count
	arrived  chan struct{} // it waits at the gate
	atGate   atomic.Bool
}

// newInstance makes a server and lets it serve, before any other call: without
// Serve each blocks for ever.
func newInstance(p *process) *instance {
	in := &instance{process: p, freed: make(chan struct{}, 1), arrived: make(chan struct{}, 1)}
	in.bridge = &bridge{freed: func() {
		in.closing.Store(false)
		signal(in.freed)
	}}
	in.server = server.NewBgpServer(server.LoggerOption(in.bridge), server.TimingHookOption(in))
	go in.server.Serve()
	return in
}

// start makes the server one with the AS number and router ID for a peer, that
// takes nothing from it.
func (in *instance) start(ctx context.Context, p *bgp.Peer, routerID netip.Addr) error {
	if err := in.clean(ctx); err != nil {
		return err
	}
	global := &api.Global{Asn: p.ASN(), RouterId: routerID.String(), ListenPort: -1, Families: []uint32{0, 1}}
	if p.Passive {
		where := listenAddr(p)
		global.ListenPort = int32(where.Port())
		global.ListenAddresses = []string{where.Addr().String()}
		global.BindToDevice = p.VRF
	}
	if err := in.process.start(ctx, in, global); err != nil {
		return err
	}
	in.used = true
	return bounded(ctx, "SetPolicyAssignment", func(ctx context.Context) error {
		policy := &api.Policy{Name: "import", Statements: []*api.Statement{{
			Name:       "own",
			Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
			Actions:    &api.Actions{RouteAction: api.RouteAction_ACCEPT},
		}}}
		if err := in.server.AddPolicy(ctx, &api.AddPolicyRequest{Policy: policy}); err != nil {
			return err
		}
		return in.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
			Name: "global", Direction: api.PolicyDirection_IMPORT,
			Policies: []*api.Policy{policy}, DefaultAction: api.RouteAction_REJECT,
		}})
	})
}

// clean takes everything out of a server that was used and has no neighbour.
func (in *instance) clean(ctx context.Context) error {
	if !in.used {
		return nil
	}
	err := bounded(ctx, "clean", func(ctx context.Context) error {
		var errs error
		for _, f := range []*api.Family{ipv4Unicast(), ipv6Unicast()} {
			errs = errors.Join(errs, in.server.DeletePath(ctx, &api.DeletePathRequest{Family: f}))
		}
		return errors.Join(errs, in.server.StopBgp(ctx, &api.StopBgpRequest{}))
	})
	in.used = err != nil
	return err
}

// addPeer makes the neighbour.
func (in *instance) addPeer(ctx context.Context, p *bgp.Peer, addr netip.Addr, password bgp.Secret) error {
	peer := neighbour(p, addr, password)
	err := bounded(ctx, "AddPeer", func(ctx context.Context) error {
		return in.server.AddPeer(ctx, &api.AddPeerRequest{Peer: peer})
	})
	if err == nil {
		in.address = peer.Conf.NeighborAddress
	}
	return err
}

// deletePeer sends a Cease, if there is a connection, and closes it. The error
// says that the peer did not take it in time; then GoBGP goes on trying.
func (in *instance) deletePeer(ctx context.Context) error {
	if in.address == "" {
		return nil
	}
	select {
	case <-in.freed:
	default:
	}
	in.closing.Store(true)
	err := bounded(ctx, "DeletePeer", func(ctx context.Context) error {
		return in.server.DeletePeer(ctx, &api.DeletePeerRequest{Address: in.address})
	})
	in.address = ""
	if err != nil {
		return err
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-in.freed:
		return nil
	case <-timer.C:
		return fmt.Errorf("the peer did not take the Cease within %s; the connection ends with its hold time", closeTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// peer returns what GoBGP knows of the neighbour.
func (in *instance) peer(ctx context.Context) (*api.Peer, error) {
	var found *api.Peer
	err := bounded(ctx, "ListPeer", func(ctx context.Context) error {
		return in.server.ListPeer(ctx, &api.ListPeerRequest{Address: in.address}, func(p *api.Peer) { found = p })
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("gobgp: neighbour %s is not there", in.address)
	}
	return found, nil
}

// neighbour says to GoBGP what a peer is.
func neighbour(p *bgp.Peer, addr netip.Addr, password bgp.Secret) *api.Peer {
	hold, keepalive := p.EffectiveTimers()
	retry := DefaultConnectRetry
	if p.ConnectRetry != nil {
		retry = *p.ConnectRetry
	}
	asn := p.PeerASN
	if p.Dynamic == bgp.Internal {
		asn = p.ASN()
	}
	n := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: addr.String(), PeerAsn: asn, LocalAsn: p.ASN(), AuthPassword: string(password),
		},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime: seconds(hold), KeepaliveInterval: seconds(keepalive), ConnectRetry: seconds(retry),
		}},
		Transport: &api.Transport{
			PassiveMode: p.Passive, RemotePort: uint32(p.EffectivePort()), BindInterface: p.VRF,
		},
		EbgpMultihop: &api.EbgpMultihop{Enabled: p.EBGPMultihop, MultihopTtl: 255},
	}
	if p.Source.IsValid() && bgp.FamilyOf(p.Source) == bgp.FamilyOf(addr) {
		n.Transport.LocalAddress = p.Source.String()
	}
	if p.GracefulRestart {
		n.GracefulRestart = &api.GracefulRestart{
			Enabled: true, RestartTime: uint32(seconds(p.EffectiveRestartTime())), DeferralTime: deferral, LocalRestarting: true,
		}
	}
	for _, f := range []struct {
		family bgp.Families
		name   *api.Family
	}{{bgp.IPv4, ipv4Unicast()}, {bgp.IPv6, ipv6Unicast()}} {
		if p.EffectiveFamilies().Has(f.family) {
			n.AfiSafis = append(n.AfiSafis, &api.AfiSafi{
				Config:            &api.AfiSafiConfig{Family: f.name, Enabled: true},
				MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: p.GracefulRestart}},
			})
		}
	}
	return n
}

func seconds(d time.Duration) uint64 { return uint64(d / time.Second) }

func ipv4Unicast() *api.Family {
	return &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}
}

func ipv6Unicast() *api.Family {
	return &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}
}
