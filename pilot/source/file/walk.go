package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks bounds chains of symbolic links, as the kernel does.
const maxLinks = 40

// tree is what a walk found.
type tree struct {
	files  map[string]os.FileInfo // manifests by path relative to the root, with slashes
	failed map[string]error       // files and directories that could not be looked at
}

// under says whether path lies in a directory that could not be looked at.
func (t *tree) under(path string) bool {
	for dir := range t.failed {
		if path == dir || strings.HasPrefix(path, dir+"/") || dir == "." {
			return true
		}
	}
	return false
}

// watcher is told of directories before they are read, so that no change goes unseen. An empty list of names means all.
type watcher interface {
	watch(dir string, names ...string)
}

// walk finds the manifests below root: files with the suffixes .yaml and .yml. Symbolic links to files and directories
// are followed. Names that start with a dot are left out: editors' temporary files, and the directories behind the
// links of a mounted ConfigMap.
func walk(root string, w watcher) *tree {
	k := &walker{w: w, tree: &tree{files: map[string]os.FileInfo{}, failed: map[string]error{}}, open: map[string]bool{}}
	k.links(root)
	k.directory(root, ".")
	return k.tree
}

type walker struct {
	w    watcher
	tree *tree
	open map[string]bool // real directories on the way down, against cycles of links
}

// links asks for notice when a link of the chain at path is pointed elsewhere.
func (k *walker) links(path string) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return
		}
		// Always the real path: the system reports a directory watched under two names under one of them.
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			k.w.watch(dir, filepath.Base(path))
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
}

func (k *walker) directory(path, rel string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		k.fail(rel, err)
		return
	}
	if k.open[real] {
		return
	}
	k.open[real] = true
	defer delete(k.open, real)
	k.w.watch(real)
	entries, err := os.ReadDir(path)
	if err != nil {
		k.fail(rel, err)
		return
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") {
			k.entry(filepath.Join(path, name), filepath.ToSlash(filepath.Join(rel, name)), e)
		}
	}
}

func (k *walker) entry(path, rel string, e fs.DirEntry) {
	manifest := strings.HasSuffix(rel, ".yaml") || strings.HasSuffix(rel, ".yml")
	link := e.Type()&fs.ModeSymlink != 0
	if !manifest && !link && !e.IsDir() {
		return
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // gone since, or a link to nowhere
	case err != nil:
		k.fail(rel, err)
	case info.IsDir():
		if link {
			k.links(path)
		}
		k.directory(path, rel)
	case info.Mode().IsRegular() && manifest:
		if link {
			k.target(path)
		}
		k.tree.files[rel] = info
	}
}

// target asks for notice when the file behind a link changes.
func (k *walker) target(path string) {
	k.links(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		k.w.watch(filepath.Dir(real), filepath.Base(real))
	}
}

func (k *walker) fail(rel string, err error) {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = fmt.Errorf("%s: %w", pe.Op, pe.Err) // the path is told elsewhere
	}
	k.tree.failed[rel] = err
}
