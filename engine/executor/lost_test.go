package executor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// gone is the error of a device that is lost.
type gone struct{}

func (gone) Error() string    { return "fell off the bus" }
func (gone) DeviceLost() bool { return true }

// fragile is a runner whose passes fail as their job says: 1 in Begin, 2 in Step, for good. So do its loads.
type fragile struct {
	*executor.Null
	closed bool
}

type fragilePass struct{ executor.Pass }

func (r *fragile) Begin(run *wire.Run) (executor.Pass, error) {
	switch run.Items[0].Job {
	case 1:
		return nil, fmt.Errorf("begin: %w", gone{})
	case 2:
		p, err := r.Null.Begin(run)
		return fragilePass{p}, err
	}
	return r.Null.Begin(run)
}

func (r *fragile) Load(string, uint32) (bool, error) { return false, fmt.Errorf("copy: %w", gone{}) }

func (fragilePass) Step() (bool, error) { return false, fmt.Errorf("layer 0: %w", gone{}) }

func (r *fragile) Close() { r.closed = true }

// TestDeviceLost: the executor ends with the error, leaves the device alone, and does not answer for
// the pass or the load, so that the scheduler has it done elsewhere.
func TestDeviceLost(t *testing.T) {
	item := func(job engine.JobID) []wire.RunItem {
		return []wire.RunItem{{Job: job, Work: &wire.TokenItem{Tokens: []engine.TokenID{1}}}}
	}
	for name, last := range map[string]wire.Message{
		"begin":  &wire.Run{Pass: 2, Model: "c", Items: item(1)},
		"step":   &wire.Run{Pass: 2, Model: "c", Items: item(2)},
		"nested": &wire.Run{Pass: 2, Model: "c", Items: item(2), Nested: true},
		"load":   &wire.Load{Serial: 1, Model: "a", Weights: []uint32{0}},
	} {
		w := wires{make(chan wire.Message), make(chan wire.Message, 1000)}
		nests := pool()
		nests.Nests = true
		r := &fragile{Null: executor.NewNull(nests)}
		result := make(chan error, 1)
		go func() {
			cfg := executor.Config{Name: "cuda-0", Heartbeat: time.Hour, Log: zap.NewNop()}
			result <- executor.Run(t.Context(), cfg, w, func() (executor.Runner, error) { return r, nil })
		}()
		for _, m := range []wire.Message{&wire.Welcome{Epoch: 1}, &wire.Welcome{Epoch: 1}, &wire.Run{Pass: 1, Model: "c", Items: item(9)}} {
			w.to <- m
		}
		for done := false; !done; {
			_, done = (<-w.from).(*wire.Done)
		}
		w.to <- last
		if err := <-result; !errors.Is(err, gone{}) {
			t.Errorf("%s: Run = %v, want the runner's error", name, err)
		}
		if r.closed {
			t.Errorf("%s: the lost device was called again", name)
		}
		close(w.from)
		for m := range w.from {
			if _, hello := m.(*wire.Hello); !hello {
				t.Errorf("%s: answered %+v", name, m)
			}
		}
	}
}

// TestStoppedByCause: the end of the context with a cause of its own is an error, and the runner is
// closed on the way.
func TestStoppedByCause(t *testing.T) {
	w := wires{make(chan wire.Message), make(chan wire.Message, 1000)}
	r := &fragile{Null: executor.NewNull(info)}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped for a reason")
	stop(why)
	cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Hour, Log: zap.NewNop()}
	err := executor.Run(ctx, cfg, w, func() (executor.Runner, error) { return r, nil })
	if !errors.Is(err, why) || !r.closed {
		t.Errorf("Run = %v, runner closed: %v", err, r.closed)
	}
}

// TestLoadingIsTold: until the runner is open the scheduler hears how far it is, and nothing that
// would bring work.
func TestLoadingIsTold(t *testing.T) {
	w := wires{make(chan wire.Message), make(chan wire.Message, 1000)}
	var loaded atomic.Uint64
	cfg := executor.Config{Name: "cpu-0", Heartbeat: time.Millisecond, Log: zap.NewNop(), State: func() *wire.ExecutorState {
		return &wire.ExecutorState{Name: "cpu-0", Loaded: loaded.Load(), ToLoad: 2}
	}}
	heard := func(want uint64, loading bool) *wire.Hello {
		t.Helper()
		for m := range w.from {
			h := m.(*wire.Hello)
			if h.State != nil && h.State.Loaded == want && (h.Executor == nil) == loading {
				return h
			}
		}
		return nil
	}
	open := func() (executor.Runner, error) {
		heard(0, true)
		loaded.Store(1)
		heard(1, true)
		loaded.Store(2)
		return &fragile{Null: executor.NewNull(info)}, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- executor.Run(ctx, cfg, w, open) }()
	if h := heard(2, false); h.Executor.Models[0].Name != info.Models[0].Name {
		t.Errorf("registered as %+v", h.Executor)
	}
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
}
