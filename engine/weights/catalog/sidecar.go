package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// sidecar is what is remembered of a file: the digests of tensors that were hashed, for as long as the file
// is the one that is described.
type sidecar struct {
	Version  int               `json:"version"`
	Path     string            `json:"path"`
	Size     int64             `json:"size"`
	Modified int64             `json:"mtime_ns"`
	Inode    uint64            `json:"inode"`
	Digests  map[string]string `json:"sha256"` // by the tensors' names
}

const (
	sidecarVersion = 1
	maxSidecar     = 64 << 20 // bytes; a tensor takes some 130
)

// newSidecar knows nothing of a file yet.
func newSidecar(f weights.File) *sidecar {
	if path, err := filepath.Abs(f.Path); err == nil {
		f.Path = path
	}
	return &sidecar{Version: sidecarVersion, Path: f.Path, Size: f.Size, Modified: f.Modified, Inode: f.Inode, Digests: map[string]string{}}
}

// knownDigest is a tensor's, if it is known.
func (s *sidecar) knownDigest(t tensor) (Digest, bool) {
	raw, err := hex.DecodeString(s.Digests[t.Name])
	if err != nil || len(raw) != sha256.Size {
		return Digest{}, false
	}
	return Digest(raw), true
}

func hexDigest(d Digest) string { return hex.EncodeToString(d[:]) }

// sidecarOf is the sidecar of a tensor's file, which is read at the first call; what is not of this very file
// is left aside.
func (c *Catalog) sidecarOf(t tensor) *sidecar {
	f := t.checkpoint.Files()[t.File]
	s := c.sidecars[f.Path]
	if want := newSidecar(f); s == nil || !s.isSameFile(want) {
		if s = c.read(want); s == nil {
			s = want
		}
		c.sidecars[f.Path] = s
	}
	return s
}

// isSameFile says whether s describes the same file as other.
func (s *sidecar) isSameFile(other *sidecar) bool {
	return s.Version == other.Version && s.Path == other.Path && s.Size == other.Size && s.Modified == other.Modified && s.Inode == other.Inode
}

// name is the sidecar's file in the catalog's directory.
func (c *Catalog) name(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(c.dir, "digests-"+hex.EncodeToString(sum[:16])+".json")
}

func (c *Catalog) read(want *sidecar) *sidecar {
	if c.dir == "" {
		return nil
	}
	raw, err := regular.ReadFile(c.name(want.Path), maxSidecar)
	if err != nil {
		return nil
	}
	s, err := parseSidecar(raw)
	if err != nil || !s.isSameFile(want) {
		return nil
	}
	return s
}

// parseSidecar decodes a sidecar, which anybody may have written, and checks its form.
func parseSidecar(raw []byte) (*sidecar, error) {
	var s sidecar
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if s.Version != sidecarVersion || s.Digests == nil {
		return nil, errors.New("not a sidecar of this version")
	}
	for name, digest := range s.Digests {
		if _, ok := s.knownDigest(tensor{Entry: weights.Entry{Name: name}}); !ok {
			return nil, fmt.Errorf("tensor %q: invalid SHA-256 %q", name, digest)
		}
	}
	return &s, nil
}

// settled is how long ago a file must have been changed for its time to tell: another change within one tick of
// a file system's clock has the same one.
const settled = 2 * time.Second

// writeSidecar writes a sidecar, replacing an older one at once. A cache that cannot be written makes the next
// start slower, and nothing else.
func (c *Catalog) writeSidecar(s *sidecar) {
	if c.dir == "" || time.Since(time.Unix(0, s.Modified)) < settled {
		return
	}
	raw, err := json.Marshal(s)
	if err != nil || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(c.dir, "digests-*.new")
	if err != nil {
		return
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.name(s.Path))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}
