package quantize

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// room is the directory in which a checkpoint is until all of it is there. It is locked while its process lives.
type room struct {
	path   string
	to     string // what it becomes
	opened *os.File
}

// newRoom makes room beside directory to, which must be empty or not there, and removes what runs to the same directory have
// left that were killed.
func newRoom(to string) (*room, error) {
	if list, err := os.ReadDir(to); err == nil && len(list) > 0 {
		return nil, fmt.Errorf("%s is not empty: want a new directory", to)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	to = filepath.Clean(to)
	parent, prefix := filepath.Dir(to), "."+filepath.Base(to)+".unfinished-"
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	if err := removeLeft(parent, prefix); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	opened, err := lockDir(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &room{path, to, opened}, nil
}

// removeLeft removes rooms that nobody has locked.
func removeLeft(parent, prefix string) error {
	list, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range list {
		path := filepath.Join(parent, entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		opened, err := lockDir(path)
		if err != nil {
			continue // it is another run's
		}
		if err := errors.Join(os.RemoveAll(path), opened.Close()); err != nil {
			return err
		}
	}
	return nil
}

// lockDir opens a directory that no process holds so.
func lockDir(path string) (*os.File, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: lock: %w", path, err), opened.Close())
	}
	return opened, nil
}

// renameToTarget gives the room its place.
func (r *room) renameToTarget() error {
	if err := os.Chmod(r.path, 0o755); err != nil {
		return err
	}
	if err := os.Remove(r.to); err != nil && !errors.Is(err, os.ErrNotExist) { // an empty directory: os.Rename takes no place of one
		return err
	}
	return os.Rename(r.path, r.to)
}

// close removes what is left of it.
func (r *room) close() { _ = errors.Join(os.RemoveAll(r.path), r.opened.Close()) }
