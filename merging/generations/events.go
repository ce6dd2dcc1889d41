package generations

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/search"
)

// Event is a line of what has happened.
type Event struct {
	At      float64   `json:"at"` // seconds of work since the beginning
	Event   string    `json:"event"`
	Inputs  *Inputs   `json:"inputs,omitempty"`  // begun
	Attempt int       `json:"attempt,omitempty"` // tied, shipped
	Layers  int       `json:"layers,omitempty"`  // tied
	Saved   int64     `json:"saved_bytes,omitempty"`
	Model   string    `json:"model,omitempty"` // scored
	Score   *Score    `json:"score,omitempty"`
	Epochs  float64   `json:"epochs,omitempty"` // trained; resumed: of the attempt so far
	Rate    float64   `json:"rate,omitempty"`
	Losses  []float64 `json:"losses,omitempty"`
	Number  *int      `json:"generation,omitempty"` // shipped
	Reason  string    `json:"reason,omitempty"`     // ended
	Refused bool      `json:"refused,omitempty"`
}

// What happens. Resumed and Training are told, and not kept.
const (
	Begun    = "begun"
	Resumed  = "resumed"
	Tied     = "tied"
	Training = "training"
	Trained  = "trained"
	Scored   = "scored"
	Shipped  = "shipped"
	Ended    = "ended"
)

// Score is how a model does on held-out frames.
type Score struct {
	Value   float64 `json:"score"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Objects int     `json:"n"`
	Frames  int     `json:"frames"`
}

// finite is x, or if it is no number, which JSON has not, the one given.
func finite(x, otherwise float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return otherwise
	}
	return x
}

func scoreOf(s merging.Score) *Score {
	return &Score{finite(s.Value, 0), finite(s.Low, 0), finite(s.High, 1), s.Objects, s.Frames}
}

func (s *Score) trainers() merging.Score {
	return merging.Score{Value: s.Value, Low: s.Low, High: s.High, Objects: s.Objects, Frames: s.Frames}
}

// searchEvent is the event of the search that a line tells of; nil: none.
func (d *Dir) searchEvent(e Event) search.Event {
	switch e.Event {
	case Trained:
		return &search.Trained{Losses: e.Losses}
	case Scored:
		for i, m := range d.inputs.Models {
			if m.Name == e.Model && e.Score != nil {
				return &search.Scored{Model: i, Score: e.Score.trainers()}
			}
		}
	}
	return nil
}

// seconds and duration are what a line says of a time, which is as exact.
func seconds(at time.Duration) float64 { return float64(at.Milliseconds()) / 1000 }

func duration(at float64) time.Duration {
	return time.Duration(math.Round(at*1000)) * time.Millisecond
}

// readEvents reads the lines that are whole.
func (d *Dir) readEvents() error {
	reader, end := bufio.NewReader(d.log), int64(0)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e Event
		if json.Unmarshal(line, &e) != nil {
			return nil // what comes behind is truncated when the merge goes on
		}
		end += int64(len(line))
		d.events, d.ends = append(d.events, e), append(d.ends, end)
	}
}

// appendEvent adds a line.
func (d *Dir) appendEvent(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := beforeWrite(d.log.Name()); err != nil {
		return err
	}
	at := d.linesBytes()
	if _, err := d.log.WriteAt(append(line, '\n'), at); err != nil {
		return err
	}
	d.events, d.ends = append(d.events, e), append(d.ends, at+int64(len(line))+1)
	return nil
}

// linesBytes is how many bytes the lines take.
func (d *Dir) linesBytes() int64 {
	if len(d.ends) == 0 {
		return 0
	}
	return d.ends[len(d.ends)-1]
}

// truncateEvents leaves so many events.
func (d *Dir) truncateEvents(count int) error {
	if err := beforeWrite(d.log.Name()); err != nil {
		return err
	}
	d.events, d.ends = d.events[:count], d.ends[:count]
	return d.log.Truncate(d.linesBytes())
}

// state is from where a run goes on.
type state struct {
	Events  int // that led here
	Session snapshot
	Slots   map[search.Slot]snapshot
}

// snapshot is a session's, with the ties of then.
type snapshot struct {
	Ties []merging.Tie
	Of   []byte
}

// writeState keeps a state on the disk, after the events that led to it.
func (d *Dir) writeState(s *state) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		return err
	}
	if err := toDisk(d.log); err != nil {
		return err
	}
	return writeFile(filepath.Join(d.path, stateName), b.Bytes())
}

// readState reads the state; nil: there is none.
func (d *Dir) readState() (*state, error) {
	path := filepath.Join(d.path, stateName)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := gob.NewDecoder(bytes.NewReader(content)).Decode(s); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove %s and begin anew", path, err, d.path)
	}
	if s.Events > len(d.events) {
		return nil, fmt.Errorf("%s has %d events, and %s is of %d: remove %s and begin anew", d.log.Name(), len(d.events), path, s.Events, d.path)
	}
	return s, nil
}
