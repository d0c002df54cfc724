package announce

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ethernet is ARPHRD_ETHER, the hardware type of everything that speaks
// Ethernet on Linux, bridges, bonds, VLANs and veth included. InfiniBand, with
// its 20-byte addresses, is 32.
const ethernet = 1

// DefaultExclude returns the patterns of link names that are not used unless
// Config.Exclude says otherwise: MetalLB's shipped list, and the devices of
// container runtimes and network plug-ins of today. These links lead to pods of
// this node, not to the network.
func DefaultExclude() []string {
	return []string{
		// MetalLB's list.
		"^docker.*", "^cbr.*", "^dummy.*", "^virbr.*", "^lxcbr.*", "^veth.*", "^lo$", "^cali.*",
		"^tunl.*", "^flannel.*", "^kube-ipvs.*", "^cni.*", "^nodelocaldns.*", "^lxc.*",
		// Cilium, kube-router and kube-proxy, Antrea, OVN-Kubernetes and Kube-OVN with their switch,
		// Calico's overlays, Weave.
		"^cilium_.*", "^kube-.*", "^antrea-.*",
		"^ovn.*", "^ovs-system$", "^br-int$", "^genev_sys_.*", "^vxlan_sys_.*", "^[0-9a-f]{12}_h$", "^mirror0$",
		`^vxlan(-v6)?\.calico$`, `^wireguard\.cali$`, "^weave.*", "^vethwe.*",
		// Cloud plug-ins' pod devices.
		"^eni[0-9a-f]{11}$", "^azv[0-9a-f]+$", "^gke[0-9a-f]{11}$",
		// User networks of Docker, Podman, nerdctl.
		"^br-[0-9a-f]{12}$", "^podman[0-9]+$", "^nerdctl[0-9]+$",
	}
}

// compileExclude joins the patterns as alternatives. They are unanchored unless
// they anchor themselves, as MetalLB reads them. No pattern gives nil.
func compileExclude(patterns []string) (*regexp.Regexp, error) {
	var errs []error
	parts := make([]string, 0, len(patterns))
	for _, p := range patterns {
		if _, err := regexp.Compile(p); err != nil {
			errs = append(errs, fmt.Errorf("announce: exclusion pattern %q: %w", p, err))
			continue
		}
		parts = append(parts, "(?:"+p+")")
	}
	if len(parts) == 0 || len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return regexp.Compile(strings.Join(parts, "|"))
}

// unusable says why a link cannot announce, or "" if it can.
func unusable(l Link, exclude *regexp.Regexp) string {
	switch {
	case exclude != nil && exclude.MatchString(l.Name):
		return "excluded by name"
	case l.Type != ethernet || len(l.HardwareAddr) != len(mac{}):
		return "not Ethernet"
	case l.HardwareAddr[0]&1 != 0 || mac(l.HardwareAddr) == mac{}:
		return "no unicast MAC"
	case l.NoARP:
		return "does no ARP"
	case l.Master != 0:
		return "port of a bridge or bond"
	case !l.Up:
		return "down or without carrier"
	default:
		return ""
	}
}
