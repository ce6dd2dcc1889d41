package tensorparallel

import (
	"errors"
	"sync"

	"github.com/prefillonly/prefillonly/kernels"
)

// Shared is the Collective of ranks that can read one another's memory and have computed a partial
// when their call returns, as processors do: nothing is copied, the ranks only meet.
type Shared struct {
	ranks int

	mu    sync.Mutex
	round *round // guarded by mu
	err   error  // guarded by mu: of Abort
}

// round is one meeting; its fields are fixed once done is closed.
type round struct {
	partials []kernels.Mat
	arrived  int
	done     chan struct{}
	err      error
}

var _ Collective = (*Shared)(nil)

// NewShared returns the collective of so many ranks.
func NewShared(ranks int) *Shared {
	s := &Shared{ranks: ranks}
	s.round = s.newRound()
	return s
}

// JoinShared is NewShared for New.
func JoinShared(ranks []kernels.Rank) (Collective, error) { return NewShared(len(ranks)), nil }

func (s *Shared) newRound() *round {
	return &round{partials: make([]kernels.Mat, s.ranks), done: make(chan struct{})}
}

// Gather waits until every rank has come.
func (s *Shared) Gather(rank int, partial kernels.Mat) ([]kernels.Mat, error) {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return nil, s.err
	}
	r := s.round
	r.partials[rank] = partial
	if r.arrived++; r.arrived == s.ranks {
		s.round = s.newRound()
		close(r.done)
	}
	s.mu.Unlock()
	<-r.done
	return r.partials, r.err
}

// Check has nothing to find: there is no device beside the calls.
func (s *Shared) Check() error { return nil }

// Abort wakes the ranks that wait.
func (s *Shared) Abort(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err, s.round.err = err, err
		close(s.round.done)
	}
}

// Reset lets the ranks meet again.
func (s *Shared) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		s.err, s.round = nil, s.newRound()
	}
	return nil
}

// Close wakes ranks that wait.
func (s *Shared) Close() { s.Abort(errors.New("the ranks are closed")) }
