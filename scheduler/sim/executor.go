package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Model is a model on a simulated executor.
type Model struct {
	Name     string
	Cost     Cost            // of tokens, or of frames
	Batches  []time.Duration // what passes of 1, 2, ... frames take, if that is not Cost
	Untold   bool            // the scheduler is not told the cost: it goes by cache-miss tokens
	Layers   int             // a pass can pause after each; 0: not at all
	Step     time.Duration   // of a pass, between which others can be nested in it; 0: it has Layers
	Frames   int             // jobs of tensors that a pass holds; 0: it takes tokens
	Backward float64         // what a gradient takes, in frames

	MaxModelLen int
	MaxPassRows int // 0: any number
	BlockTokens int
	NumBlocks   int           // pages of the prefix cache
	HostBlocks  int           // pages of host memory for what it evicts
	CopyBlock   time.Duration // to copy a block to host memory or back

	Pieces   []uint32 // of the executor's weights
	Work     uint64   // bytes
	LoadRate float64  // bytes a second; 0: the executor's
}

// Executor describes a simulated executor.
type Executor struct {
	Name     string
	Model    // the one that it serves, if Models is empty
	Models   []Model
	Stages   int        // of a pipeline: each takes Cost, and the executor starts a pass when the first is free; 0 means 1
	Weights  []uint64   // bytes of the pieces of weights
	Memory   uint64     // bytes for them and for the work of passes; 0: enough
	LoadRate float64    // bytes a second
	Aside    bool       // loads take none of the device's time
	Nests    bool       // passes of frames run inside others
	Noise    float64    // by how much a pass may take longer or shorter than its cost, as a share of it
	Random   *rand.Rand // what that is drawn from
}

// The one model of an executor that serves no others.
const (
	modelName = "simulated"
	vocabSize = 1 << 20
)

// modelNamed is one of the executor's models.
func (e *Executor) modelNamed(name string) *Model {
	for i := range e.Models {
		if e.Models[i].Name == name {
			return &e.Models[i]
		}
	}
	return &e.Model
}

// newHello is what the executor says of itself.
func (e *Executor) newHello() *wire.Hello {
	info := &wire.ExecutorInfo{Device: "simulated", Nests: e.Nests, Aside: e.Aside, Memory: e.Memory, LoadRate: e.LoadRate}
	for _, bytes := range e.Weights {
		info.Weights = append(info.Weights, wire.Weight{Bytes: bytes})
	}
	models := e.Models
	if len(models) == 0 {
		models = []Model{e.Model}
		models[0].Name = modelName
	}
	for _, m := range models {
		info.CanPause = info.CanPause || m.Layers > 0
		info.Models = append(info.Models, m.wireInfo())
	}
	return &wire.Hello{Role: wire.RoleExecutor, Name: e.Name, Epoch: 1, Executor: info}
}

func (m *Model) wireInfo() wire.ModelInfo {
	w := wire.ModelInfo{Name: m.Name, Fingerprint: m.Name, Weights: m.Pieces, Work: m.Work, Step: m.Step}
	if !m.Untold {
		w.Cost = m.Cost.wireCost()
	}
	w.Cost.Load = m.CopyBlock
	if m.Frames > 0 {
		w.Tensors = &wire.TensorLimits{MaxPassItems: m.Frames, Backward: m.Backward}
		return w
	}
	w.Tokens = &wire.TokenLimits{
		VocabSize: vocabSize, MaxModelLen: m.MaxModelLen, MaxPassRows: cmp.Or(m.MaxPassRows, math.MaxInt32),
		BlockTokens: m.BlockTokens, NumBlocks: m.NumBlocks, HostBlocks: m.HostBlocks,
	}
	return w
}

// timeWithCopies is what a pass takes that computes for some time and has to copy so many blocks: the saves
// come first, as its pages are to be written; the loads go on layer by layer beside what is computed.
func (m *Model) timeWithCopies(computing time.Duration, saves, loads int) time.Duration {
	layers := time.Duration(max(m.Layers, 1))
	load, compute := time.Duration(loads)*m.CopyBlock/layers, computing/layers
	if loads == 0 {
		return computing + time.Duration(saves)*m.CopyBlock
	}
	return time.Duration(saves)*m.CopyBlock + load + (layers-1)*max(load, compute) + compute
}
