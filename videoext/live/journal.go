package live

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

	"github.com/prefillonly/prefillonly/videoext/method"
)

// kept is how many results of a stream are kept for those who were away.
const kept = 4096

const (
	journalFile = "results.jsonl"
	olderFile   = "results.older.jsonl"
)

// journal keeps the last results of a stream, in memory and in a file: what is there was given, and a process that comes after one that was
// killed goes on behind it. Its methods are safe for concurrent use.
type journal struct {
	dir string

	mu      sync.Mutex
	file    *os.File      // guarded by mu
	inFile  int           // guarded by mu; lines
	lines   [][]byte      // guarded by mu; the last ones, whose numbers are consecutive
	last    uint64        // guarded by mu; number of the last one
	changed chan struct{} // guarded by mu; closed when there are more, or it is closed
	closed  bool          // guarded by mu
}

// place is where a stream goes on.
type place struct {
	number uint64
	next   method.Segment
	time   time.Duration // of the last frame with a final result, in its source; negative: there was none
}

// openJournal reads what a stream's directory has, which is made if it is not there.
func openJournal(dir string) (*journal, place, error) {
	j, at := &journal{dir: dir, changed: make(chan struct{})}, place{time: -1}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, at, err
	}
	for _, name := range []string{olderFile, journalFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, at, err
		}
		whole, lines := at.replay(text)
		j.lines = append(j.lines, lines...)
		if name != journalFile {
			continue
		}
		if j.inFile = len(lines); whole < len(text) { // the process was killed while it wrote
			if err := os.Truncate(filepath.Join(dir, name), int64(whole)); err != nil {
				return nil, at, err
			}
		}
	}
	j.lines = j.lines[max(0, len(j.lines)-kept):]
	j.last = at.number
	var err error
	j.file, err = os.OpenFile(filepath.Join(dir, journalFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return j, at, err
}

// replay reads lines, up to where the results of a segment are not whole.
func (at *place) replay(text []byte) (whole int, lines [][]byte) {
	read, pending := 0, [][]byte(nil)
	for line := range bytes.Lines(text) {
		var r result
		if line[len(line)-1] != '\n' || json.Unmarshal(line, &r) != nil {
			break
		}
		read += len(line)
		if pending = append(pending, bytes.TrimSuffix(line, []byte("\n"))); r.Frame < r.Of-1 {
			continue
		}
		whole, at.number = read, r.Number
		lines, pending = append(lines, pending...), nil
		if r.Final {
			at.next, at.time = method.Segment(r.Segment)+1, time.Duration(r.Time*float64(time.Second))
		}
	}
	return whole, lines
}

// add writes the results of a segment, whose numbers follow those before.
func (j *journal) add(lines [][]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return os.ErrClosed
	}
	if j.inFile >= kept {
		if err := j.turn(); err != nil {
			return err
		}
	}
	text := append(bytes.Join(lines, []byte("\n")), '\n')
	if _, err := j.file.Write(text); err != nil {
		return fmt.Errorf("results cannot be kept: %w", err)
	}
	j.inFile += len(lines)
	j.last += uint64(len(lines))
	j.lines = append(j.lines, lines...)
	if len(j.lines) > 2*kept {
		j.lines = append([][]byte(nil), j.lines[len(j.lines)-kept:]...)
	}
	close(j.changed)
	j.changed = make(chan struct{})
	return nil
}

// turn begins another file, under mu.
func (j *journal) turn() error {
	name := filepath.Join(j.dir, journalFile)
	if err := os.Rename(name, filepath.Join(j.dir, olderFile)); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_ = j.file.Close() // all of it was written
	j.file, j.inFile = file, 0
	return nil
}

// after are kept results behind a number, that of the first of them, and what is closed when there are more. over says that none will come.
func (j *journal) after(number uint64) (lines [][]byte, first uint64, changed <-chan struct{}, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := min(uint64(len(j.lines)), j.last-min(number, j.last))
	return j.lines[uint64(len(j.lines))-n:], j.last - n + 1, j.changed, j.closed
}

// newest is the number of the last result.
func (j *journal) newest() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// close ends the journal; what it has can still be read.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.closed = true
		_ = j.file.Close() // all of it was written
		close(j.changed)
	}
}
