package config

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// BFDProfile is a profile in force. Zero values stand for the defaults of whoever runs BFD.
type BFDProfile struct {
	Name              string
	Receive, Transmit time.Duration
	Multiplier        int
	EchoInterval      time.Duration
	Echo, Passive     bool
	MinTTL            int

	uid types.UID
}

// parseBFD checks one profile.
func parseBFD(obj *v1beta1.BFDProfile) (*BFDProfile, faults) {
	p := &BFDProfile{Name: obj.Name, uid: obj.UID}
	var bad faults
	if obj.Name == "" {
		bad = append(bad, &FieldError{Field: "metadata.name", Reason: "is empty; give the profile a name"})
	}
	number := func(field string, in *uint32, least, most uint32) int {
		switch {
		case in == nil:
			return 0
		case *in < least || *in > most:
			bad = append(bad, &FieldError{
				Field: "spec." + field, Value: strconv.FormatUint(uint64(*in), 10), Reason: fmt.Sprintf("is outside %d to %d", least, most),
			})
		}
		return int(*in)
	}
	interval := func(field string, in *uint32) time.Duration {
		return time.Duration(number(field, in, 10, 60000)) * time.Millisecond
	}
	p.Receive = interval("receiveInterval", obj.Spec.ReceiveInterval)
	p.Transmit = interval("transmitInterval", obj.Spec.TransmitInterval)
	p.EchoInterval = interval("echoInterval", obj.Spec.EchoInterval)
	p.Multiplier = number("detectMultiplier", obj.Spec.DetectMultiplier, 2, 255)
	p.MinTTL = number("minimumTtl", obj.Spec.MinimumTTL, 1, 254)
	p.Echo = obj.Spec.EchoMode != nil && *obj.Spec.EchoMode
	p.Passive = obj.Spec.PassiveMode != nil && *obj.Spec.PassiveMode
	return p, bad
}

func (u *update) addBFD(objs []*v1beta1.BFDProfile) {
	u.store.bfd = keepGood(u, v1beta1.KindBFDProfile, objs, u.store.bfd, goodness[*v1beta1.BFDProfile, *BFDProfile]{
		parse: parseBFD,
		use:   func(_ *v1beta1.BFDProfile, p *BFDProfile) { u.cfg.BFDProfiles = append(u.cfg.BFDProfiles, *p) },
		uid:   func(p *BFDProfile) types.UID { return p.uid },
		lost:  "no earlier version is known, so the peers that name it are held back",
	})
}
