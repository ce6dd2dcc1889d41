package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Hosted is a model on a simulated executor of many.
type Hosted struct {
	Name        string
	Cost        Cost          // of tokens, or of frames
	Layers      int           // a pass can pause after each
	StepRows    int           // rows of a layer that a step computes; 0: all of them
	Step        time.Duration // what the scheduler is told that a step takes at most
	Frames      int           // jobs of tensors that a pass holds; 0: it takes tokens
	BlockTokens int
	NumBlocks   int
	MaxModelLen int
	Pieces      []uint32 // of the executor's
	Work        uint64   // bytes
	Keep        wire.Keep
}

// Host is what a simulated executor of many models has beside them.
type Host struct {
	Models   []Hosted
	Pieces   []uint64 // bytes of the pieces of weights
	Memory   uint64   // bytes for them and for the work of passes; 0: enough
	LoadRate float64  // bytes a second
	Aside    bool     // loads take none of the device's time
	Nests    bool
	Noise    float64 // by how much a pass may take longer or shorter than its cost, as a share of it
}

// executorInfo is the host as it registers.
func (h *Host) executorInfo() *wire.ExecutorInfo {
	info := &wire.ExecutorInfo{Device: "simulated", CanPause: true, Nests: h.Nests, Aside: h.Aside, Memory: h.Memory, LoadRate: h.LoadRate}
	for _, bytes := range h.Pieces {
		info.Weights = append(info.Weights, wire.Weight{Bytes: bytes})
	}
	for _, m := range h.Models {
		w := wire.ModelInfo{
			Name: m.Name, Fingerprint: m.Name, Weights: m.Pieces, Work: m.Work, Keep: m.Keep, Step: m.Step, Cost: m.Cost.wireCost(),
		}
		if m.Frames > 0 {
			w.Tensors = &wire.TensorLimits{MaxPassItems: m.Frames, Backward: 1}
		} else {
			w.Tokens = &wire.TokenLimits{VocabSize: vocabSize, MaxModelLen: m.MaxModelLen, BlockTokens: m.BlockTokens, NumBlocks: m.NumBlocks, MaxPassRows: math.MaxInt32}
		}
		info.Models = append(info.Models, w)
	}
	return info
}

// wireCost is the cost as an executor tells it.
func (c Cost) wireCost() wire.Cost {
	return wire.Cost{Base: time.Duration(c.Base * 1e9), Unit: time.Duration(c.Token * 1e9), Pair: c.Pair}
}

// hostedModel is the model of a pass; nil on an executor of one.
func (d *device) hostedModel(run *wire.Run) *Hosted {
	for i := range d.Models {
		if d.Models[i].Name == run.Model {
			return &d.Models[i]
		}
	}
	return nil
}

// passSizes are what a pass computes, and how many steps it has.
func (d *device) passSizes(run *wire.Run) (items []Item, frames float64, err error) {
	for _, part := range run.Items {
		switch it := part.Work.(type) {
		case *wire.TokenItem:
			if it.Cached >= it.Len() {
				return nil, 0, fmt.Errorf("%s is told to compute no token of job %s", d.Name, part.Job)
			}
			items = append(items, Item{Tokens: it.Len(), Cached: it.Cached})
		case *wire.TensorItem:
			frames += it.Frames
		}
	}
	return items, frames, nil
}

// passDuration is how long a pass of one of many models takes, and each of its steps.
func (d *device) passDuration(m *Hosted, items []Item, frames float64) (whole, step time.Duration) {
	rows := 0
	for _, it := range items {
		rows += it.Tokens - it.Cached
	}
	whole = m.Cost.Pass(items)
	if m.Frames > 0 {
		whole = max(1, time.Duration((m.Cost.Base+m.Cost.Token*frames)*1e9))
	}
	if d.Noise > 0 {
		whole = max(1, time.Duration(float64(whole)*(1+d.Noise*(2*d.noise.Float64()-1))))
	}
	steps := max(m.Layers, 1)
	if m.StepRows > 0 {
		steps *= (rows + m.StepRows - 1) / m.StepRows
	}
	return whole, whole / time.Duration(max(steps, 1))
}

// load brings pieces of weights.
func (d *device) load(w *world, m *wire.Load) error {
	if d.loading {
		return fmt.Errorf("%s is told to load while it loads", d.Name)
	}
	bytes := uint64(0)
	for _, p := range m.Weights {
		bytes += d.Pieces[p]
	}
	took := time.Duration(float64(bytes) / d.LoadRate * 1e9)
	d.loading = true
	w.scheduleAfter(took, d, &wire.Loaded{Serial: m.Serial, Count: len(m.Weights), Took: took})
	return nil
}

// runNested runs a pass to its end at the next step of the running one, which then goes on.
func (d *device) runNested(w *world, p *pass) error {
	outer := d.runningPass()
	if d.nested != nil {
		return fmt.Errorf("%s is told to nest pass %d while it runs pass %d so", d.Name, p.run.Pass, d.nested.run.Pass)
	}
	if outer == nil {
		p.pending = w.scheduleAfter(p.took, d, &wire.Done{Pass: p.run.Pass})
		return nil
	}
	done := outer.took - outer.left + w.now - outer.since
	wait := (outer.step - done%outer.step) % outer.step
	if done+wait >= outer.took {
		wait = outer.took - done
	}
	d.nested = p
	p.since = w.now + wait
	p.pending = w.scheduleAfter(wait+p.took, d, &wire.Done{Pass: p.run.Pass})
	if outer.pending == nil || wait == outer.took-done {
		return nil // it ends first
	}
	at := outer.pending.at + p.took
	answer := outer.pending.msg
	outer.cancelPending()
	outer.since += p.took
	outer.pending = w.scheduleAfter(at-w.now, d, answer)
	return nil
}

// runningPass is the pass that runs by itself; nil if there is none.
func (d *device) runningPass() *pass {
	for _, p := range d.passes {
		if !p.paused && p != d.nested {
			return p
		}
	}
	return nil
}

// itemResult answers a job of any kind.
func itemResult(item wire.RunItem) wire.ItemResult {
	if _, ok := item.Work.(*wire.TensorItem); ok {
		return wire.ItemResult{Job: item.Job, Output: &engine.TensorOutput{}}
	}
	return wire.ItemResult{Job: item.Job, Output: &engine.TokenOutput{Answer: &engine.Answer{}}}
}
