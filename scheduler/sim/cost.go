package sim

import (
	"math"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Cost is what a pass takes on one executor, in seconds: the paper's linear model in cache-miss
// tokens (section 5.3.3), with the quadratic term of attention and the price of running a prompt in
// chunks.
type Cost struct {
	Base  float64 // of every pass: reading the weights, launches, the engine's own work
	Token float64 // of each token that is not cached
	Pair  float64 // of each pair of positions that attend: (n^2 - cached^2) / 2 of them
	Chunk int     // tokens computed at a time; 0: any number
	Extra float64 // of each chunk after a pass's first
}

// Item is one prompt of a pass.
type Item struct{ Tokens, Cached int }

// Pass is the time of a pass over the items, at least a nanosecond.
func (c Cost) Pass(items []Item) time.Duration {
	return max(1, time.Duration(c.seconds(items)*1e9))
}

func (c Cost) seconds(items []Item) float64 {
	var tokens, pairs float64
	for _, i := range items {
		n, cached := float64(i.Tokens), float64(i.Cached)
		tokens += n - cached
		pairs += (n*n - cached*cached) / 2
	}
	seconds := c.Base + c.Token*tokens + c.Pair*pairs
	if c.Chunk > 0 {
		seconds += c.Extra * (math.Ceil(tokens/float64(c.Chunk)) - 1)
	}
	return seconds
}

// timeWithCopies is what a pass takes that computes for some time and has to copy so many blocks: the saves
// come first, as its pages are to be written; the loads go on layer by layer beside what is computed.
func (e Executor) timeWithCopies(computing time.Duration, saves, loads int) time.Duration {
	layers := time.Duration(max(e.Layers, 1))
	load, compute := time.Duration(loads)*e.CopyBlock/layers, computing/layers
	if loads == 0 {
		return computing + time.Duration(saves)*e.CopyBlock
	}
	return time.Duration(saves)*e.CopyBlock + load + (layers-1)*max(load, compute) + compute
}

// Executor describes one simulated executor.
type Executor struct {
	Name        string
	Cost        Cost
	Stages      int // of a pipeline: each takes Cost, and the executor starts a pass when the first is free; 0 means 1
	Layers      int // a pass can pause after each; 0: not at all
	BlockTokens int
	NumBlocks   int           // pages of the prefix cache
	HostBlocks  int           // pages of host memory for what it evicts
	CopyBlock   time.Duration // to copy a block to host memory or back
	MaxModelLen int
	MaxPassRows int
	Profiled    bool // the scheduler is told the cost; otherwise it goes by cache-miss tokens
	Host             // of many models, in place of what is above but the name
}

// The one model that executors serve which are not of many.
const (
	modelName = "simulated"
	vocabSize = 1 << 20
)

func (e Executor) newHello() *wire.Hello {
	model := wire.ModelInfo{
		Name: modelName, Fingerprint: modelName, Cost: wire.Cost{Load: e.CopyBlock},
		Tokens: &wire.TokenLimits{
			VocabSize: vocabSize, MaxModelLen: e.MaxModelLen, BlockTokens: e.BlockTokens, NumBlocks: e.NumBlocks,
			HostBlocks: e.HostBlocks, MaxPassRows: e.MaxPassRows,
		},
	}
	if e.Profiled {
		model.Cost = e.Cost.wireCost()
		model.Cost.Load = e.CopyBlock
	}
	info := &wire.ExecutorInfo{Device: "simulated", CanPause: e.Layers > 0, Models: []wire.ModelInfo{model}}
	if len(e.Models) > 0 {
		info = e.Host.executorInfo()
	}
	return &wire.Hello{Role: wire.RoleExecutor, Name: e.Name, Epoch: 1, Executor: info}
}
