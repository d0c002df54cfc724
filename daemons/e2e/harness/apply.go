package harness

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Manifests renders the kustomize base of daemons/deploy, in the order in which
// kustomize applies: namespaces and custom resource definitions come first.
func Manifests(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	dir, err := module()
	require.NoError(t, err)
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	rendered, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "..", "deploy"))
	require.NoError(t, err, "kustomize build daemons/deploy")
	var objects []*unstructured.Unstructured
	for _, r := range rendered.Resources() {
		content, err := r.Map()
		require.NoError(t, err)
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	require.NotEmpty(t, objects)
	return objects
}

// Apply applies one object on the server's side, first as a dry run and then for
// real. After a CustomResourceDefinition it waits until the kind is served.
func (s *Server) Apply(t testing.TB, object *unstructured.Unstructured) {
	t.Helper()
	client := s.resource(t, object)
	for _, options := range []metav1.ApplyOptions{
		{FieldManager: "herald-e2e", DryRun: []string{metav1.DryRunAll}},
		{FieldManager: "herald-e2e"},
	} {
		_, err := client.Apply(t.Context(), object.GetName(), object, options)
		require.NoError(t, err, "apply %s %s, dry run %v", object.GetKind(), object.GetName(), options.DryRun)
	}
	if object.GetKind() == "CustomResourceDefinition" {
		s.awaitEstablished(t, object.GetName())
	}
}

// resource returns the client for an object's kind and namespace.
func (s *Server) resource(t testing.TB, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	kind := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err, "the server has no kind %v", kind)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return s.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	return s.Dynamic.Resource(mapping.Resource)
}

func (s *Server) awaitEstablished(t testing.TB, name string) {
	t.Helper()
	definitions := s.Dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	var served schema.GroupKind
	Eventually(t, "custom resource definition "+name, func() string {
		object, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return err.Error()
		}
		served = schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return ""
			}
		}
		return "it is not established"
	})
	Eventually(t, "discovery of "+served.Kind, func() string {
		s.mapper.Reset()
		if _, err := s.mapper.RESTMapping(served); err != nil {
			return err.Error()
		}
		return ""
	})
}
