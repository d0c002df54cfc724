package config

import (
	"errors"
	"fmt"
)

// Fault is what kind of mistake a request has; it decides on the Event and on what happens to the addresses that the
// Service holds.
type Fault int

const (
	// FaultNoClusterIP: the Service has no cluster IP and no families, so nobody knows what to give it.
	FaultNoClusterIP Fault = iota + 1
	// FaultNotEnoughClusterIPs: RequireDualStack with fewer than two cluster IPs.
	FaultNotEnoughClusterIPs
	// FaultClusterIPFamily: the cluster IPs are not one address, nor one of each family.
	FaultClusterIPFamily
	// FaultStatusFamily: the status holds something that is not one address, nor one of each family.
	FaultStatusFamily
	// FaultMalformed: a wish that cannot be read.
	FaultMalformed
	// FaultUnmet: a wish that can be read and that no pool could ever meet.
	FaultUnmet
)

// Reasons of Warning Events about requests, as MetalLB has them.
const (
	ReasonAllocationFailed     = "AllocationFailed"
	ReasonLoadBalancerFailed   = "LoadBalancerFailed"
	ReasonNotEnoughClusterIPs  = "not enough clusterips"
	ReasonClusterIPsIPFamily   = "noclusterIPsIPFamily"
	ReasonLoadBalancerIPFamily = "nolbIPsIPFamily"
)

// RequestError says what is wrong with what a Service asks for.
type RequestError struct {
	Fault Fault
	// Field is the path of the field, or the word annotation and its key.
	Field string
	// Value is the value as the Service has it, trimmed.
	Value string
	// Detail says what is wrong with the value, and the way out.
	Detail string
	// Err is the cause, or nil.
	Err error
}

// Error returns the field, the value and what is wrong with it.
func (e *RequestError) Error() string {
	return fmt.Sprintf("%s: %s %s", e.Field, quote(e.Value), e.Detail)
}

// Unwrap returns e.Err.
func (e *RequestError) Unwrap() error { return e.Err }

// EventReason returns the reason of the Warning Event that an error of [ServiceRequest] or [CheckStatus] deserves, for
// a Service that holds an address or does not. It is empty when there should be no Event: a Service that has no
// cluster IP yet is about to get one. clears says that the Service loses what it holds; it follows MetalLB, which lets
// a Service keep its address while its wishes cannot be read, and takes it when they cannot be met.
func EventReason(err error, holds bool) (reason string, clears bool) {
	var re *RequestError
	if !errors.As(err, &re) {
		return ReasonAllocationFailed, false
	}
	switch re.Fault {
	case FaultNoClusterIP:
		return "", true
	case FaultNotEnoughClusterIPs:
		return ReasonNotEnoughClusterIPs, true
	case FaultStatusFamily:
		return ReasonLoadBalancerIPFamily, true
	case FaultUnmet:
		return ReasonAllocationFailed, true
	case FaultClusterIPFamily:
		if holds {
			return ReasonClusterIPsIPFamily, false
		}
	case FaultMalformed:
		if holds {
			return ReasonLoadBalancerFailed, false
		}
	}
	return ReasonAllocationFailed, false
}

// Adoptable says whether a Service whose request has this error keeps the addresses that it holds, so that they must
// be adopted after a restart before anybody else can get them.
func Adoptable(err error) bool {
	_, clears := EventReason(err, true)
	return !clears
}
