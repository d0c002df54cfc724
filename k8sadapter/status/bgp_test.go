package status

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

func TestBGP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory[*v1beta1.ServiceBGPStatus]{}
		labels := map[string]string{LabelNode: "n1", LabelServiceName: "web", LabelServiceNamespace: "shop"}
		store.put(watch.Added, &v1beta1.ServiceBGPStatus{ // written for another node under our labels
			ObjectMeta: metav1.ObjectMeta{Name: "bgp-wrong", Labels: labels},
			Status:     v1beta1.ServiceBGPStatusStatus{Node: "n2", ServiceName: "web", ServiceNamespace: "shop"},
		})
		owner := &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "speaker-x", UID: "u"}
		b := NewBGP(BGPConfig{Store: store, Node: "n1", Owner: owner})
		running(t, b.Run, func(settle func()) {
			name := nameFor("bgp-", "n1", service("web"))
			set := func(peers ...string) {
				b.Set(map[types.NamespacedName][]string{service("web"): peers})
				settle()
			}
			set("tor-b", "tor-a")
			require.Len(t, store.all(), 1)
			got := store.all()[name]
			assert.Equal(t, labels, got.Labels)
			assert.Equal(t, []metav1.OwnerReference{*owner}, got.OwnerReferences)
			assert.Equal(t, v1beta1.ServiceBGPStatusStatus{
				Node: "n1", ServiceName: "web", ServiceNamespace: "shop", Peers: []string{"tor-a", "tor-b"},
			}, got.Status)
			writes := store.count()
			set("tor-a", "tor-b")
			assert.Equal(t, writes, store.count(), "no news, no write")
			set("tor-b")
			assert.Equal(t, []string{"tor-b"}, store.all()[name].Status.Peers)
			b.Set(nil)
			settle()
			assert.Empty(t, store.all())
		})
	})
}
