// Package source is the seam through which Herald reads Kubernetes objects and
// writes back statuses, annotations and events. Two providers stand behind it
// and have the same methods:
//
//   - [Kube] talks to an API server.
//   - [Files] reads a directory of YAML manifests of the very same kinds, and
//     keeps what the daemons write beside them. It needs no cluster.
//
// A provider hands out client-go list-watches, so informers and everything on
// top of them work alike with both:
//
//	files, err := source.NewFiles(source.FilesConfig{Dir: "/etc/herald", Logger: logger})
//	if err != nil {
//		return err
//	}
//	services := cache.NewSharedIndexInformer(files.ListerWatcher(source.Services),
//		&corev1.Service{}, 0, cache.Indexers{})
//	group.Go(func() error { return files.Run(ctx) })
//	group.Go(func() error { services.RunWithContext(ctx); return nil })
//
// # Writes
//
// PatchService and PatchPoolStatus write the difference between two versions of
// an object: status.loadBalancer, the annotations under metallb.io/, and a
// pool's status. Nothing else is touched. A patch carries the UID and the
// resourceVersion of the version that it is based on; if the object is another
// one by now, the answer is a Conflict error (apierrors.IsConflict) and the
// caller decides anew. Without a difference nothing is written.
//
// Events never block and never fail their caller.
//
// # A directory as an API server
//
// Files in .yaml, .yml and .json, in sub-directories too, are read; names that
// begin with a dot are not. Symbolic links are followed, so a mounted ConfigMap
// or a git-sync checkout works. Streams of documents and Lists are taken apart.
// Fields get the defaults of the API server and of the CRDs. Beyond those:
//
//   - An object without a namespace lives in "default", a metallb.io object or a
//     Secret in MetalLB's namespace. Those of other namespaces are ignored, and
//     so are Secrets of another type than kubernetes.io/basic-auth.
//   - A BGPPeer of v1beta1 is converted to v1beta2.
//   - Every namespace in use exists; without a manifest it has no labels but
//     kubernetes.io/metadata.name.
//   - A Service without cluster IPs gets synthetic ones ([SyntheticClusterIPv4],
//     [SyntheticClusterIPv6]) of the families that spec.ipFamilies names: IPv4
//     when absent, both for RequireDualStack. They are never written anywhere.
//   - A UID that the manifest does not give is derived from kind, namespace and
//     name. metadata.creationTimestamp stays as given, absent if absent.
//
// Unknown fields and repeated keys are warned of and have no effect. Unknown
// kinds are ignored, and named once.
//
// # What the daemons write
//
// Statuses and annotations go to the state directory (DIR/.herald unless
// configured), one file for each object, replaced atomically and synced. They
// are laid over the manifest at every read, so the manifest can be edited
// freely and a restart keeps every address. The overlay of an object goes when
// its manifest goes, or when the manifest carries another UID. Several
// processes may share the directories; a write that would undo another
// process's is a Conflict. A damaged overlay is moved aside (*.corrupt).
// Removing the file of one overlay while a daemon runs takes that status away,
// as an edit of the status in a cluster would; the whole directory is written
// again when it vanishes.
//
// Events are logged and appended to events.COMPONENT[.HOST].jsonl in the state
// directory, one core/v1 Event on each line, at most 1 MiB and as much again
// under the suffix .1. To see why a Service is pending:
//
//	grep '"name":"web"' DIR/.herald/events.*.jsonl
//
// # Rejected is not deleted
//
// A document that does not decode as its kind is rejected: one log line and one
// Event tell of it, and the last good version of the object stays in force
// until the document is good again or gone. A file that is no YAML (any more)
// leaves all its objects as they were, and so does one that has become empty:
// that is what a file looks like while it is being written. To delete the
// objects of a file, delete the file or leave a comment in it. The versions
// kept are written to kept.json in the state directory, so a restart in the
// middle of an edit loses nothing either; only what holds a password (a Secret,
// a BGPPeer with a password) is not written. While anything is unreadable no
// overlay is removed. A rejected IPAddressPool of which no good version is known
// is served with its identity and without addresses, so that its reader rejects
// it too instead of taking it for deleted.
//
// A directory that vanishes, or behind which another, empty one appears (an
// unmounted disk), leaves everything as it was, with one warning, until it
// returns.
//
// # Watching
//
// The directories are watched with inotify; changes are read when it has been
// quiet for the debounce time (100 ms). Whatever the notices miss, a slow poll
// (10 s) finds. List-watches serve both kinds of reflector, the list-then-watch
// one and the streaming one, from a log of changes: a watcher that is too slow
// for it is told to list again and never holds up the writer.
package source
