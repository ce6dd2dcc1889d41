package local

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/merging"
)

// state is a snapshot's content.
type state struct {
	Prints [][32]byte // of the models
	Seed   uint64
	Ties   []merging.Tie
	Epochs []float64
	Params []paramState // in the order in which the ties make them
}

type paramState struct {
	Values, Average []float32
	Moments         moments
}

// Snapshot implements merging.Session.
func (s *session) Snapshot() ([]byte, error) {
	now := state{Seed: s.seed, Ties: s.ties, Epochs: slices.Clone(s.epochs)}
	for _, m := range s.models {
		now.Prints = append(now.Prints, m.print())
	}
	for _, p := range s.params {
		now.Params = append(now.Params, paramState{p.values, p.average, p.moments})
	}
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(now)
	return out.Bytes(), err
}

// Restore implements merging.Session.
func (s *session) Restore(snapshot []byte) error {
	var was state
	if err := gob.NewDecoder(bytes.NewReader(snapshot)).Decode(&was); err != nil {
		return fmt.Errorf("the snapshot cannot be read: %w", err)
	}
	if len(was.Prints) != len(s.models) || was.Seed != s.seed {
		return fmt.Errorf("the snapshot is of %d models and seed %d, want %d and %d", len(was.Prints), was.Seed, len(s.models), s.seed)
	}
	for i, m := range s.models {
		if was.Prints[i] != m.print() {
			return fmt.Errorf("the snapshot is of another file than %s, or of another decoder", m.File)
		}
	}
	if err := s.Tie(was.Ties); err != nil {
		return err
	}
	if len(was.Params) != len(s.params) {
		return fmt.Errorf("the snapshot has %d parameters, want %d", len(was.Params), len(s.params))
	}
	for i, p := range s.params {
		if len(was.Params[i].Values) != len(p.values) || len(was.Params[i].Average) != len(p.values) {
			return errors.New("the snapshot's parameters have other sizes than the models'")
		}
	}
	for i, p := range s.params {
		p.values, p.average, p.moments = was.Params[i].Values, was.Params[i].Average, was.Params[i].Moments
	}
	s.epochs = was.Epochs
	return nil
}
