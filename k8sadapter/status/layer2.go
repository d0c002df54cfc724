package status

import (
	"log/slog"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// Layer2Config configures a Layer2.
type Layer2Config struct {
	Store Store[*v1beta1.ServiceL2Status] // required
	// Node is the node whose objects are kept. Required.
	Node string
	// Owner is the speaker's pod: its objects go with it. Nil: they stay until they are pruned.
	Owner  *metav1.OwnerReference
	Logger *slog.Logger // nil discards
}

// Layer2 keeps the ServiceL2Statuses of one node: one for each Service that the node announces on the LAN. The items of
// Set are the links that it announces on; none means every link.
type Layer2 struct {
	services[*v1beta1.ServiceL2Status]
}

// NewLayer2 returns a Layer2 that writes nothing before the first Set.
func NewLayer2(cfg Layer2Config) *Layer2 {
	return &Layer2{newServices(layer2Kind(), cfg.Store, cfg.Node, cfg.Owner, cfg.Logger)}
}

func layer2Kind() serviceKind[*v1beta1.ServiceL2Status] {
	return serviceKind[*v1beta1.ServiceL2Status]{
		prefix: "l2-",
		empty:  func() *v1beta1.ServiceL2Status { return &v1beta1.ServiceL2Status{} },
		about: func(s *v1beta1.ServiceL2Status) identity {
			return identity{s.Status.Node, types.NamespacedName{Namespace: s.Status.ServiceNamespace, Name: s.Status.ServiceName}}
		},
		set: func(s *v1beta1.ServiceL2Status, about identity, links []string) bool {
			before := s.Status
			s.Status = v1beta1.ServiceL2StatusStatus{
				Node: about.node, ServiceName: about.service.Name, ServiceNamespace: about.service.Namespace,
			}
			for _, link := range links {
				s.Status.Interfaces = append(s.Status.Interfaces, v1beta1.InterfaceInfo{Name: link})
			}
			return before.Node != s.Status.Node || !slices.Equal(before.Interfaces, s.Status.Interfaces)
		},
	}
}
