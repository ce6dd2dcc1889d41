package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The buckets; their keys are the owner's, a slash and the id.
var (
	fileBucket  = []byte("files")
	batchBucket = []byte("batches")
)

// errNone says that an owner has nothing of an id.
var errNone = errors.New("not found")

// store keeps what files and batches there are, and the files' bytes beside. Its methods are safe for concurrent use.
type store struct {
	db  *bolt.DB
	dir string
}

// openStore opens the store of a directory, which one process has at a time. Uploads that a process which died did not
// finish are removed.
func openStore(dir string) (*store, error) {
	s := &store{dir: dir}
	if err := os.RemoveAll(s.uploads()); err != nil {
		return nil, err
	}
	for _, d := range []string{s.uploads(), filepath.Join(dir, "files")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if s.db, err = bolt.Open(filepath.Join(dir, "batch.db"), 0o600, &bolt.Options{Timeout: 10 * time.Second}); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "batch.db"), err)
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(fileBucket)
		_, err2 := tx.CreateBucketIfNotExists(batchBucket)
		return errors.Join(err, err2)
	})
	return s, err
}

func (s *store) uploads() string       { return filepath.Join(s.dir, "uploads") }
func (s *store) path(id string) string { return filepath.Join(s.dir, "files", id) }
func keyOf(owner, id string) []byte    { return []byte(owner + "/" + id) }

func putRecord(tx *bolt.Tx, bucket []byte, owner, id string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put(keyOf(owner, id), text)
}

// getRecord reads what an owner has under an id; errNone if that is nothing.
func getRecord[T any](tx *bolt.Tx, bucket []byte, owner, id string) (*T, error) {
	text := tx.Bucket(bucket).Get(keyOf(owner, id))
	if text == nil {
		return nil, errNone
	}
	value := new(T)
	return value, json.Unmarshal(text, value)
}

// eachRecord calls visit with all that a bucket has of an owner, the oldest first; of all owners if that is "".
func eachRecord[T any](tx *bolt.Tx, bucket []byte, owner string, visit func(owner string, value *T) error) error {
	c := tx.Bucket(bucket).Cursor()
	prefix := []byte(owner)
	if owner != "" {
		prefix = keyOf(owner, "")
	}
	for key, text := c.Seek(prefix); key != nil && bytes.HasPrefix(key, prefix); key, text = c.Next() {
		value := new(T)
		if err := json.Unmarshal(text, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		of, _, _ := bytes.Cut(key, []byte("/"))
		if err := visit(string(of), value); err != nil {
			return err
		}
	}
	return nil
}

// countRecords is how many items a bucket has of an owner.
func countRecords(tx *bolt.Tx, bucket []byte, owner string) (n int) {
	prefix := keyOf(owner, "")
	c := tx.Bucket(bucket).Cursor()
	for key, _ := c.Seek(prefix); key != nil && bytes.HasPrefix(key, prefix); key, _ = c.Next() {
		n++
	}
	return n
}

// recordPage are the items of an owner behind after, at most limit of those that are wanted; more says that there are others.
func recordPage[T any](tx *bolt.Tx, bucket []byte, owner, after string, newest bool, limit int, wanted func(*T) bool) (items []*T, more bool, err error) {
	c := tx.Bucket(bucket).Cursor()
	prefix := keyOf(owner, "")
	var key, text []byte
	next := c.Next
	switch {
	case newest:
		if after == "" {
			after = "\xff"
		}
		if key, _ = c.Seek(keyOf(owner, after)); key == nil {
			key, text = c.Last()
		} else {
			key, text = c.Prev()
		}
		next = c.Prev
	case after == "":
		key, text = c.Seek(prefix)
	default:
		if key, text = c.Seek(keyOf(owner, after)); bytes.Equal(key, keyOf(owner, after)) {
			key, text = c.Next()
		}
	}
	for ; key != nil && bytes.HasPrefix(key, prefix); key, text = next() {
		value := new(T)
		if err := json.Unmarshal(text, value); err != nil {
			return nil, false, err
		}
		if !wanted(value) {
			continue
		}
		if len(items) == limit {
			return items, true, nil
		}
		items = append(items, value)
	}
	return items, false, nil
}

// remove takes a file's bytes off the disk.
func (s *store) remove(id string) error {
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepUpload brings an upload's bytes to where files are, also on the disk.
func (s *store) keepUpload(upload, id string) error {
	if err := os.Rename(upload, s.path(id)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Join(s.dir, "files"))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// fileCost is counted for a file beside its bytes, so that there are not endlessly many.
const fileCost = 4 << 10

// space counts the bytes that are stored.
type space struct {
	mostAll, mostEach int64

	mu   sync.Mutex
	all  int64            // guarded by mu
	each map[string]int64 // guarded by mu: by owner
}

// SpaceError says that an owner, or all together, would store more than they may.
type SpaceError struct {
	Limit, Stored int64
	All           bool
}

func (e *SpaceError) Error() string {
	whose := "your files and answers have"
	if e.All {
		whose = "the files and answers of all have"
	}
	return fmt.Sprintf("%s %d bytes, the limit is %d: delete files that are no longer needed", whose, e.Stored, e.Limit)
}

// takeBytes counts n bytes more.
func (s *space) takeBytes(owner string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.each[owner]+n > s.mostEach:
		return &SpaceError{Limit: s.mostEach, Stored: s.each[owner]}
	case s.all+n > s.mostAll:
		return &SpaceError{Limit: s.mostAll, Stored: s.all, All: true}
	}
	s.each[owner] += n
	s.all += n
	return nil
}

// giveBytes counts n bytes less.
func (s *space) giveBytes(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each[owner] -= n
	s.all -= n
}
