package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/engine/batch"
)

// Journal is an answer file that grows by whole answers. What a process that died has left of it is gone on with. Its
// methods are safe for concurrent use.
type Journal struct {
	mu     sync.Mutex
	file   *os.File // guarded by mu
	size   int64    // guarded by mu: of whole answers
	broken error    // guarded by mu: half an answer is behind them, and cannot be cut off
}

// OpenJournal opens the answer file at path, or makes it, and adds to done what it answers. No other process has it open so.
func OpenJournal(path string, done batch.Answered) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file}
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), file.Close())
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is being written by another process: %w", path, err), file.Close())
	}
	if j.size, err = batch.Scan(file, done); err == nil {
		err = j.truncateTail()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return j, nil
}

// truncateTail takes off what is behind the last whole answer; the caller holds mu, or is alone.
func (j *Journal) truncateTail() error {
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.file.Seek(j.size, io.SeekStart)
	return err
}

// Append adds an answer. After an error nothing of it is there.
func (j *Journal) Append(answer []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if _, err := j.file.Write(answer); err != nil {
		j.broken = j.truncateTail()
		return err
	}
	j.size += int64(len(answer))
	return nil
}

// Close brings the answers to the disk and closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.file.Sync(), j.file.Close())
}
