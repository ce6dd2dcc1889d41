package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/runnertest"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// runner is models as the executor's Runner: on one backend, with one store and one workspace.
type runner struct {
	models []*Model
	names  []string
	work   *Workspace
	ref    []chunkRef // of pieces of weights
}

// chunkRef is a chunk of a model, both by their positions.
type chunkRef struct{ model, chunk int }

// newRunner hosts golden models, whose weights are not loaded, with so many pages each.
func newRunner(t *testing.T, b kernels.Backend, names []string, pages, hostPages int) runner {
	t.Helper()
	r, st := runner{names: names}, store.New(b)
	var plans []Plan
	for i, name := range names {
		config, source := goldenSource(t, name)
		m, err := Open(config, source, st, bitsOptions)
		if err == nil {
			err = m.NewPages(pages)
		}
		if err == nil && hostPages > 0 {
			err = m.NewHostPages(hostPages)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.models, plans = append(r.models, m), append(plans, m.Plan())
		for k := range m.Chunks() {
			r.ref = append(r.ref, chunkRef{i, k})
		}
	}
	var err error
	if r.work, err = NewWorkspace(b, plans...); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.models {
		if err := m.Use(r.work); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r runner) Info() wire.ExecutorInfo {
	info := wire.ExecutorInfo{Device: r.models[0].backend.Name(), CanPause: true}
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

func (r runner) Load(_ string, weight uint32) (done bool, err error) {
	at := r.ref[weight]
	return true, r.models[at.model].LoadChunk(at.chunk)
}

func (r runner) Drop(weights []uint32) {
	for _, w := range weights {
		r.models[r.ref[w].model].DropChunk(r.ref[w].chunk)
	}
}

func (r runner) model(name string) (*Model, error) {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.models[i], nil
	}
	return nil, fmt.Errorf("there is no model %q", name)
}

func (r runner) Begin(run *wire.Run) (executor.Pass, error) {
	m, err := r.model(run.Model)
	if err != nil {
		return nil, err
	}
	p, err := m.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (r runner) Save(model string, copies []wire.Copy) error {
	m, err := r.model(model)
	if err != nil {
		return err
	}
	return m.Save(copies)
}

func (r runner) Close() {
	for _, m := range r.models {
		m.Close()
	}
	r.work.Free()
}

// TestRunnerSuite runs what every executor.Runner must pass on models that share their workspace.
func TestRunnerSuite(t *testing.T) {
	eachBackend(t, func(t *testing.T, b kernels.Backend) {
		runnertest.Run(t, func(t *testing.T) executor.Runner {
			return newRunner(t, b, []string{"qwen3", "qwen2-window"}, 32, 0)
		})
	})
}
