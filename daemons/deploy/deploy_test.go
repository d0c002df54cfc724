package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const metallbSystem = "metallb-system"

// kustomization is what this base uses of the kind.
type kustomization struct {
	metav1.TypeMeta `json:",inline"`
	Resources       []string `json:"resources"`
}

// definition is the outer part of a CustomResourceDefinition. The schema inside is checked with the types.
type definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// newObject returns an empty object of the kind, or nil.
func newObject(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case "v1 Namespace":
		return new(corev1.Namespace)
	case "v1 ServiceAccount":
		return new(corev1.ServiceAccount)
	case "apps/v1 Deployment":
		return new(appsv1.Deployment)
	case "apps/v1 DaemonSet":
		return new(appsv1.DaemonSet)
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return new(rbacv1.ClusterRole)
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return new(rbacv1.ClusterRoleBinding)
	case "rbac.authorization.k8s.io/v1 Role":
		return new(rbacv1.Role)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return new(rbacv1.RoleBinding)
	case "apiextensions.k8s.io/v1 CustomResourceDefinition":
		return new(definition)
	case "kustomize.config.k8s.io/v1beta1 Kustomization":
		return new(kustomization)
	}
	return nil
}

// manifests returns the objects of every YAML file, by file. It fails on what does not decode strictly.
func manifests(t *testing.T) map[string][]any {
	t.Helper()
	out := make(map[string][]any)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := strings.TrimPrefix(string(data), "---\n")
		for doc := range strings.SplitSeq(text, "\n---\n") {
			var meta metav1.TypeMeta
			require.NoError(t, yaml.Unmarshal([]byte(doc), &meta), path)
			obj := newObject(meta.APIVersion, meta.Kind)
			require.NotNilf(t, obj, "%s: unexpected kind %s %s", path, meta.APIVersion, meta.Kind)
			require.NoError(t, yaml.UnmarshalStrict([]byte(doc), obj), path)
			out[path] = append(out[path], obj)
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

// all returns the objects of one type.
func all[T any](t *testing.T) []T {
	t.Helper()
	var out []T
	for _, objs := range manifests(t) {
		for _, obj := range objs {
			if o, ok := obj.(T); ok {
				out = append(out, o)
			}
		}
	}
	return out
}

// one returns the only object of one type.
func one[T any](t *testing.T) T {
	t.Helper()
	objs := all[T](t)
	require.Len(t, objs, 1)
	return objs[0]
}

func TestKustomizationListsEveryFile(t *testing.T) {
	var files []string
	for path := range manifests(t) {
		if path != "kustomization.yaml" {
			files = append(files, filepath.ToSlash(path))
		}
	}
	require.NotEmpty(t, files)
	assert.ElementsMatch(t, files, one[*kustomization](t).Resources)
}

func TestNamespaces(t *testing.T) {
	ns := one[*corev1.Namespace](t)
	assert.Equal(t, metallbSystem, ns.Name)
	assert.Equal(t, "privileged", ns.Labels["pod-security.kubernetes.io/enforce"])
	for path, objs := range manifests(t) {
		for _, obj := range objs {
			switch o := obj.(type) {
			case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *corev1.Namespace, *definition, *kustomization:
			case metav1.Object:
				assert.Equal(t, metallbSystem, o.GetNamespace(), "%s: %s", path, o.GetName())
			}
		}
	}
}

// rights returns what the ServiceAccount may do: "verb group/resource", with the namespace in brackets where the right
// is limited to one.
func rights(t *testing.T, account string) []string {
	t.Helper()
	var out []string
	add := func(rules []rbacv1.PolicyRule, suffix string) {
		for _, rule := range rules {
			require.Empty(t, rule.NonResourceURLs)
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						out = append(out, verb+" "+strings.TrimPrefix(group+"/"+resource, "/")+suffix)
					}
				}
			}
		}
	}
	bound := func(subjects []rbacv1.Subject) bool {
		return slices.Contains(subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: account, Namespace: metallbSystem})
	}
	for _, b := range all[*rbacv1.ClusterRoleBinding](t) {
		for _, r := range all[*rbacv1.ClusterRole](t) {
			if bound(b.Subjects) && b.RoleRef == (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.Name}) {
				add(r.Rules, "")
			}
		}
	}
	for _, b := range all[*rbacv1.RoleBinding](t) {
		for _, r := range all[*rbacv1.Role](t) {
			if bound(b.Subjects) && b.RoleRef == (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.Name}) {
				add(r.Rules, " ["+r.Namespace+"]")
			}
		}
	}
	return out
}

func expand(verbs []string, things ...string) []string {
	var out []string
	for _, thing := range things {
		for _, verb := range verbs {
			out = append(out, verb+" "+thing)
		}
	}
	return out
}

