package daemon

import (
	"context"
	"log/slog"

	"github.com/heraldlb/herald/k8sadapter/source"
	"github.com/heraldlb/herald/k8sadapter/speaker"
	"github.com/heraldlb/herald/k8sadapter/status"
)

// SpeakerStatuses has a speaker tell of itself in status objects: it sets the hooks of cfg, and returns what writes.
func SpeakerStatuses(ctx context.Context, kube *source.Kube, podName string, cfg *speaker.Config, log *slog.Logger) []func(context.Context) error {
	owner := Owner(ctx, kube, podName, log)
	state := status.NewConfiguration(status.ConfigurationConfig{
		Store: status.ConfigurationStates(kube.MetalLB(), kube.Namespace()), Name: "speaker-" + cfg.Node, Owner: owner,
		Labels:    map[string]string{status.LabelComponent: "speaker", status.LabelNodeName: cfg.Node},
		Condition: status.ConditionSpeaker, Logger: log,
	})
	l2 := status.NewLayer2(status.Layer2Config{
		Store: status.ServiceL2Statuses(kube.MetalLB(), kube.Namespace()), Node: cfg.Node, Owner: owner, Logger: log,
	})
	bgp := status.NewBGP(status.BGPConfig{
		Store: status.ServiceBGPStatuses(kube.MetalLB(), kube.Namespace()), Node: cfg.Node, Owner: owner, Logger: log,
	})
	cfg.OnConfiguration, cfg.OnAnnounced, cfg.OnRoutes = state.Set, l2.Set, bgp.Set
	return []func(context.Context) error{state.Run, l2.Run, bgp.Run}
}
