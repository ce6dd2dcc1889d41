package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockEvery is how often a lock that others hold is tried.
const lockEvery = 100 * time.Millisecond

// lockFile takes a lock file as Python's filelock does, so that huggingface_hub and this program wait for each other. The
// kernel releases it when the process ends, however that happens.
func lockFile(ctx context.Context, path string) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o664)
		if err != nil {
			return nil, err
		}
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil && isStill(f, path):
			return func() { _ = f.Close() }, nil
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EINTR):
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w; set HF_HOME to a directory on a file system with locks", path, err)
		}
		_ = f.Close()
		select {
		case <-time.After(lockEvery):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// isStill says that a file has its name yet.
func isStill(f *os.File, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(own, named)
}
