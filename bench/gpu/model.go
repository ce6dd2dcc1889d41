package main

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// seed is tools/golden/golden.py's.
const seed = 1

// source is weights.Random with matrices by name alone, for cuda.Random to make on the device.
type source struct{ weights.Random }

// Tensor makes vectors on the host.
func (s source) Tensor(name string, shape ...int) (kernels.HostTensor, error) {
	if len(shape) == 1 {
		return s.Random.Tensor(name, shape...)
	}
	return kernels.HostTensor{Name: name, Type: s.TypeOf(name), Rows: shape[0], Cols: shape[1]}, nil
}

// load makes the model with room for prompts of longest tokens, beside which others of spare tokens
// may run, and for pages.
func (b *bench) load(longest, spare, chunk, pages int) (*model.Model, error) {
	config, err := b.model.modelConfig(longest)
	if err != nil {
		return nil, err
	}
	random := weights.Random{Seed: seed, Type: b.model.weightType()}
	backend := cuda.Random{Backend: b.backend, Stream: random.Stream}
	m, err := model.New(config, source{random}, backend, model.Options{
		MaxLen: longest, ChunkRows: chunk, BlockTokens: block, MaxItems: b.packed, SpareRows: spare,
		ResidentRows: model.GPURows,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.model.Name, err)
	}
	if err := m.NewPages(pages); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// labels asks for the probabilities of two tokens, as the paper's requests do.
var labels = engine.Ask{Allowed: engine.NewTokenSet(1, 2)}

// newPrompt is n tokens; tools/peers/cuda_torch.py makes the same.
func (b *bench) newPrompt(seed, n int, ask engine.Ask) wire.TokenItem {
	item := wire.TokenItem{Ask: ask}
	for i := range n {
		item.Tokens = append(item.Tokens, engine.TokenID((seed+i*7919)%b.model.Vocab))
	}
	return item
}

// runPassSteps runs a pass to its end, calling between after each layer, and returns its answers.
func runPassSteps(m *model.Model, between func(layer int) error, items ...wire.TokenItem) ([]wire.ItemResult, error) {
	run := &wire.Run{}
	for i := range items {
		run.Items = append(run.Items, wire.RunItem{Work: &items[i]})
	}
	p, err := m.Begin(run)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	layer := 0
	for done := false; !done; {
		if done, err = p.Step(); err != nil {
			return nil, err
		}
		if !done && !p.Boundary() {
			continue
		}
		layer++
		if err := between(layer); err != nil {
			return nil, err
		}
	}
	for _, r := range p.Results() {
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return p.Results(), nil
}

// timePass runs items to their answers and returns the time by the host's clock, which is what a client
// feels.
func timePass(m *model.Model, items ...wire.TokenItem) (time.Duration, error) {
	start := time.Now()
	_, err := runPassSteps(m, func(int) error { return nil }, items...)
	return time.Since(start), err
}

// medianPass runs a pass once uncounted and then as often as fits into about a budget, at least twice
// and at most b.runs times.
func (b *bench) medianPass(m *model.Model, items ...wire.TokenItem) (median time.Duration, runs int, err error) {
	const budget = 2 * time.Second
	first, err := timePass(m, items...)
	if err != nil {
		return 0, 0, err
	}
	var times []time.Duration
	for len(times) < min(b.runs, max(2, int(budget/max(first, 1)))) {
		took, err := timePass(m, items...)
		if err != nil {
			return 0, 0, err
		}
		times = append(times, took)
	}
	return medianDuration(times), len(times), nil
}
