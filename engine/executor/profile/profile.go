// Package profile measures what passes cost on a device and fits the cost model by which the
// scheduler orders jobs: time = base + token*(n - c) + pair*(n^2 - c^2)/2 for n prompt tokens of
// which c are cached (PrefillOnly, section 5.3.3, with the quadratic attention term).
package profile

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Sample is one measured point.
type Sample struct {
	Input  int           `json:"n_input"`
	Cached int           `json:"n_cached"`
	Size   float64       `json:"size,omitempty"` // of its frames, as a multiple of the elements of the network's own; 0: 1
	Took   time.Duration `json:"took_ns"`        // the median of the repetitions
	Step   time.Duration `json:"step_ns"`        // the longest step of the repetition in which that was shortest
}

// Options say which grid to measure.
type Options struct {
	MaxTokens int                             // longest prompt; 0 is the runner's limit
	Step      int                             // distance of prompt lengths; 0 doubles from 64 on
	Repeat    int                             // runs of each point, at least 1
	Progress  func(done, total int, s Sample) // called after each point; may be nil
}

// Measure loads a model that takes tokens and runs the grid on r, which is used by nothing else meanwhile.
// Cached parts are what fits the prefix cache of a half and of seven eighths of each length.
func Measure(r executor.Runner, model string, o Options) ([]Sample, error) {
	info, err := loadWeights(r, model)
	if err != nil {
		return nil, err
	}
	points := sampleGrid(info, o)
	if len(points) == 0 {
		return nil, fmt.Errorf("no prompt lengths to measure up to %d tokens: the model's limit is %d", o.MaxTokens, info.Tokens.MaxModelLen)
	}
	for i := range points {
		p := &points[i]
		var took []time.Duration
		for range max(o.Repeat, 1) {
			t, step, err := measurePass(r, info, p.Input, p.Cached)
			if err != nil {
				return nil, fmt.Errorf("%d tokens, %d cached: %w", p.Input, p.Cached, err)
			}
			if len(took) == 0 || step < p.Step {
				p.Step = step
			}
			took = append(took, t)
		}
		slices.Sort(took)
		p.Took = took[len(took)/2]
		if o.Progress != nil {
			o.Progress(i+1, len(points), *p)
		}
	}
	return points, nil
}

// loadWeights brings all of a model's weights onto the device.
func loadWeights(r executor.Runner, model string) (*wire.ModelInfo, error) {
	for _, m := range r.Info().Models {
		if m.Name != model || m.Tokens == nil {
			continue
		}
		for i, w := range m.Weights {
			if err := executor.Load(r, model, w); err != nil {
				return nil, fmt.Errorf("piece %d of %d of the weights: %w", i, len(m.Weights), err)
			}
		}
		return &m, nil
	}
	return nil, fmt.Errorf("there is no model %q that takes tokens", model)
}

// shortest is the first prompt length of a doubling grid.
const shortest = 64

func sampleGrid(info *wire.ModelInfo, o Options) []Sample {
	limit := info.Tokens.MaxModelLen - 1 // one is for the answer
	if o.MaxTokens > 0 {
		limit = min(limit, o.MaxTokens)
	}
	var lengths []int
	next := func(n int) int { return 2 * n }
	n := shortest
	if o.Step > 0 {
		n, next = o.Step, func(n int) int { return n + o.Step }
	}
	for ; n < limit; n = next(n) {
		lengths = append(lengths, n)
	}
	if limit > 0 {
		lengths = append(lengths, limit)
	}
	var points []Sample
	for _, n := range lengths {
		points = append(points, Sample{Input: n})
		for _, part := range []int{n / 2, n / 8 * 7} {
			if cached := part / info.Tokens.BlockTokens * info.Tokens.BlockTokens; cached > 0 && cached/info.Tokens.BlockTokens <= info.Tokens.NumBlocks {
				points = append(points, Sample{Input: n, Cached: cached})
			}
		}
	}
	return points
}

// measurePass fills the cache with the first cached tokens, and times the pass that reads them.
func measurePass(r executor.Runner, info *wire.ModelInfo, input, cached int) (took, step time.Duration, err error) {
	tokens := make([]engine.TokenID, input)
	for i := range tokens {
		tokens[i] = engine.TokenID((i*2654435761 + 12345) % info.Tokens.VocabSize)
	}
	blocks := make([]wire.BlockID, cached/info.Tokens.BlockTokens)
	for i := range blocks {
		blocks[i] = wire.BlockID(i)
	}
	ask := engine.Ask{Allowed: engine.NewTokenSet(0, 1)}
	if info.Tokens.VectorsOnly {
		ask = engine.Ask{Pool: engine.PoolLast}
	}
	if cached > 0 {
		if _, _, err := timePass(r, info.Name, wire.TokenItem{Tokens: tokens[:cached], Blocks: blocks, Ask: ask}); err != nil {
			return 0, 0, err
		}
	}
	return timePass(r, info.Name, wire.TokenItem{From: cached, Tokens: tokens[cached:], Cached: cached, Blocks: blocks, Ask: ask})
}

// timePass times a pass, and the longest of its steps.
func timePass(r executor.Runner, model string, item wire.TokenItem) (took, step time.Duration, err error) {
	start := time.Now()
	pass, err := r.Begin(&wire.Run{Model: model, Items: []wire.RunItem{{Work: &item}}})
	if err != nil {
		return 0, 0, err
	}
	defer pass.Close()
	for done := false; !done; {
		before := time.Now()
		if done, err = pass.Step(); err != nil {
			return 0, 0, err
		}
		step = max(step, time.Since(before))
	}
	if res := pass.Results()[0]; res.Err != nil {
		return 0, 0, res.Err
	}
	return time.Since(start), step, nil
}
