package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
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

// vitals is what an executor tells of itself, gathered by those who know it.
type vitals struct {
	name           string
	lines          bool         // tell of loading by lines alone
	loaded, toLoad atomic.Int64 // bytes of weights
	gpu            atomic.Pointer[nvml.GPU]
	readings       atomic.Pointer[[]nvml.Reading]
}

// state is the vitals as the scheduler hears of them.
func (v *vitals) state() *wire.ExecutorState {
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

// watchGPU watches the executor's GPUs, where it has some, until ctx ends, and calls stop with the
// reason when one is lost: those that share a model are of no use without it. Figures are told of the
// first. The result is closed when the watch is over.
func watchGPU(ctx context.Context, cfg *config.Config, v *vitals, stop context.CancelCauseFunc, log *zap.Logger) <-chan struct{} {
	over := make(chan struct{})
	library, gpus := device.OwnGPUs(deviceOptions(cfg, log))
	var watches sync.WaitGroup
	for i, gpu := range gpus {
		sampled := func(readings []nvml.Reading) {}
		if i == 0 {
			v.gpu.Store(&gpu)
			sampled = func(readings []nvml.Reading) { v.readings.Store(&readings) }
		}
		seen := func(xid uint64) {
			log.Error("the GPU reports an error", zap.Uint64("xid", xid), zap.String("gpu", gpu.UUID))
		}
		watches.Go(func() { // ends with ctx
			err := library.Monitor(ctx, gpu, watchEvery, sampled, seen)
			if err == nil {
				return
			}
			stop(&lostGPU{err})
			time.AfterFunc(lostGrace, func() {
				fmt.Fprintln(os.Stderr, "prefillonly: killed by itself, since the GPU does not let it end:", err)
				os.Exit(exitLost)
			})
		})
	}
	go func() { // ends with the watches
		watches.Wait()
		close(over)
	}()
	return over
}
