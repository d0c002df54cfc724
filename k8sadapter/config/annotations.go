package config

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of Services. The legacy ones are read where the current one is absent.
const (
	// AnnotationAddressPool names the pool that the Service wants its addresses from.
	AnnotationAddressPool = "metallb.io/address-pool"
	// AnnotationLoadBalancerIPs lists the addresses that the Service wants, at most one of each family, separated
	// by commas.
	AnnotationLoadBalancerIPs = "metallb.io/loadBalancerIPs"
	// AnnotationAllowSharedIP is the sharing key: Services with the same one may share an address when their ports
	// differ and their traffic goes to the same backends.
	AnnotationAllowSharedIP = "metallb.io/allow-shared-ip"
	// AnnotationAllocatedFrom names the pool that the addresses in the status were taken from. The controller
	// writes it; it marks an address as ours.
	AnnotationAllocatedFrom = "metallb.io/ip-allocated-from-pool"

	LegacyAddressPool     = legacyPrefix + "address-pool"
	LegacyLoadBalancerIPs = legacyPrefix + "loadBalancerIPs"
	LegacyAllowSharedIP   = legacyPrefix + "allow-shared-ip"
	LegacyAllocatedFrom   = legacyPrefix + "ip-allocated-from-pool"

	legacyPrefix = "metallb.universe.tf/"
)

// Reasons of the Events that a [Notice] stands for.
const (
	// ReasonDeprecatedAnnotation: an annotation has the prefix metallb.universe.tf.
	ReasonDeprecatedAnnotation = "deprecatedAnnotation"
	// ReasonConflictingAnnotations: two places ask for different things, and one of them is not followed.
	ReasonConflictingAnnotations = "conflictingAnnotations"
	// ReasonSharingIgnored: the Service has a sharing key and cannot share.
	ReasonSharingIgnored = "sharingIgnored"
)

// Notice is something that a user should know about a Service that works nevertheless. It is worth a Warning Event,
// once, on the Service.
type Notice struct {
	Reason  string
	Message string
}

// PoolHint returns the name of the pool that the addresses of the Service were taken from, according to the Service:
// the value of [AnnotationAllocatedFrom], or of [LegacyAllocatedFrom] where that is absent or empty. It is empty for
// a Service that was never served. It is the hint that [Config.PoolOf] wants.
func PoolHint(svc *corev1.Service) string {
	if svc == nil {
		return ""
	}
	if pool := svc.Annotations[AnnotationAllocatedFrom]; pool != "" {
		return pool
	}
	return svc.Annotations[LegacyAllocatedFrom]
}

// SharesIP says whether the Service has the annotation for a sharing key, under either prefix and whatever its
// value. MetalLB, and so Herald, does not announce such a Service over layer 2 where an advertisement has service
// selectors.
func SharesIP(svc *corev1.Service) bool {
	if svc == nil {
		return false
	}
	_, current := svc.Annotations[AnnotationAllowSharedIP]
	_, legacy := svc.Annotations[LegacyAllowSharedIP]
	return current || legacy
}

// wish is the trimmed value of an annotation, and the key under which it was found.
type wish struct {
	key, value string
}

// annotation reads the annotation key of the Service, or its legacy twin where key is absent. A key that is present
// but empty asks for nothing and, as in MetalLB, still hides its twin.
func annotation(svc *corev1.Service, key, legacy string) (wish, []Notice) {
	current, hasCurrent := svc.Annotations[key]
	old, hasOld := svc.Annotations[legacy]
	current, old = strings.TrimSpace(current), strings.TrimSpace(old)
	var notices []Notice
	if hasOld {
		notices = append(notices, Notice{
			Reason:  ReasonDeprecatedAnnotation,
			Message: fmt.Sprintf("annotation %s is deprecated; use %s", legacy, key),
		})
	}
	switch {
	case hasCurrent && hasOld && current != old:
		notices = append(notices, Notice{
			Reason: ReasonConflictingAnnotations,
			Message: fmt.Sprintf("annotation %s (%s) and annotation %s (%s) differ; %s is followed; remove the other one",
				key, quote(current), legacy, quote(old), key),
		})
		return wish{key, current}, notices
	case hasCurrent || !hasOld:
		return wish{key, current}, notices
	default:
		return wish{legacy, old}, notices
	}
}

// quote returns text in quotes, shortened when it is too long for a message.
func quote(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
