// Package journal keeps the last results of a stream as lines of JSON, in memory and in files: what is there was given, and a process that
// comes after one that was killed goes on behind it.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
)

// Kept is how many results of a stream are kept for those who were away, and KeptBytes in how many bytes: fewer are kept of large ones.
const (
	Kept      = 4096
	KeptBytes = 8 << 20
)

const (
	newerFile = "results.jsonl"
	olderFile = "results.older.jsonl"
)

// Journal keeps results. Its methods are safe for concurrent use.
type Journal struct {
	dir string

	mu      sync.Mutex
	file    *os.File      // guarded by mu
	whole   int64         // guarded by mu; bytes of the file that are whole results
	torn    bool          // guarded by mu; there may be more behind them
	inFile  int           // guarded by mu; lines
	lines   [][]byte      // guarded by mu; the last ones, whose numbers are consecutive
	bytes   int           // guarded by mu; of lines
	last    uint64        // guarded by mu; number of the last one
	changed chan struct{} // guarded by mu; closed when there are more, or it is closed
	closed  bool          // guarded by mu
}

// Place is where a stream goes on.
type Place struct {
	Number uint64         // of the last result
	Next   method.Segment // the first without final results
	Time   time.Duration  // of the last frame with a final result, in its source; negative: there was none
}

// Open reads what a stream's directory has, which is made if it is not there. A file whose end is cut or garbage loses that end.
func Open(dir string) (*Journal, Place, error) {
	j := &Journal{dir: dir, changed: make(chan struct{})}
	at := Place{Time: -1}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, at, err
	}
	for _, name := range []string{olderFile, newerFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, at, err
		}
		before := at.Number
		whole, lines := at.replayLines(text)
		if at.Number-before != uint64(len(lines)) {
			j.lines = nil // some between are gone
		}
		j.lines = append(j.lines, lines...)
		j.whole, j.inFile, j.torn = int64(whole), len(lines), whole < len(text)
	}
	j.lines, j.bytes = newestLines(j.lines)
	j.last = at.Number
	var err error
	if j.file, err = os.OpenFile(filepath.Join(dir, newerFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, at, err
	}
	return j, at, nil
}

// replayLines reads lines, and says how many bytes there are up to the last one that ends the results of a segment, and which lines are whole results
// behind the last gap in their numbers.
func (at *Place) replayLines(text []byte) (whole int, lines [][]byte) {
	read, last, pending := 0, at.Number, [][]byte(nil)
	for line := range bytes.Lines(text) {
		read += len(line)
		var r Result
		if line[len(line)-1] != '\n' || json.Unmarshal(line, &r) != nil || r.Number <= last {
			continue
		}
		if r.Frame == 0 || r.Number != last+1 {
			pending = nil
		}
		if r.Frame != len(pending) {
			continue
		}
		last, pending = r.Number, append(pending, bytes.TrimSuffix(line, []byte("\n")))
		if r.Frame < r.Of-1 {
			continue
		}
		if r.Number-uint64(len(pending)) != at.Number {
			lines = nil // some between are gone
		}
		whole, at.Number = read, r.Number
		lines, pending = append(lines, pending...), nil
		if r.Final {
			at.Next, at.Time = method.Segment(r.Segment)+1, time.Duration(math.Round(r.Time*float64(time.Second)))
		}
	}
	return whole, lines
}

// newestLines are the last lines that are kept, and their bytes: of the bytes, one line at least.
func newestLines(lines [][]byte) (kept [][]byte, size int) {
	from := len(lines)
	for from > max(0, len(lines)-Kept) && (size == 0 || size+len(lines[from-1]) <= KeptBytes) {
		from--
		size += len(lines[from])
	}
	return append([][]byte(nil), lines[from:]...), size
}

// Add writes the results of a segment, whose numbers follow those before. With an error nothing was added, and it may be tried again.
func (j *Journal) Add(lines [][]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return os.ErrClosed
	}
	if err := j.appendText(append(bytes.Join(lines, []byte("\n")), '\n')); err != nil {
		return fmt.Errorf("results cannot be kept: %w", err)
	}
	j.inFile += len(lines)
	j.last += uint64(len(lines))
	j.lines = append(j.lines, lines...)
	for _, line := range lines {
		j.bytes += len(line)
	}
	if len(j.lines) > 2*Kept || j.bytes > KeptBytes*5/4 {
		j.lines, j.bytes = newestLines(j.lines)
	}
	close(j.changed)
	j.changed = make(chan struct{})
	return nil
}

// appendText appends to the file, under mu.
func (j *Journal) appendText(text []byte) error {
	if j.torn {
		if err := j.file.Truncate(j.whole); err != nil {
			return err
		}
		j.torn = false
	}
	if j.inFile >= Kept || j.whole >= KeptBytes {
		if err := j.rotateFile(); err != nil {
			return err
		}
	}
	j.torn = true
	if _, err := j.file.Write(text); err != nil {
		return err
	}
	j.whole, j.torn = j.whole+int64(len(text)), false
	return nil
}

// rotateFile begins another file, under mu.
func (j *Journal) rotateFile() error {
	name := filepath.Join(j.dir, newerFile)
	if err := os.Rename(name, filepath.Join(j.dir, olderFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // without it, an earlier try came so far
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_ = j.file.Close() // all of it was written
	j.file, j.inFile, j.whole = file, 0, 0
	return nil
}

// After are kept results behind a number, that of the first of them, and what is closed when there are more. Over says that none will come.
func (j *Journal) After(number uint64) (lines [][]byte, first uint64, changed <-chan struct{}, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := min(uint64(len(j.lines)), j.last-min(number, j.last))
	return j.lines[uint64(len(j.lines))-n:], j.last - n + 1, j.changed, j.closed
}

// Newest is the number of the last result.
func (j *Journal) Newest() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Close ends the journal; what it has can still be read.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.closed = true
		_ = j.file.Close() // all of it was written
		close(j.changed)
	}
}
