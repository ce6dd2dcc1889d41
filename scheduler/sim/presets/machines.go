package presets

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// rates are what a GPU sustains.
type rates struct {
	linear    float64 // FLOP/s of the linear layers
	attention float64 // FLOP/s of causal attention, with half of the square counted
	bandwidth float64 // bytes/s of its memory
	host      float64 // bytes/s of copies to and from pinned host memory
	link      float64 // bytes/s of an all-reduce between two of them
	nvlink    float64 // the same over NVLink; 0: there is none
}

// The engines' own costs, in seconds, calibrated on the published raw results for two H100 PCIe and
// Llama-3.3-70B (bench/REPRODUCTION.md says how); the other machines use the same.
const (
	baseHybrid   = 0.039 // of a pass under hybrid prefilling, beside reading the weights
	baseChunked  = 0.014 // of a pass of the other engines, and of every further chunk
	basePipeline = 0.125 // of a pass in each pipeline stage
	baseTensor   = 0.007 // of a pass of two GPUs in step
	// pipelineLinear and pipelineAttention are how much longer a stage takes than half of the pass.
	pipelineLinear, pipelineAttention = 1.38, 1.47
)

// blockTokens is the block size of the engines compared. It is coarser than the 16 tokens that most
// engines use, which costs a request 24 cached tokens on average and makes simulations faster.
const blockTokens = 64

const gibibyte = 1 << 30

var (
	llama8B = Model{
		Name: "Llama-3.1-8B", Hidden: 4096, Intermediate: 14336, Layers: 32, Heads: 32, KVHeads: 8, HeadDim: 128,
		Vocabulary: 128256, WeightBytes: 2, Context: 131072,
	}
	qwen32B = Model{
		Name: "DeepSeek-R1-Distill-Qwen-32B-FP8", Hidden: 5120, Intermediate: 27648, Layers: 64, Heads: 40, KVHeads: 8, HeadDim: 128,
		Vocabulary: 152064, WeightBytes: 1, Context: 131072,
	}
	llama70B = Model{
		Name: "Llama-3.3-70B-FP8", Hidden: 8192, Intermediate: 28672, Layers: 80, Heads: 64, KVHeads: 8, HeadDim: 128,
		Vocabulary: 128256, WeightBytes: 1, Context: 131072,
	}
)

// Machines returns the machines of table 5.3. The H100's rates are calibrated on published results;
// the L4's and the A100's are estimates from the GPUs' specifications.
func Machines() []Machine {
	h100 := GPU{Name: "H100 PCIe 80 GB", MemoryBytes: 79.2 * gibibyte, Share: 0.955}
	measured := rates{linear: 1053e12, attention: 300e12, bandwidth: 2.0e12, host: 50e9, link: 14.2e9}
	linked := measured
	linked.nvlink = 62e9
	return []Machine{
		{
			Name: "L4", Model: llama8B, GPU: GPU{Name: "L4 24 GB", MemoryBytes: 22.5 * gibibyte, Share: 0.93},
			rates: rates{linear: 75e12, attention: 45e12, bandwidth: 0.3e12, host: 25e9, link: 14.2e9},
		},
		{
			Name: "A100", Model: qwen32B, GPU: GPU{Name: "A100 PCIe 40 GB", MemoryBytes: 39.4 * gibibyte, Share: 0.93},
			rates: rates{linear: 230e12, attention: 190e12, bandwidth: 1.555e12, host: 25e9, link: 14.2e9},
		},
		{Name: "H100", Model: llama70B, GPU: h100, rates: measured},
		{Name: "H100-NVLink", Model: llama70B, GPU: h100, rates: linked},
	}
}

// MachineNamed returns the machine of that name.
func MachineNamed(name string) (Machine, error) {
	for _, m := range Machines() {
		if m.Name == name {
			return m, nil
		}
	}
	return Machine{}, fmt.Errorf("unknown machine %q: want L4, A100, H100 or H100-NVLink", name)
}

// Cost is what passes take by a method on one instance of the engine.
func (m Machine) Cost(method Method) sim.Cost {
	parameters, _ := m.Model.linearParameters()
	read := m.Model.weightBytes() / m.rates.bandwidth
	c := sim.Cost{
		Base:  read + baseChunked,
		Token: 2 * parameters / m.rates.linear,
		Pair:  4 * float64(m.Model.Heads*m.Model.HeadDim*m.Model.Layers) / m.rates.attention,
	}
	switch method {
	case Chunked:
		c.Chunk, c.Extra = chunkDefault, baseChunked
	case ChunkedTuned:
		c.Chunk, c.Extra = chunkTuned, baseChunked
	case Pipeline:
		c = sim.Cost{Base: basePipeline, Token: c.Token / 2 * pipelineLinear, Pair: c.Pair / 2 * pipelineAttention}
	case Tensor, TensorNVLink:
		link := m.rates.link
		if method == TensorNVLink {
			link = m.rates.nvlink
		}
		// Two all-reduces a layer, of a bf16 row of the residual stream for each token.
		reduced := float64(2 * m.Model.Layers * 2 * m.Model.Hidden)
		c = sim.Cost{Base: read/2 + baseTensor, Token: c.Token/2 + reduced/link, Pair: c.Pair / 2}
	case PrefillOnly, LayerMajor, PrefillPacked:
		c.Base = read + baseHybrid
	}
	return c
}

// Instances is how many engines of the method the two GPUs hold.
func (m Method) Instances() int {
	if m == Pipeline || m == Tensor || m == TensorNVLink {
		return 1
	}
	return 2
}

// Methods lists those that the machine can run, the baselines first.
func (m Machine) Methods() []Method {
	methods := []Method{Paged, Chunked, ChunkedTuned, Pipeline, Tensor}
	if m.rates.nvlink > 0 {
		methods[4] = TensorNVLink
	}
	return append(methods, PrefillOnly, LayerMajor, PrefillPacked)
}

// Engine is the configuration of one instance of the method, and its executor, for prompts of up to
// longest tokens. It fails where such a prompt does not fit.
func (m Machine) Engine(method Method, longest int, prefixCaching bool) (scheduler.Config, sim.Executor, error) {
	fits, err := m.MaxTokens(method)
	if err != nil {
		return scheduler.Config{}, sim.Executor{}, err
	}
	if longest > fits {
		return scheduler.Config{}, sim.Executor{}, fmt.Errorf("%s on %s takes %d tokens, not %d", method, m.Name, fits, longest)
	}
	config := scheduler.DefaultConfig()
	config.PrefixCaching = prefixCaching
	config.MaxPassItems = 1
	executor := sim.Executor{
		Name: "gpu",
		Model: sim.Model{
			Cost: m.Cost(method), Untold: true, Layers: m.Model.Layers, BlockTokens: blockTokens,
			NumBlocks: m.CacheTokens(method, longest) / blockTokens, MaxModelLen: longest + 1, MaxPassRows: chunkDefault,
		},
	}
	switch method {
	case Pipeline:
		executor.Stages = 2
		fallthrough
	case Paged, Chunked, ChunkedTuned, Tensor, TensorNVLink:
		config.Policy, config.FullKV, config.Eviction = "fcfs", true, kvcache.EvictLRU
	case PrefillOnly:
		config.Eviction = kvcache.EvictLRU
	case PrefillPacked:
		config.MaxPassItems = scheduler.DefaultConfig().MaxPassItems
		executor.MaxPassRows = chunkLayerMajor
		executor.Untold = false
	case LayerMajor:
		executor.Untold = false
	}
	return config, executor, nil
}
