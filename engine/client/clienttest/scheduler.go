// Package clienttest is a scheduler in memory for tests of the pool's client and of what stands on it.
package clienttest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Scheduler is the client's connection, and what is at its other end. It answers every Submit at once by
// Answer, or keeps it when Answer is nil.
type Scheduler struct {
	Deliver func(wire.Message) // takes the answers; the client's
	Answer  func(*wire.Submit) []*wire.Result
	Reset   func(*wire.Reset) *wire.ResetDone  // nil: no answer
	Set     func(*wire.SetModel) *engine.Error // nil: no answer
	Inbox   chan wire.Message                  // what Recv returns; closed: the connection is
	Heard   chan struct{}                      // gets a token for each Submit and Cancel, as far as there is room

	mu      sync.Mutex
	submits []*wire.Submit
	cancels []engine.JobID
	nexts   []*wire.Next
	hellos  []*wire.Hello
	fail    error // of Send
}

// NewScheduler makes one whose Deliver is yet to be set.
func NewScheduler(answer func(*wire.Submit) []*wire.Result) *Scheduler {
	return &Scheduler{Answer: answer, Heard: make(chan struct{}, 1000), Inbox: make(chan wire.Message)}
}

// Recv implements client.Conn.
func (s *Scheduler) Recv(ctx context.Context) (wire.Message, error) {
	select {
	case m, ok := <-s.Inbox:
		if !ok {
			return nil, errors.New("closed")
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Send implements client.Conn.
func (s *Scheduler) Send(msg wire.Message) error {
	if err := s.noteMessage(msg); err != nil {
		return err
	}
	switch m := msg.(type) {
	case *wire.Submit:
		s.tell()
		if s.Answer != nil {
			for _, r := range s.Answer(m) {
				s.Deliver(r)
			}
		}
	case *wire.Cancel:
		s.tell()
	case *wire.Reset:
		if s.Reset != nil {
			s.Deliver(s.Reset(m))
		}
	case *wire.SetModel:
		if s.Set != nil {
			s.Deliver(&wire.ModelSet{Serial: m.Serial, Err: s.Set(m)})
		}
	}
	return nil
}

func (s *Scheduler) noteMessage(msg wire.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	switch m := msg.(type) {
	case *wire.Submit:
		s.submits = append(s.submits, m)
	case *wire.Cancel:
		s.cancels = append(s.cancels, m.Job)
	case *wire.Next:
		s.nexts = append(s.nexts, m)
	case *wire.Hello:
		s.hellos = append(s.hellos, m)
	}
	return nil
}

func (s *Scheduler) tell() {
	select {
	case s.Heard <- struct{}{}:
	default:
	}
}

// Fail makes every Send fail with err until it is called with nil.
func (s *Scheduler) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Hold makes every Send wait until the function that it returns is called.
func (s *Scheduler) Hold() (release func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// Seen are the jobs that were submitted and cancelled so far.
func (s *Scheduler) Seen() (submits []*wire.Submit, cancels []engine.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.submits), slices.Clone(s.cancels)
}

// Nexts are what was said so far of how jobs go on.
func (s *Scheduler) Nexts() []*wire.Next {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nexts)
}

// Hellos are the greetings so far.
func (s *Scheduler) Hellos() []*wire.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hellos)
}

// Token is the Result with the index-th token of a job.
func Token(job engine.JobID, index int, id engine.TokenID, finish engine.Finish) *wire.Result {
	return &wire.Result{Job: job, Output: &engine.TokenOutput{Index: index, Answer: &engine.Answer{Token: id}}, Finish: finish}
}

// Welcome is the first of a scheduler with "demo", of vocab tokens, ready on one executor that keeps it, and
// another model.
func Welcome(epoch uint64, vocab int) *wire.Welcome {
	demo := Served("demo", vocab)
	demo.Keep = wire.KeepAlways
	return &wire.Welcome{Epoch: epoch, Models: 1, Served: []wire.Served{
		{Name: "other", State: wire.ModelReady, Executors: 1, Loaded: 1, Tokens: &wire.TokenLimits{MaxModelLen: 1 << 20, VocabSize: 1 << 20}}, demo,
	}}
}

// Served is a model of vocab tokens that is ready on one executor: with a context of 128 tokens and 100 blocks of 16.
func Served(name string, vocab int) wire.Served {
	return wire.Served{
		Name: name, State: wire.ModelReady, Executors: 1, Loaded: 1,
		Tokens: &wire.TokenLimits{MaxModelLen: 128, VocabSize: vocab, BlockTokens: 16, NumBlocks: 100},
	}
}
