package presets

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// Model is what of a language model decides memory and time.
type Model struct {
	Name         string
	Hidden       int
	Intermediate int
	Layers       int
	Heads        int
	KVHeads      int
	HeadDim      int
	Vocabulary   int
	WeightBytes  int // of one parameter of the linear layers; embeddings and activations have 2
	Context      int // longest prompt the model was made for
}

// GPU is one device of a Machine.
type GPU struct {
	Name        string
	MemoryBytes float64
	Share       float64 // of the memory that the engine may use
}

// Machine is one line of the paper's table 5.3: two GPUs and a model.
type Machine struct {
	Name  string
	GPU   GPU
	Model Model
	rates rates
}

// WithHostMemory gives an executor of the machine so much pinned host memory for its prefix cache.
func (m Machine) WithHostMemory(e sim.Executor, bytes float64) sim.Executor {
	block := m.Model.kvBytes() * float64(e.BlockTokens)
	e.HostBlocks = int(bytes / block)
	e.CopyBlock = time.Duration(block / m.rates.host * 1e9)
	return e
}

// linearParameters is the number of parameters of the linear layers, and of embedding and LM head.
func (m Model) linearParameters() (layers, embedding float64) {
	h, attention := float64(m.Hidden), float64(m.HeadDim*(2*m.Heads+2*m.KVHeads))
	return float64(m.Layers) * (h*attention + 3*h*float64(m.Intermediate)), 2 * float64(m.Vocabulary) * h
}

func (m Model) weightBytes() float64 {
	layers, embedding := m.linearParameters()
	return layers*float64(m.WeightBytes) + 2*embedding
}

// kvLayer is the bytes that one layer's keys and values of a token take.
func (m Model) kvLayer() float64 { return float64(2 * m.KVHeads * m.HeadDim * 2) }

func (m Model) kvBytes() float64 { return m.kvLayer() * float64(m.Layers) }

// activationBytes is the most that the intermediate tensors of a token take at once, in the MLP: gate
// and up, their product (with FP8 weights once more, quantized), the residual stream and the normed one.
func (m Model) activationBytes() float64 {
	bytes := 6*m.Intermediate + 4*m.Hidden
	if m.WeightBytes == 1 {
		bytes += m.Intermediate
	}
	return float64(bytes)
}

// hybridBytes is what published hybrid prefilling keeps of a token over the whole prompt: residual and
// normed stream, queries, keys and values, and the attention's output.
func (m Model) hybridBytes() float64 {
	return float64(4*m.Hidden+4*m.Heads*m.HeadDim) + m.kvLayer()
}

// layerMajor is what executing every layer in chunks keeps: the residual stream (2 bytes) and one
// layer's keys and values.
func (m Model) layerMajor() float64 { return float64(2*m.Hidden) + m.kvLayer() }

// overhead is the memory that the runtime and its libraries take on each GPU.
const overhead = 0.25e9

// Method is a way to run the model on a Machine's two GPUs.
type Method string

// The methods of table 5.2, and this engine's own.
const (
	Paged         Method = "paged-attention"
	Chunked       Method = "chunked-prefill"
	ChunkedTuned  Method = "chunked-prefill-4096"
	Pipeline      Method = "pipeline-parallel"
	Tensor        Method = "tensor-parallel"
	TensorNVLink  Method = "tensor-parallel-nvlink"
	PrefillOnly   Method = "prefillonly-paper"
	LayerMajor    Method = "prefillonly"
	PrefillPacked Method = "prefillonly-packed"
)

// Chunks of tokens that the methods compute at a time.
const (
	chunkDefault    = 512  // the paper's baselines
	chunkTuned      = 4096 // as a user who looks for throughput sets it
	chunkHybrid     = 4096 // the artifact's PREFILL_ONLY_CHUNK_SIZE
	chunkLayerMajor = 2048
)

// freeMemory is the memory for activations and KV on each of so many GPUs that share the weights.
func (m Machine) freeMemory(gpus int) float64 {
	return m.GPU.MemoryBytes*m.GPU.Share - m.Model.weightBytes()/float64(gpus) - overhead
}

// MaxTokens is the longest prompt that fits (table 5.2). For the engines without a whole KV cache it
// ends at the model's context; for the others by memory alone, as in the paper, whose figures for two
// GPUs go beyond the context.
func (m Machine) MaxTokens(method Method) (int, error) {
	model := m.Model
	var tokens float64
	switch method {
	case Paged:
		tokens = m.freeMemory(1) / (model.kvBytes() + model.activationBytes())
	case Chunked, ChunkedTuned:
		tokens = m.kvTokens(method)
	case Pipeline: // whole prompts, half of the layers on each GPU
		tokens = m.freeMemory(2) / (model.kvBytes()/2 + model.activationBytes())
	case Tensor, TensorNVLink: // half of the heads on each GPU, in chunks
		tokens = m.kvTokens(method)
	case PrefillOnly:
		tokens = (m.freeMemory(1) - chunkHybrid*model.activationBytes()) / model.hybridBytes()
	case LayerMajor, PrefillPacked:
		tokens = (m.freeMemory(1) - chunkLayerMajor*(model.activationBytes()+m.chunkAttention())) / model.layerMajor()
	default:
		return 0, fmt.Errorf("unknown method %q", method)
	}
	if tokens < 1 {
		return 0, fmt.Errorf("%s does not fit on %s by %s", model.Name, m.GPU.Name, method)
	}
	if method == PrefillOnly || method == LayerMajor || method == PrefillPacked {
		tokens = min(tokens, float64(model.Context))
	}
	return int(tokens), nil
}

// chunkAttention is what queries, keys and values and the attention's output of a chunk take for
// each of its tokens.
func (m Machine) chunkAttention() float64 {
	return float64(4*m.Model.Heads*m.Model.HeadDim) + m.Model.kvLayer()
}

// kvTokens is how many tokens' KV fits beside a running pass.
func (m Machine) kvTokens(method Method) float64 {
	model := m.Model
	switch method {
	case Pipeline:
		return (m.freeMemory(2) - chunkDefault*model.activationBytes()) / (model.kvBytes() / 2)
	case Tensor, TensorNVLink:
		return (m.freeMemory(2) - chunkDefault*model.activationBytes()/2) / (model.kvBytes() / 2)
	case ChunkedTuned:
		return (m.freeMemory(1) - chunkTuned*model.activationBytes()) / model.kvBytes()
	}
	return (m.freeMemory(1) - chunkDefault*model.activationBytes()) / model.kvBytes()
}

// CacheTokens is the room for the prefix cache when prompts of up to longest tokens are served:
// engines that keep the whole KV of a running prompt use one pool for both.
func (m Machine) CacheTokens(method Method, longest int) int {
	model, n := m.Model, float64(longest)
	var tokens float64
	switch method {
	case Paged:
		tokens = (m.freeMemory(1) - n*model.activationBytes()) / model.kvBytes()
	case PrefillOnly:
		tokens = (m.freeMemory(1) - chunkHybrid*model.activationBytes() - n*model.hybridBytes()) / model.kvBytes()
	case LayerMajor, PrefillPacked:
		tokens = (m.freeMemory(1) - chunkLayerMajor*(model.activationBytes()+m.chunkAttention()) - n*model.layerMajor()) / model.kvBytes()
	default:
		tokens = m.kvTokens(method)
	}
	return max(0, int(tokens))
}
