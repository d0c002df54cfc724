// Package deploy holds the manifests of a Herald installation: a kustomize base with the CustomResourceDefinitions,
// which are generated from package k8sadapter/api, the rights of both daemons, the Deployment of the controller and
// the DaemonSet of the speaker. kustomization.yaml says how to apply it. There is no code; the tests check that the
// manifests mean what they say.
package deploy
