package hub

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// cache is one model's part of the local cache, in huggingface_hub's layout: blobs by their digests, snapshots of commits as
// relative links to them, refs from revisions to commits, and what is known not to exist.
type cache struct {
	root string // of all repositories
	dir  string
	name string // of dir
}

func (s Settings) modelCache(m Model) cache {
	name := "models--" + strings.ReplaceAll(m.ID, "/", "--")
	return cache{s.Cache, filepath.Join(s.Cache, name), name}
}

func (c cache) snapshotPath(commit string) string { return filepath.Join(c.dir, "snapshots", commit) }
func (c cache) blobPath(f File) string            { return filepath.Join(c.dir, "blobs", f.Digest) }
func (c cache) refPath(revision string) string    { return filepath.Join(c.dir, "refs", revision) }

func (c cache) lockPath(f File) string {
	return filepath.Join(c.root, ".locks", c.name, f.Digest+".lock")
}

// absentPath is the mark of a file that a commit does not have.
func (c cache) absentPath(commit, name string) string {
	return filepath.Join(c.dir, ".no_exist", commit, name)
}

// readCommit is the one that a revision meant when it was last asked for; empty where it never was.
func (c cache) readCommit(revision string) (string, error) {
	if isCommit.MatchString(revision) {
		return revision, nil
	}
	text, err := regular.ReadFile(c.refPath(revision), 100)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the Hugging Face cache: %w", err)
	}
	if commit := strings.TrimSpace(string(text)); isCommit.MatchString(commit) {
		return commit, nil
	}
	return "", nil // as after a crash in the middle of writing it; the hub knows
}

// found is what the cache has of a commit.
type found struct {
	complete bool   // all is here that the files here ask for
	known    bool   // what else could be needed is known not to exist
	missing  string // the first file that keeps it from being complete; empty where there is nothing
}

// inspectCommit sees what the cache has of a commit.
func (c cache) inspectCommit(commit string, weights bool) found {
	if commit == "" || !isDir(c.snapshotPath(commit)) {
		return found{}
	}
	if l, ok := c.readListing(commit); ok {
		return c.compareSnapshot(commit, l, weights)
	}
	read := func(name string) ([]byte, error) {
		return regular.ReadFile(filepath.Join(c.snapshotPath(commit), name), maxSmall)
	}
	names := smallFiles
	if text, err := read(modulesFile); err == nil {
		more, err := moduleFiles(text)
		if err != nil {
			return found{missing: modulesFile}
		}
		names = append(names[:len(names):len(names)], more...)
	}
	f := found{known: true}
	for _, name := range names {
		f.known = f.known && (c.hasFile(commit, name) || isFile(c.absentPath(commit, name)))
	}
	needed := []string{configFile}
	if weights {
		list, err := shardFiles(c.hasFile(commit, singleFile), read)
		if err != nil {
			return found{missing: singleFile}
		}
		needed = append(needed, list...)
	}
	for _, name := range needed {
		if !c.hasFile(commit, name) {
			return found{missing: name}
		}
	}
	f.complete = true
	return f
}

// compareSnapshot holds a snapshot to the listing of its commit.
func (c cache) compareSnapshot(commit string, l listing, weights bool) found {
	files, err := l.firstFiles()
	if err != nil {
		return found{missing: configFile}
	}
	more, err := l.remainingFiles(func(name string) ([]byte, error) {
		return regular.ReadFile(filepath.Join(c.snapshotPath(commit), name), maxSmall)
	}, weights)
	for _, f := range append(files, more...) {
		if info, err := os.Stat(filepath.Join(c.snapshotPath(commit), f.Path)); err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
			return found{missing: f.Path}
		}
	}
	if err != nil || l.checkFiles(weights) != nil {
		return found{missing: singleFile}
	}
	return found{complete: true, known: true}
}

func (c cache) hasFile(commit, name string) bool {
	return isFile(filepath.Join(c.snapshotPath(commit), name))
}

// readListing is the listing of a commit that huggingface_hub keeps.
func (c cache) readListing(commit string) (listing, bool) {
	text, err := regular.ReadFile(filepath.Join(c.dir, "trees", commit+".json"), maxListing)
	if err != nil {
		return nil, false
	}
	var tree struct {
		Version int `json:"format_version"`
		Files   map[string]struct {
			Size   int64  `json:"size"`
			Blob   string `json:"blob_id"`
			SHA256 string `json:"lfs_sha256"`
			Large  int64  `json:"lfs_size"`
		} `json:"files"`
	}
	if json.Unmarshal(text, &tree) != nil || tree.Version != 1 {
		return nil, false
	}
	l := listing{}
	for path, f := range tree.Files {
		own := File{path, f.Size, f.Blob}
		if f.SHA256 != "" {
			own.Size, own.Digest = f.Large, f.SHA256
		}
		l[path] = own
	}
	return l, true
}

// describeMissing says in words what the cache does not have.
func (c cache) describeMissing(commit string, f found) string {
	switch {
	case commit == "" || f.missing == "":
		return fmt.Sprintf("is neither a directory nor in the Hugging Face cache (%s)", c.dir)
	default:
		return fmt.Sprintf("is incomplete in the Hugging Face cache (%s lacks %s)", c.snapshotPath(commit), f.missing)
	}
}

// linkBlob makes a blob a file of the snapshot, by a relative link that appears as a whole.
func (c cache) linkBlob(commit string, f File) error {
	at := filepath.Join(c.snapshotPath(commit), f.Path)
	target, err := filepath.Rel(filepath.Dir(at), c.blobPath(f))
	if err != nil {
		return err
	}
	if old, err := os.Readlink(at); err == nil && old == target {
		return nil
	}
	if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() && info.Size() == f.Size {
		return nil // a cache without links
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	own := temporaryName(at)
	if err := os.Symlink(target, own); err != nil {
		return err
	}
	if err := os.Rename(own, at); err != nil {
		_ = os.Remove(own)
		return err
	}
	return nil
}

// temporaryName is a name beside a file's that nobody else has, on other hosts and in other containers neither.
func temporaryName(at string) string { return at + "." + rand.Text() + ".tmp" }

// recordCommit notes which commit a revision means, and which files that one does not have. It is the last step: what it cannot
// write is asked for again.
func (c cache) recordCommit(m Model, commit string, l listing, names []string) error {
	for _, name := range names {
		if at := c.absentPath(commit, name); !l.hasFile(name) && !isFile(at) {
			if os.MkdirAll(filepath.Dir(at), 0o777) == nil {
				_ = os.WriteFile(at, nil, 0o666)
			}
		}
	}
	if known, err := c.readCommit(m.Revision); err == nil && known == commit {
		return nil
	}
	at := c.refPath(m.Revision)
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	own := temporaryName(at)
	if err := os.WriteFile(own, []byte(commit), 0o666); err != nil {
		return err
	}
	return os.Rename(own, at)
}

// cacheTag is what programs that make backups skip.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag created by huggingface_hub.\n# For information about cache directory tags, see:\n#\thttps://bford.info/cachedir/\n"

// makeDirs makes the cache's directories.
func (c cache) makeDirs() error {
	for _, dir := range []string{filepath.Join(c.dir, "blobs"), filepath.Join(c.dir, "snapshots"), filepath.Join(c.root, ".locks", c.name)} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	if tag := filepath.Join(c.root, "CACHEDIR.TAG"); !isFile(tag) {
		_ = os.WriteFile(tag, []byte(cacheTag), 0o666)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
