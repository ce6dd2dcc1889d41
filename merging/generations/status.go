package generations

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/prefillonly/prefillonly/internal/dirlock"
)

// Status is how a merge stands.
type Status struct {
	Running     string             `json:"running,omitempty"` // the process that carries it on
	Inputs      Inputs             `json:"inputs"`
	Seconds     float64            `json:"seconds"` // of work
	Attempts    int                `json:"attempts"`
	Ended       string             `json:"ended,omitempty"` // why; empty: it can go on
	Current     *Merge             `json:"current,omitempty"`
	Generations []*Merge           `json:"generations"`
	Watched     map[string]Watched `json:"watched,omitempty"` // by a server, by model
}

// Events reads what has happened in a merge, whoever carries it on.
func Events(path string) ([]Event, error) {
	log, err := os.Open(filepath.Join(path, eventsName))
	if err != nil {
		return nil, fmt.Errorf("%s has no merge: %w", path, err)
	}
	defer log.Close()
	d := &Dir{path: path, log: log}
	err = d.readEvents()
	return d.events, err
}

// Read reads how a merge stands, whoever carries it on.
func Read(path string) (*Status, error) {
	events, err := Events(path)
	if err != nil {
		return nil, err
	}
	s := &Status{Running: lockHolder(path), Generations: []*Merge{}}
	for _, e := range events {
		s.Seconds = e.At
		switch e.Event {
		case Begun:
			if e.Inputs != nil {
				s.Inputs = *e.Inputs
			}
		case Tied:
			s.Attempts = e.Attempt
		case Ended:
			s.Ended = e.Reason
		}
	}
	s.Watched, _ = readWatched(path) // it may be damaged
	numbers, err := list(path)
	for _, n := range numbers {
		m, of := readMerge(path, generation(n))
		s.Generations, err = append(s.Generations, m), errors.Join(err, of)
	}
	if err != nil || len(numbers) == 0 {
		return s, err
	}
	s.Current, err = readMerge(path, currentName)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // it is switched for the first time
	}
	return s, err
}

// lockHolder is the process that has a directory, "" if none has.
func lockHolder(path string) string {
	lock, err := dirlock.Take(path, lockName)
	var held *dirlock.HeldError
	if errors.As(err, &held) {
		return held.PID
	}
	if err == nil {
		_ = lock.Close() // nothing was written by it
	}
	return ""
}
