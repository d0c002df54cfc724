package source

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// defaultLogLength is how many changes of a kind the store remembers for
// watchers. A watcher that falls further behind lists again.
const defaultLogLength = 4096

// key identifies an object inside the store.
type key struct {
	kind            Kind
	namespace, name string
}

// store is the files provider's stand-in for etcd and the watch cache: the
// objects in force under one rising resource version, and for each kind a
// bounded log of changes. Watchers read the log with a cursor of their own, so
// a writer never waits for a watcher.
//
// Objects inside the store are never modified: whoever takes one out copies it
// before handing it on.
type store struct {
	logLength int

	mu     sync.Mutex
	rv     uint64
	tables map[Kind]*table
}

// table holds the objects of one kind.
type table struct {
	objects map[key]object
	log     []change
	// forgotten is the resource version of the newest change that has left
	// the log: a cursor below it has missed something.
	forgotten uint64
	// changed is closed, and replaced, at every append.
	changed chan struct{}
}

// change is one entry of a table's log.
type change struct {
	rv    uint64
	event watch.EventType
	obj   object
}

func newStore(logLength int) *store {
	s := &store{logLength: logLength, tables: make(map[Kind]*table)}
	for _, kind := range Kinds() {
		s.tables[kind] = &table{objects: make(map[key]object), changed: make(chan struct{})}
	}
	return s
}

// get returns the stored object itself; the caller must not modify it.
func (s *store) get(k key) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.tables[k.kind].objects[k]
	return obj, ok
}

// put stores obj, of which the store becomes the owner, under a fresh resource
// version. It does nothing when the stored object differs in the resource
// version alone. It returns the object now stored.
func (s *store) put(k key, obj object) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[k.kind]
	event := watch.Added
	if old, ok := t.objects[k]; ok {
		obj.SetResourceVersion(old.GetResourceVersion())
		if equality.Semantic.DeepEqual(old, obj) {
			return old
		}
		event = watch.Modified
		if old.GetUID() != obj.GetUID() {
			// Deleted and made again between two looks: watchers must see both.
			s.appendLocked(t, watch.Deleted, old)
			event = watch.Added
		}
	}
	s.rv++
	obj.SetResourceVersion(formatRV(s.rv))
	t.objects[k] = obj
	t.record(change{s.rv, event, obj}, s.logLength)
	return obj
}

// remove drops an object; unknown keys are ignored.
func (s *store) remove(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[k.kind]
	if old, ok := t.objects[k]; ok {
		delete(t.objects, k)
		s.appendLocked(t, watch.Deleted, old)
	}
}

// appendLocked records a deletion, whose object carries the version of the
// deletion itself, as the API server sends it.
func (s *store) appendLocked(t *table, event watch.EventType, old object) {
	s.rv++
	last := old.DeepCopyObject().(object)
	last.SetResourceVersion(formatRV(s.rv))
	t.record(change{s.rv, event, last}, s.logLength)
}

func (t *table) record(c change, limit int) {
	if len(t.log) >= limit {
		drop := len(t.log) - limit + 1
		t.forgotten = t.log[drop-1].rv
		t.log = t.log[drop:]
	}
	t.log = append(t.log, c)
	close(t.changed)
	t.changed = make(chan struct{})
}

// keys returns the keys of every stored object of a kind, in no order.
func (s *store) keys(kind Kind) []key {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]key, 0, len(s.tables[kind].objects))
	for k := range s.tables[kind].objects {
		keys = append(keys, k)
	}
	return keys
}

// snapshot returns the stored objects of a kind, which the caller must not
// modify, and the resource version that they belong to.
func (s *store) snapshot(kind Kind) ([]object, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[kind]
	objects := make([]object, 0, len(t.objects))
	for _, obj := range t.objects {
		objects = append(objects, obj)
	}
	return objects, s.rv
}

// since returns the changes of a kind after a resource version, and a channel
// that is closed at the next one. ok is false when the log no longer (or not
// yet) reaches that version: the caller has to list again.
func (s *store) since(kind Kind, rv uint64) (changes []change, next <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[kind]
	if rv < t.forgotten || rv > s.rv {
		return nil, nil, false
	}
	start := len(t.log)
	for start > 0 && t.log[start-1].rv > rv {
		start--
	}
	// Entries are never modified, and append does not touch earlier ones, so
	// the tail may be read after the lock is gone.
	return t.log[start:len(t.log):len(t.log)], t.changed, true
}

func formatRV(rv uint64) string { return strconv.FormatUint(rv, 10) }

// copyOf returns a private copy of a stored object.
func copyOf(obj object) runtime.Object { return obj.DeepCopyObject() }
