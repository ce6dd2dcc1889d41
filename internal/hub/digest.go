package hub

import (
	"crypto/sha1" //nolint:gosec // git's name of a blob
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// newDigest is the hash that a file's digest was made with, ready for its content.
func newDigest(f File) hash.Hash {
	if isSHA256.MatchString(f.Digest) {
		return sha256.New()
	}
	h := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// verifyDigest compares the hash of what came with what was promised.
func verifyDigest(f File, h hash.Hash) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != f.Digest {
		return &checksumError{f, got}
	}
	return nil
}

// checksumError is a file that is not what the hub says it is.
type checksumError struct {
	file File
	got  string
}

func (e *checksumError) Error() string {
	return fmt.Sprintf("%s has checksum %s, want the hub's %s: the download is deleted; try again, or another HF_ENDPOINT", e.file.Path, e.got, e.file.Digest)
}
