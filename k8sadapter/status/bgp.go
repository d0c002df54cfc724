package status

import (
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// BGPConfig configures a BGP.
type BGPConfig struct {
	Store Store[*v1beta1.ServiceBGPStatus] // required
	// Node is the node whose objects are kept. Required.
	Node string
	// Owner is the speaker's pod: its objects go with it. Nil: they stay until they are pruned.
	Owner  *metav1.OwnerReference
	Logger *slog.Logger // nil discards
}

// BGP keeps the ServiceBGPStatuses of one node: one for each Service that the node announces to routers. The items of Set
// are the names of the BGPPeers that it is announced to.
type BGP struct {
	services[*v1beta1.ServiceBGPStatus]
}

// NewBGP returns a BGP that writes nothing before the first Set.
func NewBGP(cfg BGPConfig) *BGP {
	return &BGP{newServices(bgpKind(), cfg.Store, cfg.Node, cfg.Owner, cfg.Logger)}
}

func bgpKind() serviceKind[*v1beta1.ServiceBGPStatus] {
	return serviceKind[*v1beta1.ServiceBGPStatus]{
		prefix: "bgp-",
		empty:  func() *v1beta1.ServiceBGPStatus { return &v1beta1.ServiceBGPStatus{} },
		about: func(s *v1beta1.ServiceBGPStatus) identity {
			return identity{s.Status.Node, types.NamespacedName{Namespace: s.Status.ServiceNamespace, Name: s.Status.ServiceName}}
		},
		set: func(s *v1beta1.ServiceBGPStatus, about identity, peers []string) bool {
			before := s.Status
			s.Status = v1beta1.ServiceBGPStatusStatus{
				Node: about.node, ServiceName: about.service.Name, ServiceNamespace: about.service.Namespace, Peers: peers,
			}
			return before.Node != s.Status.Node || !slices.Equal(before.Peers, s.Status.Peers)
		},
	}
}
