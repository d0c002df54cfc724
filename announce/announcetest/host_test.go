package announcetest_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/heraldlb/herald/announce"
	"github.com/heraldlb/herald/announce/announcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHostShowsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := announcetest.NewHost(announcetest.Ethernet(1, "eth0"))
		a, err := announce.New(announce.Config{Open: host.Open, Repeat: 1})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		require.NoError(t, a.SetAddrs([]announce.Advertisement{{Addr: netip.MustParseAddr("2001:db8::10"), Owner: "x"}}))
		synctest.Wait()
		sent := host.Sent()
		require.Len(t, sent, 1)
		require.Equal(t, announce.NDP, sent[0].Protocol)
		require.Equal(t, "eth0", sent[0].Link)
		require.Equal(t, "[ff02::1:ff00:10]", fmt.Sprint(host.Groups("eth0")))
		require.Equal(t, 2, host.Sockets())
		require.False(t, host.Receive("eth1", announce.ARP, nil), "no such link")
		cancel()
		require.NoError(t, <-done)
		require.Zero(t, host.Sockets())
		require.Empty(t, host.Groups("eth0"))
	})
}
