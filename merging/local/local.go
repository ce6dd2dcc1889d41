// Package local trains networks on this machine's processors, by the engine that serves them: a step is a pass of a network whose parameters are inputs
// and whose output is the loss, forward and backward. What a network is to find is what its own file's network finds, in frames of a clip as they are and
// altered. Equal sessions end in equal bits, whatever the number of threads: a frame's gradient is one thread's work, and frames are summed in their order.
package local

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/merging"
)

// Options say how a Trainer trains. The zero value is what is usual.
type Options struct {
	Threads    int  // that compute; 0: as many as the process may use
	Batch      int  // frames of a model in a step; 0: DefaultBatch
	Descend    bool // by plain stochastic gradient descent; else by Adam
	Unaltered  bool // frames are trained on as they are alone
	FrameBytes int  // that a model's frames may take; 0: DefaultFrameBytes
}

// What Options leave out.
const (
	DefaultBatch      = 4
	DefaultFrameBytes = 256 << 20
)

// Rates to begin with, in parts of a parameter's own size by Adam: of adopters, which come from far away and train little beside biases, and of copies
// trained together, whose networks are at an optimum.
const (
	AdoptionRate  = 0.06
	AdoptionDecay = 0.4 // what an epoch leaves of it
	JointRate     = 0.002
)

// Trainer opens sessions on this machine.
type Trainer struct{ o Options }

// New makes a Trainer.
func New(o Options) *Trainer {
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	if o.FrameBytes == 0 {
		o.FrameBytes = DefaultFrameBytes
	}
	return &Trainer{o}
}

// session is networks in training.
type session struct {
	o       Options
	seed    uint64
	models  []*model
	workers []*worker
	ties    []merging.Tie
	params  []*parameter
	epochs  []float64 // that were trained, by model
}

// worker is a thread that computes, and its networks. One goroutine uses it at a time.
type worker struct {
	backend   kernels.Backend
	originals []*direct.Network // by model
	students  []*student        // by model; nil of one that is not trained
}

// Open opens models for training. Clips are read when they are first needed.
func (t *Trainer) Open(_ context.Context, models []merging.TrainedModel, seed uint64) (merging.Session, error) {
	s := &session{o: t.o, seed: seed, epochs: make([]float64, len(models))}
	if err := s.openModels(models); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) openModels(models []merging.TrainedModel) error {
	if len(models) == 0 {
		return errors.New("no models to train")
	}
	for _, m := range models {
		opened, err := openModel(m)
		if err != nil {
			return err
		}
		s.models = append(s.models, opened)
	}
	for range s.o.Threads {
		backend, err := cpu.New(cpu.Config{Threads: 1})
		if err != nil {
			return err
		}
		w := &worker{backend: backend, students: make([]*student, len(models))}
		s.workers = append(s.workers, w)
		for _, m := range models {
			original, err := direct.Open(m.File, backend, dnn.Options{})
			if err != nil {
				return err
			}
			w.originals = append(w.originals, original)
		}
	}
	for i, m := range s.models {
		if err := m.describeModel(s.workers[0].originals[i]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements merging.Session.
func (s *session) Close() {
	for _, w := range s.workers {
		w.closeStudents()
		for _, o := range w.originals {
			o.Close()
		}
		w.backend.Close()
	}
	for _, m := range s.models {
		_ = m.file.Close() // it was read alone
	}
}

func (w *worker) closeStudents() {
	for i, s := range w.students {
		if s != nil {
			s.close()
			w.students[i] = nil
		}
	}
}

// splitWork does n pieces of work, each by one worker, and returns the first error by number.
func (s *session) splitWork(ctx context.Context, n int, work func(worker, i int) error) error {
	failed := make([]error, n)
	var wait sync.WaitGroup
	for k := range s.workers {
		wait.Go(func() {
			for i := k; i < n; i += len(s.workers) {
				if failed[i] = ctx.Err(); failed[i] == nil {
					failed[i] = work(k, i)
				}
			}
		})
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
