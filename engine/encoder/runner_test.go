package encoder

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/cputest"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// runner is encoders as the executor's Runner: on one backend, with one store and one workspace.
type runner struct {
	names  []string
	models []*Model
	work   *Workspace
	at     []place // of pieces of weights
}

type place struct{ model, chunk int }

func newRunner(t *testing.T, b kernels.Backend, names ...string) *runner {
	t.Helper()
	r, st, size := &runner{names: names}, store.New(b), Size{}
	for i, name := range names {
		config, source := goldenSource(t, name)
		m, err := Open(config, source, st, Options{ChunkRows: 32, MaxLen: 100})
		if err != nil {
			t.Fatal(err)
		}
		for k := range m.Chunks() {
			r.at = append(r.at, place{i, k})
		}
		r.models, size = append(r.models, m), size.Larger(m.Size())
	}
	var err error
	if r.work, err = NewWorkspace(b, size.Views); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.models {
		if err := m.Use(r.work); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *runner) Info() wire.ExecutorInfo {
	info := wire.ExecutorInfo{Device: "test", CanPause: true}
	for i, m := range r.models {
		next := m.Info()
		next.Name = r.names[i]
		for _, c := range m.Chunks() {
			next.Weights = append(next.Weights, uint32(len(info.Weights)))
			info.Weights = append(info.Weights, wire.Weight{Bytes: uint64(c.Bytes), Resident: c.Resident})
		}
		info.Models = append(info.Models, next)
	}
	return info
}

func (r *runner) Load(_ string, weight uint32) (done bool, err error) {
	return true, r.models[r.at[weight].model].LoadChunk(r.at[weight].chunk)
}

func (r *runner) Drop(weights []uint32) {
	for _, w := range weights {
		r.models[r.at[w].model].DropChunk(r.at[w].chunk)
	}
}

func (r *runner) Begin(run *wire.Run) (executor.Pass, error) {
	for i, name := range r.names {
		if name == run.Model {
			p, err := r.models[i].Begin(run)
			if err != nil {
				return nil, err
			}
			return p, nil
		}
	}
	return nil, engine.Errorf(engine.CodeUnavailable, "there is no model %q", run.Model)
}

func (r *runner) Close() {
	for _, m := range r.models {
		m.Close()
	}
	r.work.Free()
}

// TestRunnerSuite runs what every executor.Runner must pass on models that share their workspace.
func TestRunnerSuite(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) kernels.Backend{
		"ref": func(*testing.T) kernels.Backend { return ref.New() },
		"cpu": func(t *testing.T) kernels.Backend { return cputest.Open(t, cpu.Config{Threads: 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			runnertest.Run(t, func(t *testing.T) executor.Runner { return newRunner(t, b, "bert", "modernbert-mlm") })
		})
	}
}
