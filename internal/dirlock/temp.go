package dirlock

import (
	"fmt"
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
		if lock = claim(dir); lock != nil {
			sweep(parent, prefix)
			return dir, lock, nil
		} // another process took it for one of a process that was killed, and removes it
	}
	return "", nil, fmt.Errorf("%s cannot be locked; set TMPDIR to a directory on a file system with locks", dir)
}

// sweep removes the directories that no process holds; what it misses the next one may remove.
func sweep(parent, prefix string) {
	all, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, dir := range all {
		if strings.Trim(strings.TrimPrefix(filepath.Base(dir), prefix), "0123456789") != "" {
			continue
		}
		if held := claim(dir); held != nil {
			_ = os.RemoveAll(dir)
			held.Close()
		}
	}
}

// claim locks a directory by a file in it; nil if it is another process's, or no directory of ours. Links are not followed.
func claim(dir string) *os.File {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return nil
	}
	path := filepath.Join(dir, "temporary.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		opened, err := f.Stat()
		named, gone := os.Lstat(path)
		if err == nil && gone == nil && os.SameFile(opened, named) {
			return f
		}
	}
	f.Close()
	return nil
}
