package main

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// manifests holds the objects of the lab; what ends in .tmpl is filled in with
// the nodes.
//
//go:embed manifests
var manifests embed.FS

// servicePort is the port of every Service and web server.
const servicePort = 80

// nodePlan is what a node is called and where it is on the LAN.
type nodePlan struct {
	Name   string
	Number byte
	V4, V6 netip.Addr
}

// planNode returns the plan of node-number: 192.0.2.number and
// 2001:db8:77::number, with the link-layer address 02:00:00:00:00:number.
func planNode(number byte) nodePlan {
	p := planHost(number)
	p.Name = fmt.Sprintf("node-%d", number)
	return p
}

func planHost(number byte) nodePlan {
	v6 := netip.MustParseAddr("2001:db8:77::").As16()
	v6[15] = number
	return nodePlan{
		Number: number,
		V4:     netip.AddrFrom4([4]byte{192, 0, 2, number}),
		V6:     netip.AddrFrom16(v6),
	}
}

// Addr returns the address of a family, "IPv4" or "IPv6"; it is for the
// templates.
func (p nodePlan) Addr(family string) netip.Addr {
	if family == "IPv6" {
		return p.V6
	}
	return p.V4
}

// MAC returns the link-layer address.
func (p nodePlan) MAC() net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, p.Number} }

// poolPrefixes are the addresses of manifests/pools.yaml: what the kernels of
// the nodes take as their own.
func poolPrefixes() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("192.0.2.200/29"), netip.MustParsePrefix("2001:db8:77::200:0/125")}
}

// slicePlan is one EndpointSlice of the lab.
type slicePlan struct{ Service, Family string }

func planSlices() []slicePlan {
	return []slicePlan{{"api", "IPv6"}, {"shop", "IPv4"}, {"web", "IPv4"}}
}

// writeManifests writes the objects of the lab into a new directory.
func writeManifests(dir string, nodes []nodePlan) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	files, err := fs.Glob(manifests, "manifests/*")
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	for _, file := range files {
		data, err := fs.ReadFile(manifests, file)
		if err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
		name, isTemplate := strings.CutSuffix(filepath.Base(file), ".tmpl")
		if isTemplate {
			if data, err = fill(string(data), nodes); err != nil {
				return fmt.Errorf("manifests: %s: %w", file, err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
	}
	return nil
}

func fill(text string, nodes []nodePlan) ([]byte, error) {
	tmpl, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tmpl.Execute(&out, map[string]any{"Nodes": nodes, "Slices": planSlices()})
	return out.Bytes(), err
}
