package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/heraldlb/herald/k8sadapter/api/v1beta1"
)

// ErrReadOnly: the provider was configured not to write.
var ErrReadOnly = errors.New("source: the files provider is read-only")

// PatchService writes what differs between prev and next in
// status.loadBalancer and in the metallb.io annotations to the state
// directory, and returns the Service as it is then. Everything else in next is
// ignored; without a difference nothing is written.
//
// As with an API server, an object that is gone is a NotFound error and one
// whose UID or resourceVersion is no longer prev's a Conflict error.
func (f *Files) PatchService(ctx context.Context, prev, next *corev1.Service) (*corev1.Service, error) {
	obj, err := f.patch(ctx, Services, prev, func(o *overlay) bool {
		changed := o.setAnnotations(prev.Annotations, next.Annotations)
		wanted := mergeIngress(prev.Status.LoadBalancer, next.Status.LoadBalancer)
		if !equality.Semantic.DeepEqual(prev.Status.LoadBalancer, wanted) {
			o.LoadBalancer = &wanted
			changed = true
		}
		return changed
	})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Service), nil
}

// PatchPoolStatus is PatchService for the status of a pool.
func (f *Files) PatchPoolStatus(ctx context.Context, prev, next *v1beta1.IPAddressPool) (*v1beta1.IPAddressPool, error) {
	obj, err := f.patch(ctx, IPAddressPools, prev, func(o *overlay) bool {
		if prev.Status == next.Status {
			return false
		}
		o.Pool = next.Status.DeepCopy()
		return true
	})
	if err != nil {
		return nil, err
	}
	return obj.(*v1beta1.IPAddressPool), nil
}

// mergeIngress returns the wanted status with what others added to entries
// that stay (ipMode, ports, hostname) taken over.
func mergeIngress(current, wanted corev1.LoadBalancerStatus) corev1.LoadBalancerStatus {
	merged := wanted.DeepCopy()
	for i, entry := range merged.Ingress {
		if entry.IP == "" || entry.IPMode != nil || entry.Ports != nil || entry.Hostname != "" {
			continue
		}
		if at := slices.IndexFunc(current.Ingress, func(c corev1.LoadBalancerIngress) bool { return c.IP == entry.IP }); at >= 0 {
			current.Ingress[at].DeepCopyInto(&merged.Ingress[i])
		}
	}
	return *merged
}

// patch changes the overlay of one object. change is given a private overlay
// and tells whether it changed anything.
func (f *Files) patch(ctx context.Context, kind Kind, prev object, change func(*overlay) bool) (object, error) {
	if f.cfg.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := f.ensureLoaded(ctx); err != nil {
		return nil, err
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	info, _ := infoOf(kind)
	k := key{kind, prev.GetNamespace(), prev.GetName()}
	current, ok := f.store.get(k)
	if !ok {
		return nil, apierrors.NewNotFound(info.groupResource(), k.name)
	}
	if err := samePredecessor(info, prev, current); err != nil {
		return nil, err
	}
	name := overlayName(k)
	next := &overlay{Kind: info.gvk.Kind, Namespace: k.namespace, Name: k.name}
	if o := f.overlayFor(k); o != nil {
		next = o.clone()
	}
	next.UID = current.GetUID()
	if !change(next) {
		return current.DeepCopyObject().(object), nil
	}
	unlock, err := f.lockState(ctx)
	if err != nil {
		return nil, fmt.Errorf("source: state directory %s (choose another with --state): %w", f.cfg.StateDir, err)
	}
	defer unlock()
	if f.changedOnDisk(name) {
		f.readOverlay(name)
		f.publishOne(k)
		return nil, apierrors.NewConflict(info.groupResource(), k.name, errors.New("another process has written it"))
	}
	stored, err := writeOverlay(filepath.Join(f.cfg.StateDir, name), next)
	if err != nil {
		return nil, fmt.Errorf("source: status of %s %s/%s (choose another state directory with --state): %w", info.gvk.Kind, k.namespace, k.name, err)
	}
	f.overlays[name] = stored
	return f.publishOne(k).DeepCopyObject().(object), nil
}

// samePredecessor is the API server's optimistic lock.
func samePredecessor(info kindInfo, prev, current object) error {
	if prev.GetUID() != current.GetUID() {
		return apierrors.NewConflict(info.groupResource(), current.GetName(),
			fmt.Errorf("the UID in the precondition (%s) is not that of the object (%s)", prev.GetUID(), current.GetUID()))
	}
	if prev.GetResourceVersion() != current.GetResourceVersion() {
		return apierrors.NewConflict(info.groupResource(), current.GetName(),
			fmt.Errorf("resource version %q is not the current %q", prev.GetResourceVersion(), current.GetResourceVersion()))
	}
	return nil
}

// changedOnDisk tells whether another process wrote the overlay since it was read.
func (f *Files) changedOnDisk(name string) bool {
	data, err := os.ReadFile(filepath.Join(f.cfg.StateDir, name))
	known := f.overlays[name]
	if errors.Is(err, fs.ErrNotExist) {
		return false // removed by hand: what we know is newer
	}
	return err == nil && (known == nil || known.sum != sha256.Sum256(data))
}

// lockState keeps other processes from writing overlays, for the moment that
// one takes. The lock goes with the process that holds it.
func (f *Files) lockState(ctx context.Context) (unlock func(), err error) {
	if err := f.prepareState(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(f.cfg.StateDir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.close(file) }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.close(file)
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			f.close(file)
			return nil, fmt.Errorf("lock held by another process: %w", ctx.Err())
		}
	}
}

// close gives a lock back; closing the descriptor does it.
func (f *Files) close(file *os.File) {
	if err := file.Close(); err != nil {
		f.logger.Debug("lock file not closed", "error", err)
	}
}
