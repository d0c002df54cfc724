package source

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// annotationPrefix marks the annotations that Herald may write.
const annotationPrefix = "metallb.io/"

// overlay is what the daemons have written about one object. It is laid over
// the object that the manifest gives, so the manifest can be edited freely.
type overlay struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is the object that this was written for.
	UID types.UID `json:"uid"`
	// Annotations holds values to set; null removes the manifest's annotation.
	Annotations map[string]*string `json:"annotations,omitempty"`
	// One of the two, by the kind.
	LoadBalancer *corev1.LoadBalancerStatus   `json:"loadBalancer,omitempty"`
	Pool         *v1beta1.IPAddressPoolStatus `json:"ipAddressPool,omitempty"`
}

// overlaySuffix ends the name of every overlay file; temporary files and files
// moved aside end otherwise.
const overlaySuffix = ".overlay.json"

// overlayName is the file of an object's overlay. Dots separate, because
// neither kinds nor namespaces have any.
func overlayName(k key) string {
	name := k.name
	if len(name) > 120 { // names reach 253 bytes, file names 255
		name = fmt.Sprintf("%s-%x", name[:80], sha256.Sum256([]byte(name)))
	}
	return fmt.Sprintf("%s.%s.%s%s", k.kind, k.namespace, name, overlaySuffix)
}

func isOverlayName(name string) bool { return strings.HasSuffix(name, overlaySuffix) }

func (o *overlay) key() (key, bool) {
	for _, info := range kindTable() {
		if info.gvk.Kind == o.Kind && (info.kind == Services || info.kind == IPAddressPools) {
			return key{info.kind, o.Namespace, o.Name}, true
		}
	}
	return key{}, false
}

// decodeOverlay reads an overlay file and checks that it says what its name
// says.
func decodeOverlay(name string, data []byte) (*overlay, key, error) {
	var o overlay
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, key{}, err
	}
	k, ok := o.key()
	if !ok || o.Name == "" || overlayName(k) != name {
		return nil, key{}, fmt.Errorf("it describes %s %s/%s", o.Kind, o.Namespace, o.Name)
	}
	return &o, k, nil
}

// appliesTo tells whether the overlay was written for this object. A manifest
// that carries no UID of its own cannot be told from an edited one.
func (o *overlay) appliesTo(obj object, uidGiven bool) bool {
	return !uidGiven || o.UID == obj.GetUID()
}

// apply lays the overlay over obj.
func (o *overlay) apply(obj object) {
	annotations := obj.GetAnnotations()
	for name, value := range o.Annotations {
		if value == nil {
			delete(annotations, name)
			continue
		}
		if annotations == nil {
			annotations = make(map[string]string, len(o.Annotations))
		}
		annotations[name] = *value
	}
	obj.SetAnnotations(annotations)
	switch target := obj.(type) {
	case *corev1.Service:
		if o.LoadBalancer != nil {
			o.LoadBalancer.DeepCopyInto(&target.Status.LoadBalancer)
		}
	case *v1beta1.IPAddressPool:
		if o.Pool != nil {
			o.Pool.DeepCopyInto(&target.Status)
		}
	}
}

func (o *overlay) clone() *overlay {
	c := *o
	c.Annotations = maps.Clone(o.Annotations)
	return &c
}

// setAnnotations takes over what changed between two sets of annotations,
// Herald's keys only. It returns whether anything did.
func (o *overlay) setAnnotations(prev, next map[string]string) bool {
	changes := annotationChanges(prev, next)
	if len(changes) > 0 && o.Annotations == nil {
		o.Annotations = make(map[string]*string, len(changes))
	}
	maps.Copy(o.Annotations, changes)
	return len(changes) > 0
}

// annotationChanges returns the difference between two sets of annotations,
// restricted to Herald's keys; nil stands for a removal.
func annotationChanges(prev, next map[string]string) map[string]*string {
	changes := make(map[string]*string)
	for name, value := range next {
		if old, ok := prev[name]; strings.HasPrefix(name, annotationPrefix) && (!ok || old != value) {
			changes[name] = &value
		}
	}
	for name := range prev {
		if _, ok := next[name]; strings.HasPrefix(name, annotationPrefix) && !ok {
			changes[name] = nil
		}
	}
	return changes
}

// tempPrefix begins the name of files that are being written.
const tempPrefix = ".tmp-"

// writeFile replaces a file of an existing directory so that a reader, and a
// machine that loses power, sees the old content or the new.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp, err := writeTemp(dir, data)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(dir)
}

// writeTemp leaves data, safely on the disk, in a new file of dir.
func writeTemp(dir string, data []byte) (name string, err error) {
	tmp, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
