package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Hosted is a model on a simulated executor of many.
type Hosted struct {
	Name        string
	Cost        Cost            // of tokens, or of frames
	Batches     []time.Duration // what passes of 1, 2, ... frames take, if that is not Cost, which the scheduler is told
	Layers      int             // a pass can pause after each; 0: not at all
	Step        time.Duration   // of a pass, between which others can be nested in it; 0: it has Layers
	Frames      int             // jobs of tensors that a pass holds; 0: it takes tokens
	Backward    float64         // what a gradient takes, in frames
	BlockTokens int
	NumBlocks   int
	MaxModelLen int
	MaxPassRows int      // 0: any number
	Pieces      []uint32 // of the executor's
	Work        uint64   // bytes
	Keep        wire.Keep
	LoadRate    float64 // bytes a second; 0: the executor's
}

// Host is what a simulated executor of many models has beside them.
type Host struct {
	Models   []Hosted
	Pieces   []uint64 // bytes of the pieces of weights
	Memory   uint64   // bytes for them and for the work of passes; 0: enough
	LoadRate float64  // bytes a second
	Aside    bool     // loads take none of the device's time
	Nests    bool
	Noise    float64    // by how much a pass may take longer or shorter than its cost, as a share of it
	Random   *rand.Rand // what that is drawn from
}

// executorInfo is the host as it registers.
func (h *Host) executorInfo() *wire.ExecutorInfo {
	info := &wire.ExecutorInfo{Device: "simulated", Nests: h.Nests, Aside: h.Aside, Memory: h.Memory, LoadRate: h.LoadRate}
	for _, bytes := range h.Pieces {
		info.Weights = append(info.Weights, wire.Weight{Bytes: bytes})
	}
	for _, m := range h.Models {
		info.CanPause = info.CanPause || m.Layers > 0
		w := wire.ModelInfo{
			Name: m.Name, Fingerprint: m.Name, Weights: m.Pieces, Work: m.Work, Keep: m.Keep, Step: m.Step, Cost: m.Cost.wireCost(),
		}
		if m.Frames > 0 {
			w.Tensors = &wire.TensorLimits{MaxPassItems: m.Frames, Backward: m.Backward}
		} else {
			w.Tokens = &wire.TokenLimits{VocabSize: vocabSize, MaxModelLen: m.MaxModelLen, BlockTokens: m.BlockTokens, NumBlocks: m.NumBlocks, MaxPassRows: cmp.Or(m.MaxPassRows, math.MaxInt32)}
		}
		info.Models = append(info.Models, w)
	}
	return info
}

// wireCost is the cost as an executor tells it.
func (c Cost) wireCost() wire.Cost {
	return wire.Cost{Base: time.Duration(math.Round(c.Base * 1e9)), Unit: time.Duration(math.Round(c.Token * 1e9)), Pair: c.Pair}
}

// hostedModel is a model by its name; nil if the executor is of one model.
func (h *Host) hostedModel(name string) *Hosted {
	for i := range h.Models {
		if h.Models[i].Name == name {
			return &h.Models[i]
		}
	}
	return nil
}

// newPass is a pass to run, with what it takes.
func (d *device) newPass(run *wire.Run) (*pass, error) {
	p := &pass{run: run, layers: d.Layers}
	items, frames, err := d.passSizes(run)
	if err != nil {
		return nil, err
	}
	if m := d.hostedModel(run.Model); m != nil {
		for _, i := range m.Pieces {
			if !d.resident[i] {
				return nil, fmt.Errorf("%s is told to run model %q, whose weights are not there", d.Name, m.Name)
			}
		}
		p.layers = m.Layers
		if p.took, err = d.hostedDuration(m, items, frames); err != nil {
			return nil, err
		}
		if p.step = m.Step; p.step == 0 {
			p.step = max(1, p.took/time.Duration(max(m.Layers, 1)))
		}
	} else {
		p.took = d.timeWithCopies(d.Cost.Pass(items), len(run.Saves), len(run.Loads))
		p.step = p.took
	}
	p.task = task{left: p.took, done: func() error { return d.endPass(p) }}
	return p, nil
}

// passSizes are the prompts of a pass, or its frames of work.
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

// hostedDuration is how long a pass of one of many models takes.
func (d *device) hostedDuration(m *Hosted, items []Item, frames float64) (time.Duration, error) {
	seconds := m.Cost.seconds(items)
	switch n := int(frames); {
	case m.Frames == 0:
	case len(m.Batches) == 0:
		seconds = m.Cost.Base + m.Cost.Token*frames
	case n < 1 || n > len(m.Batches):
		return 0, fmt.Errorf("%s is told to run %d frames of model %q, which takes 1 to %d", d.Name, n, m.Name, len(m.Batches))
	default:
		return m.Batches[n-1], nil
	}
	if d.Noise > 0 {
		seconds *= 1 + d.Noise*(2*d.Random.Float64()-1)
	}
	return max(1, time.Duration(seconds*1e9)), nil
}