// The rights are those in this list, and no others.
func TestRights(t *testing.T) {
	read, write := []string{"get", "list", "watch"}, []string{"patch", "update"}
	metrics := []string{"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"}
	events := []string{"create events", "patch events"}
	config := expand(read, "metallb.io/ipaddresspools ["+metallbSystem+"]", "metallb.io/l2advertisements ["+metallbSystem+"]")
	common := slices.Concat(metrics, events, config, expand(read, "services", "namespaces", "nodes"))
	lease := expand([]string{"create", "get", "update"}, "coordination.k8s.io/leases ["+metallbSystem+"]")
	statuses := slices.Concat(
		expand([]string{"get", "list", "watch", "create", "delete"}, "metallb.io/configurationstates ["+metallbSystem+"]", "metallb.io/servicel2statuses ["+metallbSystem+"]"),
		expand([]string{"update"}, "metallb.io/configurationstates/status ["+metallbSystem+"]", "metallb.io/servicel2statuses/status ["+metallbSystem+"]"))
	common = slices.Concat(common, statuses)
	own := func(things ...string) (out []string) {
		for _, thing := range things {
			out = append(out, thing+" ["+metallbSystem+"]")
		}
		return out
	}
	bgp := slices.Concat(
		expand(read, own("metallb.io/bgppeers", "metallb.io/bgpadvertisements", "metallb.io/bfdprofiles", "metallb.io/communities", "secrets")...),
		expand([]string{"get", "list", "watch", "create", "delete"}, own("metallb.io/servicebgpstatuses")...),
		expand([]string{"update"}, own("metallb.io/servicebgpstatuses/status")...))
	tests := map[string][]string{
		"controller": slices.Concat(common, expand(write, "services/status", "metallb.io/ipaddresspools/status ["+metallbSystem+"]"), lease,
			[]string{"create secrets [" + metallbSystem + "]", "get secrets [" + metallbSystem + "]", "get apps/deployments [" + metallbSystem + "]"},
			expand([]string{"get", "list", "watch", "delete"}, own("metallb.io/servicebgpstatuses")...)),
		"speaker": slices.Concat(common, expand(read, "discovery.k8s.io/endpointslices"), expand([]string{"get", "list"}, own("pods")...), bgp),
	}
	for account, want := range tests {
		t.Run(account, func(t *testing.T) { assert.ElementsMatch(t, want, rights(t, account)) })
	}
	assert.Len(t, all[*corev1.ServiceAccount](t), len(tests))
}

// confined returns the only container of the pod, having checked what both have in common.
func confined(t *testing.T, component string, selector *metav1.LabelSelector, pod corev1.PodTemplateSpec) corev1.Container {
	t.Helper()
	assert.Equal(t, component, pod.Spec.ServiceAccountName)
	match, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	assert.True(t, match.Matches(labels.Set(pod.Labels)))
	assert.Equal(t, map[string]string{"app": "metallb", "component": component}, pod.Labels)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.Spec.SecurityContext.SeccompProfile.Type)
	require.Len(t, pod.Spec.Containers, 1)
	assert.Empty(t, pod.Spec.InitContainers)
	c := pod.Spec.Containers[0]
	assert.Equal(t, "herald-"+component+":latest", c.Image)
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	assert.Nil(t, c.SecurityContext.Privileged)
	assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	assert.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path)
	assert.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	assert.Equal(t, "metadata.namespace", env(c, "METALLB_NAMESPACE").ValueFrom.FieldRef.FieldPath)
	return c
}

func env(c corev1.Container, name string) corev1.EnvVar {
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}
	}
	return c.Env[i]
}

func TestController(t *testing.T) {
	d := one[*appsv1.Deployment](t)
	c := confined(t, "controller", d.Spec.Selector, d.Spec.Template)
	assert.Equal(t, "controller", d.Name)
	assert.Equal(t, int32(1), *d.Spec.Replicas)
	assert.Equal(t, appsv1.RollingUpdateDeploymentStrategyType, d.Spec.Strategy.Type, "the Lease keeps two from allocating side by side")
	assert.Equal(t, "metadata.name", env(c, "METALLB_POD_NAME").ValueFrom.FieldRef.FieldPath)
	pod := d.Spec.Template.Spec
	assert.True(t, *pod.SecurityContext.RunAsNonRoot)
	assert.Equal(t, int64(65534), *pod.SecurityContext.RunAsUser)
	assert.False(t, pod.HostNetwork)
	assert.Empty(t, pod.Volumes)
	assert.Empty(t, c.SecurityContext.Capabilities.Add)
}

func TestSpeaker(t *testing.T) {
	d := one[*appsv1.DaemonSet](t)
	c := confined(t, "speaker", d.Spec.Selector, d.Spec.Template)
	assert.Equal(t, "speaker", d.Name)
	pod := d.Spec.Template.Spec
	assert.True(t, pod.HostNetwork)
	assert.Equal(t, int64(30), *pod.TerminationGracePeriodSeconds)
	assert.Equal(t, []corev1.Capability{"NET_RAW"}, c.SecurityContext.Capabilities.Add)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		assert.Equal(t, "127.0.0.1", probe.HTTPGet.Host, "the speaker listens for probes on the loopback only")
		assert.Equal(t, 17472, probe.HTTPGet.Port.IntValue())
	}
	assert.Equal(t, "spec.nodeName", env(c, "METALLB_NODE_NAME").ValueFrom.FieldRef.FieldPath)
	assert.Equal(t, "status.podIP", env(c, "METALLB_ML_BIND_ADDR").ValueFrom.FieldRef.FieldPath)
	others, err := labels.Parse(env(c, "METALLB_ML_LABELS").Value)
	require.NoError(t, err)
	assert.True(t, others.Matches(labels.Set(d.Spec.Template.Labels)), "the speakers must find each other")
	assert.False(t, others.Empty())

	require.Len(t, pod.Volumes, 2)
	require.Len(t, c.VolumeMounts, 2)
	assert.Equal(t, "memberlist", pod.Volumes[0].Secret.SecretName)
	assert.Equal(t, int32(0o400), *pod.Volumes[0].Secret.DefaultMode)
	assert.Equal(t, pod.Volumes[0].Name, c.VolumeMounts[0].Name)
	assert.Equal(t, env(c, "METALLB_ML_SECRET_KEY_PATH").Value, c.VolumeMounts[0].MountPath)
	assert.Equal(t, "/run/herald", pod.Volumes[1].HostPath.Path, "nothing else of the node's files")
	assert.Equal(t, pod.Volumes[1].Name, c.VolumeMounts[1].Name)
	assert.Contains(t, c.Args, "--run-dir="+c.VolumeMounts[1].MountPath)
}
