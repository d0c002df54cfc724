package gobgp

import (
	"context"
	"net"
	"net/netip"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/heraldlb/herald/internal/netnstest"
)

func contextWithCancel() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func (l *lab) removeAddr(ns *netnstest.NS, link, cidr string) {
	l.Helper()
	addr, err := netlink.ParseAddr(cidr)
	require.NoError(l.T, err)
	require.NoError(l.T, ns.Netlink().AddrDel(ns.Link(l.T, link), addr))
}

func (l *lab) addRoute(ns *netnstest.NS, cidr string, via netip.Addr) {
	l.Helper()
	_, dst, err := net.ParseCIDR(cidr)
	require.NoError(l.T, err)
	require.NoError(l.T, ns.Netlink().RouteAdd(&netlink.Route{Dst: dst, Gw: via.AsSlice()}))
}
