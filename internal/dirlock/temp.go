package dirlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxTries bounds how often a new directory may go to another process that sweeps.
const maxTries = 100

// Temp makes a directory below parent, named by prefix and digits, that is this process's as long as lock is open, here or in a child.
// It removes those of processes that were killed.
func Temp(parent, prefix string) (dir string, lock *os.File, err error) {
	for range maxTries {
		if dir, err = os.MkdirTemp(parent, prefix); err != nil {
			return "", nil, err
		}
		if lock, err = claimDir(dir); err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		if lock != nil {
			sweepDirs(parent, prefix)
			return dir, lock, nil
		} // another process took it for one of a process that was killed, and removes it
	}
	return "", nil, fmt.Errorf("%s is taken by other processes each time; set TMPDIR to another directory", dir)
}

// sweepDirs removes the directories that no process holds; what it misses the next one may remove.
func sweepDirs(parent, prefix string) {
	all, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, dir := range all {
		if strings.Trim(strings.TrimPrefix(filepath.Base(dir), prefix), "0123456789") != "" {
			continue
		}
		if held, _ := claimDir(dir); held != nil {
			_ = os.RemoveAll(dir)
			held.Close()
		}
	}
}

// claimDir locks a directory by a file in it; nil if it is another process's, or no directory of ours. Links are not followed.
func claimDir(dir string) (*os.File, error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return nil, nil
	}
	path := filepath.Join(dir, "temporary.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, f.Close()
	case err != nil:
		return nil, errors.Join(fmt.Errorf("%s cannot be locked: %w; set TMPDIR to a directory on a file system with locks", dir, err), f.Close())
	}
	opened, err := f.Stat()
	named, gone := os.Lstat(path)
	if err == nil && gone == nil && os.SameFile(opened, named) {
		return f, nil
	}
	return nil, f.Close()
}
