package roles

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/nvml"
)

// watchEvery is how often an executor reads how its GPU is.
const watchEvery = 2 * time.Second

// lostGrace is how long an executor may take to end by itself once its GPU is lost: the thread that
// computes may wait for the GPU in vain.
const lostGrace = 5 * time.Second

// lostGPU is the loss of a GPU that the management library reports.
type lostGPU struct{ err error }

func (e *lostGPU) Error() string  { return e.err.Error() }
func (e *lostGPU) Unwrap() error  { return e.err }
func (*lostGPU) DeviceLost() bool { return true }

// Vitals is what an executor tells of itself, gathered by those who know it.
type Vitals struct {
	// set once
	name   string
	log    *zap.Logger
	screen io.Writer // nil without a terminal
	now    func() time.Time

	loading *loading // owned by Loading; nil while nothing is loaded

	loaded, toLoad atomic.Int64 // bytes of weights
	gpu            atomic.Pointer[nvml.GPU]
	readings       atomic.Pointer[[]nvml.Reading]
}

// NewVitals makes the vitals of an executor. Loading is told of by lines of the log, and on a terminal by a bar unless
// lines is set.
func NewVitals(name string, lines bool, log *zap.Logger) *Vitals {
	v := &Vitals{name: name, log: log, now: time.Now}
	if !lines && term.IsTerminal(int(os.Stderr.Fd())) {
		v.screen = os.Stderr
	}
	return v
}

// State is the vitals as the scheduler hears of them.
func (v *Vitals) State() *wire.ExecutorState {
	s := &wire.ExecutorState{Name: v.name, Loaded: uint64(v.loaded.Load()), ToLoad: uint64(v.toLoad.Load())}
	if gpu := v.gpu.Load(); gpu != nil {
		s.GPU, s.UUID = gpu.Name, gpu.UUID
	}
	if readings := v.readings.Load(); readings != nil {
		for _, r := range *readings {
			s.Readings = append(s.Readings, wire.Reading(r))
		}
	}
	return s
}

// Watch watches the executor's GPUs until ctx ends, and calls stop with the reason when one is lost: those that
// share a model are of no use without it. Should the process not end then within some seconds, it calls die, once a
// lost GPU. Figures are told of the first. The result is closed when the watch is over.
func (v *Vitals) Watch(ctx context.Context, library *nvml.Library, gpus []nvml.GPU, stop context.CancelCauseFunc, die func(error)) <-chan struct{} {
	over := make(chan struct{})
	var watches sync.WaitGroup
	for i, gpu := range gpus {
		sampled := func(readings []nvml.Reading) {}
		if i == 0 {
			v.gpu.Store(&gpu)
			sampled = func(readings []nvml.Reading) { v.readings.Store(&readings) }
		}
		seen := func(xid uint64) {
			v.log.Error("the GPU reports an error", zap.Uint64("xid", xid), zap.String("gpu", gpu.UUID))
		}
		watches.Go(func() { // ends with ctx
			if err := library.Monitor(ctx, gpu, watchEvery, sampled, seen); err != nil {
				stop(&lostGPU{err})
				time.AfterFunc(lostGrace, func() { die(err) })
			}
		})
	}
	go func() { // ends with the watches
		watches.Wait()
		close(over)
	}()
	return over
}
