package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// found is one manifest file of the tree.
type found struct {
	rel  string // slash-separated, relative to the directory of manifests
	path string
	info os.FileInfo // of the file itself, behind any symbolic link
}

// tree is the outcome of one walk.
type tree struct {
	root  os.FileInfo
	files []found // sorted by rel
	dirs  []string
	// unreadable holds what the walk could not look into, by relative path.
	unreadable map[string]error
}

// walker walks the directory of manifests: the top level and every
// sub-directory, except those whose name begins with a dot and the state
// directory. Symbolic links are followed, to files and to directories, so a
// mounted ConfigMap (names that point into ..data) reads like plain files.
type walker struct {
	root, state string
	tree        tree
	visited     []os.FileInfo // directories, against loops of links
}

// scanTree walks root. An error means that root itself cannot be read.
func scanTree(root, state string) (tree, error) {
	w := walker{root: root, state: filepath.Clean(state)}
	w.tree.unreadable = make(map[string]error)
	if err := w.walk(root, ""); err != nil {
		return tree{}, err
	}
	w.tree.root = w.visited[0]
	slices.SortFunc(w.tree.files, func(a, b found) int { return strings.Compare(a.rel, b.rel) })
	return w.tree, nil
}

func (w *walker) walk(dir, rel string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	for _, seen := range w.visited {
		if os.SameFile(seen, info) {
			return nil
		}
	}
	w.visited = append(w.visited, info)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	w.tree.dirs = append(w.tree.dirs, dir)
	for _, entry := range entries {
		w.visit(filepath.Join(dir, entry.Name()), joinRel(rel, entry.Name()), entry)
	}
	return nil
}

func (w *walker) visit(path, rel string, entry fs.DirEntry) {
	if strings.HasPrefix(entry.Name(), ".") || path == w.state {
		return
	}
	if !entry.IsDir() && entry.Type()&fs.ModeSymlink == 0 && !isManifest(entry.Name()) {
		return
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // gone meanwhile, or a dangling link
	case err != nil:
		w.tree.unreadable[rel] = err
	case info.IsDir():
		if err := w.walk(path, rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.tree.unreadable[rel] = err
		}
	case isManifest(entry.Name()) && !info.Mode().IsRegular():
		w.tree.unreadable[rel] = fmt.Errorf("not a regular file but %s", info.Mode().Type())
	case isManifest(entry.Name()):
		w.tree.files = append(w.tree.files, found{rel: rel, path: path, info: info})
	}
}

func joinRel(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

// isManifest tells manifests from other files by the end of their name.
func isManifest(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// racyAge is how old a modification must be, when the file is read, before the
// unchanged time of a later look proves an unchanged file: clocks of file
// systems tick coarsely.
const racyAge = 2 * time.Second

// sameFile tells whether a file is, by its inode, size and time, surely the
// one that was read at readAt.
func sameFile(old, current os.FileInfo, readAt time.Time) bool {
	return old != nil && os.SameFile(old, current) &&
		old.Size() == current.Size() && old.ModTime().Equal(current.ModTime()) &&
		readAt.Sub(current.ModTime()) > racyAge
}
