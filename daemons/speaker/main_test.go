package main

import (
	"bytes"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"
)

// asProgram makes the test binary the program itself.
const asProgram = "HERALD_SPEAKER_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

const objects = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: office, namespace: metallb-system}
spec: {addresses: [198.51.100.0/24]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: office, namespace: metallb-system}
---
apiVersion: v1
kind: Node
metadata: {name: kw-01}
---
apiVersion: v1
kind: Node
metadata: {name: kw-02}
---
apiVersion: v1
kind: Node
metadata: {name: kw-03, labels: {node.kubernetes.io/exclude-from-external-load-balancers: ""}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, annotations: {metallb.io/ip-allocated-from-pool: office}}
spec: {type: LoadBalancer, ports: [{port: 80}]}
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}]}}
---
apiVersion: v1
kind: Service
metadata: {name: stranded, namespace: shop}
spec: {type: LoadBalancer, ports: [{port: 80}]}
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], nodeName: kw-01}]
`

func directory(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600))
	return dir
}

func decide(t *testing.T, text, node, members string) (code int, docs []map[string]any, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	code = run(t.Context(), []string{"--manifests", directory(t, text), "--once", "--node-name", node, "--members", members}, &out, &log)
	for doc := range strings.SplitSeq(out.String(), "---\n") {
		if doc == "" {
			continue
		}
		m := map[string]any{}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &m))
		docs = append(docs, m)
	}
	return code, docs, log.String()
}

func TestOncePrintsEveryField(t *testing.T) {
	code, docs, _ := decide(t, objects, "kw-02", "kw-01,kw-02,kw-03")
	assert.Zero(t, code)
	require.Len(t, docs, 4, "each address, even without a pool, and each protocol")
	all := func(reason string) map[string]any {
		return map[string]any{"kw-01": reason, "kw-02": reason, "kw-03": reason}
	}
	doc := func(service, protocol, addr string, more map[string]any) map[string]any {
		d := map[string]any{
			"service": service, "protocol": protocol, "address": addr, "announce": false, "announcer": "", "reason": "",
			"candidates": []any{}, "excluded": map[string]any{}, "interfaces": []any{}, "routes": []any{},
		}
		maps.Copy(d, more)
		return d
	}
	assert.Equal(t, []map[string]any{
		doc("shop/stranded", "bgp", "203.0.113.7", map[string]any{"reason": "ipNotAllowed", "excluded": all("ipNotAllowed")}),
		doc("shop/stranded", "layer2", "203.0.113.7", map[string]any{"reason": "ipNotAllowed", "excluded": all("ipNotAllowed")}),
		doc("shop/web", "bgp", "198.51.100.7", map[string]any{"reason": "notOwner", "excluded": all("notOwner")}),
		doc("shop/web", "layer2", "198.51.100.7", map[string]any{
			"announce": true, "announcer": "kw-02", "candidates": []any{"kw-02", "kw-01"},
			"excluded": map[string]any{"kw-03": "nodeLabeledExcludeBalancers"},
		}),
	}, docs)
}

const routers = objects + `---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor-a, namespace: metallb-system}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.1}
---
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: tor-b, namespace: metallb-system}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 192.0.2.2}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: office, namespace: metallb-system}
spec: {localPref: 120, communities: [east, "64512:7"], aggregationLength: 28, peers: [tor-b, tor-a]}
---
apiVersion: metallb.io/v1beta1
kind: Community
metadata: {name: ours, namespace: metallb-system}
spec: {communities: [{name: east, value: "64512:1"}]}
`

func TestOncePrintsRoutes(t *testing.T) {
	code, docs, log := decide(t, routers, "kw-02", "kw-01,kw-02,kw-03")
	assert.Zero(t, code, log)
	require.Len(t, docs, 4)
	assert.Equal(t, map[string]any{
		"service": "shop/web", "protocol": "bgp", "address": "198.51.100.7", "announce": true, "announcer": "", "reason": "",
		"candidates": []any{"kw-01", "kw-02"}, "excluded": map[string]any{"kw-03": "nodeLabeledExcludeBalancers"}, "interfaces": []any{},
		"routes": []any{map[string]any{
			"prefix": "198.51.100.0/28", "localPref": 120.0, "communities": []any{"64512:1", "64512:7"}, "peers": []any{"tor-a", "tor-b"},
		}},
	}, docs[2])
}

func TestOnceOnAPeerThatIsHeldBack(t *testing.T) {
	code, docs, log := decide(t, strings.Replace(routers, "peerAddress: 192.0.2.1}", "peerAddress: 192.0.2.1, passwordSecret: {name: key}}", 1), "kw-02", "kw-01,kw-02")
	assert.Equal(t, 2, code)
	assert.Contains(t, log, "held back")
	assert.Contains(t, log, "tor-a")
	assert.Equal(t, true, docs[2]["announce"], "the routes do not depend on the peers")

	code, _, log = decide(t, strings.Replace(routers, "192.0.2.2", "192.0.2.1", 1), "kw-02", "kw-01,kw-02")
	assert.Equal(t, 2, code, "one address twice on one node")
	assert.Contains(t, log, "tor-b")
}

func TestOnceForANodeThatNobodyKnows(t *testing.T) {
	code, docs, log := decide(t, objects, "nobody", "kw-01")
	assert.Zero(t, code)
	assert.Len(t, docs, 4)
	assert.Contains(t, log, "nobody")
	assert.Equal(t, "noMatchingAdvertisement", docs[3]["reason"])
	assert.Equal(t, "kw-01", docs[3]["announcer"])
}

func TestOnceOnRejectedObjects(t *testing.T) {
	code, docs, log := decide(t, strings.Replace(objects, "198.51.100.0/24", "198.51.100.300/24", 1), "kw-02", "kw-01,kw-02")
	assert.Equal(t, 2, code)
	assert.Contains(t, log, "198.51.100.300/24")
	require.Len(t, docs, 4)
	assert.Equal(t, "kw-02", docs[3]["announcer"], "a held address goes on being announced")
}

func TestBadStarts(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	addr, _ := taken.Addr().(*net.TCPAddr)
	dir := directory(t, objects)
	base := []string{"--manifests", dir, "--port", "0", "--health-probe-port", "0"}
	tests := map[string]struct {
		args []string
		says []string
	}{
		"FRR":            {append(base, "--node-name", "kw-01", "--bgp-type", "frr"), []string{"--bgp-type frr", "METALLB_BGP_TYPE", "gobgp"}},
		"FRR elsewhere":  {append(base, "--node-name", "kw-01", "--bgp-type", "frr-k8s"), []string{"--bgp-type frr-k8s"}},
		"unknown engine": {append(base, "--node-name", "kw-01", "--bgp-type", "bird"), []string{`"bird"`, "native"}},
		"no node name":   {base, []string{"--node-name", "METALLB_NODE_NAME"}},
		"missing secret": {append(base, "--node-name", "kw-01", "--ml-bindaddr", "127.0.0.1", "--ml-secret-key-path", "/nowhere"), []string{"/nowhere/secretkey", "--ml-secret-key-path"}},
		"bound port": {
			[]string{"--manifests", dir, "--port", "0", "--node-name", "kw-01", "--health-probe-port", strconv.Itoa(addr.Port)},
			[]string{"--health-probe-port", strconv.Itoa(addr.Port)},
		},
		"bound gossip port": {
			append(base, "--node-name", "kw-01", "--ml-bindaddr", "127.0.0.1", "--ml-bindport", strconv.Itoa(addr.Port)),
			[]string{strconv.Itoa(addr.Port), "in use"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			assert.Equal(t, 1, run(t.Context(), tt.args, &bytes.Buffer{}, &stderr))
			last := strings.TrimSpace(stderr.String())
			last = last[strings.LastIndex(last, "\n")+1:]
			for _, want := range tt.says {
				assert.Contains(t, last, want)
			}
		})
	}
}

// TestNoNetRaw starts the speaker where it has no capability over the network: in a user namespace of its own.
func TestNoNetRaw(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--manifests", directory(t, objects), "--node-name", "kw-01", "--port", "0", "--health-probe-port", "0")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	assert.Equal(t, 1, exit.ExitCode())
	last := strings.TrimSpace(string(out))
	last = last[strings.LastIndex(last, "\n")+1:]
	assert.Contains(t, last, "CAP_NET_RAW")
}
