package model

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Plan is a model's memory, in bytes, on each rank where the backend has several: of matrices a rank has a
// part, and the tables whole. Nothing beyond it is
// allocated but small change of the Go heap.
type Plan struct {
	Weights int64 // packed weights, tables and rotary angles
	Work    int64 // residual streams, one layer's KV, chunks, logits, the backend's scratch
	Block   int64 // one KV block over all layers
	Host    int64 // residual streams in host memory, beside the device's
	Stage   int64 // host memory for tensors on their way to the device, while they are loaded

	size workSize // of Work and Host
}

// Predict is the plan of a model of which the configuration alone is there; its Weights count every
// parameter in the backend's own type, or in FP8 where the checkpoint has that, which packing may exceed slightly.
func Predict(config weights.Config, b kernels.Backend, opts Options) (Plan, error) {
	m, err := describeModel(config, b, opts)
	if err != nil {
		return Plan{}, err
	}
	var packed int64
	for _, c := range m.weightChunks() {
		for _, p := range c.Parts {
			packed += p.Bytes
		}
	}
	return m.planMemory(packed), nil
}

// Plan is the memory the model takes with all its weights, beside Block for each page. Its Weights are as
// predicted for chunks that were never loaded.
func (m *Model) Plan() Plan {
	p := m.planMemory(m.weights.Bytes())
	p.Stage = m.weights.Staged()
	return p
}

func (m *Model) planMemory(packed int64) Plan {
	size := m.workSize()
	return Plan{Weights: packed, Work: size.onDevice(), Block: m.pageBytes(), Host: size.streams.Host, size: size}
}

// Shared is the working memory of several models that share it, on the device and in host memory: as much
// as NewWorkspace takes for their plans.
func Shared(plans ...Plan) (work, host int64) {
	size := largestWorkSize(plans)
	return size.onDevice(), size.streams.Host
}

// chunkCount is how many chunks hold so many rows.
func (o Options) chunkCount(rows int) int { return (rows + o.ChunkRows - 1) / o.ChunkRows }

// evenChunkRows is how many rows a chunk takes for so many rows to need the fewest chunks, without a short
// one left over: each reads all of a layer's weights. Multiples of 32 suit the kernels' tiles.
func (o Options) evenChunkRows(rows int) int {
	n := max(1, o.chunkCount(rows))
	return min(o.ChunkRows, ((rows+n-1)/n+31)&^31)
}

// scratchBlocks is enough for a longest prompt without pages, and for as many rows cut into
// MaxItems items, each of which rounds up to a whole block.
func scratchBlocks(o Options) int { return o.MaxLen/o.BlockTokens + o.MaxItems }

// kvBlocks is scratch memory for a longest pass, and for a lowest one that stands still inside a layer beside another of
// its length. Where they take more together, the lowest one is dropped.
func kvBlocks(o Options) int {
	return max(scratchBlocks(o), 2*min(scratchBlocks(o), engine.LowestRows/o.BlockTokens+o.MaxItems))
}
