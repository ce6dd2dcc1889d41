// Package dirlock keeps what is in a directory for one process at a time. The system lets go of a lock when its process ends, however
// that happens.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// HeldError says that another process has what was to be locked.
type HeldError struct {
	Path string // of what is locked
	PID  string // of the other process, as its host or container counts; empty if it has not said yet
}

func (e *HeldError) Error() string {
	who := "another process"
	if e.PID != "" {
		who = "process " + e.PID
	}
	return fmt.Sprintf("%s is in use by %s: give another directory, or end that process", e.Path, who)
}

// Take locks dir for what name says, by the file NAME.lock in it, until lock is closed. It makes the directory, private, if there is none.
// The error is a *HeldError if another process has it so.
func Take(dir, name string) (lock io.Closer, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		text, _ := io.ReadAll(io.LimitReader(f, 32))
		return nil, errors.Join(&HeldError{dir, strings.TrimSpace(string(text))}, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("%s cannot be locked: %w; give a directory on a file system with locks", path, err), f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
