package video

import (
	"os"
	"path/filepath"
	"syscall"
)

const demoPrefix = "prefillonly-demo-"

// claimDemoDir makes a directory below parent that is this run's as long as lock is open, here or in a child. It removes those of runs that were killed.
func claimDemoDir(parent string) (dir string, lock *os.File, err error) {
	for {
		if dir, err = os.MkdirTemp(parent, demoPrefix); err != nil {
			return "", nil, err
		}
		if lock = claim(dir); lock != nil {
			break
		} // another run took it for one of a run that was killed, and removes it
	}
	old, err := filepath.Glob(filepath.Join(parent, demoPrefix+"*"))
	for _, other := range old {
		if held := claim(other); held != nil {
			_ = os.RemoveAll(other) // the next run may do better
			held.Close()
		}
	}
	return dir, lock, err
}

// claim locks a directory; nil if it is another run's, or no directory of ours. Links are not followed.
func claim(dir string) *os.File {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		opened, err := f.Stat()
		named, gone := os.Lstat(dir)
		if err == nil && gone == nil && os.SameFile(opened, named) && opened.Sys().(*syscall.Stat_t).Uid == uint32(os.Getuid()) {
			return f
		}
	}
	f.Close()
	return nil
}
