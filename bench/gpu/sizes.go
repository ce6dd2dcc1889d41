package main

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// sizes say how much is measured.
type sizes struct {
	model   shape
	results string // file for the figures of prompts, or ""

	prompts   []int // tokens
	compared  int   // prompts up to this length get their likeliest tokens into results
	chunk     int   // rows of a chunk
	chunkings []int // rows of a chunk to try, at the prompt of chunked tokens
	chunked   int

	cached, suffix, packed int // tokens cached, tokens after them, and suffixes in one pass
	long, short            int // tokens of a pass that pauses, and of the one it makes way for

	ceiling  int   // rows, columns and depth of the product that is the ceiling
	rows     []int // of the layers' products
	rotate   int64 // bytes of weights that products take turns over, more than any cache
	segments []int // rows of attention
	prefixes []int // cached tokens before them
	copied   int   // bytes
	runs     int   // of a short measurement
}

// block is the tokens of a KV block, the default of serve.
const block = 64

// onGPU are the sizes for a data centre's GPU; ok is false for an unknown model.
func onGPU(model string) (s sizes, ok bool) {
	const k = 1 << 10
	s = sizes{
		prompts: []int{k, 8 * k, 32 * k, 128 * k}, compared: 8 * k,
		chunk: 4 * k, chunkings: []int{2 * k, 4 * k, 8 * k, 16 * k}, chunked: 32 * k,
		cached: 14 * k, suffix: 150, packed: 16, long: 32 * k, short: k,
		ceiling: 8 * k, rows: []int{150, 512, k, 2 * k, 4 * k, 8 * k}, rotate: 256 << 20,
		segments: []int{4 * k, 8 * k}, prefixes: []int{0, 8 * k, 32 * k, 120 * k}, copied: 256 << 20, runs: 9,
	}
	switch model {
	case "8b":
		s.model = shape{Name: "Llama-3.1-8B", Vocab: 128256, Hidden: 4096, Inter: 14336, Layers: 32, Heads: 32, KVHeads: 8, Dim: 128}
	case "32b":
		s.model = shape{Name: "DeepSeek-R1-Distill-Qwen-32B", Qwen2: true, Vocab: 152064, Hidden: 5120, Inter: 27648, Layers: 64, Heads: 40, KVHeads: 8, Dim: 128}
		s.prompts = []int{k, 8 * k, 32 * k}
	case "70b":
		s.model = shape{Name: "Llama-3.3-70B", Vocab: 128256, Hidden: 8192, Inter: 28672, Layers: 80, Heads: 64, KVHeads: 8, Dim: 128}
		s.prompts = []int{k, 8 * k}
	default:
		return sizes{}, false
	}
	return s, true
}

// shape is a Llama model's or, with Qwen2, a Qwen2 model's.
type shape struct {
	Name    string `json:"name"`
	Qwen2   bool   `json:"qwen2"`
	Weights string `json:"weights"` // of linear layers: one of weightTypes; of codes, activations are quantised as they come
	Vocab   int    `json:"vocab"`
	Hidden  int    `json:"hidden"`
	Inter   int    `json:"inter"`
	Layers  int    `json:"layers"`
	Heads   int    `json:"heads"`
	KVHeads int    `json:"kv_heads"`
	Dim     int    `json:"dim"`
}

// weightTypes are the types of weights by their names.
var weightTypes = map[string]kernels.DType{"bf16": kernels.BF16, "fp8": kernels.F8E4M3, "int8": kernels.I8}

func (s shape) weightType() kernels.DType { return weightTypes[s.Weights] }

// quantizations are what checkpoints say of weights in codes: format and type.
var quantizations = map[kernels.DType][2]string{kernels.F8E4M3: {"float-quantized", "float"}, kernels.I8: {"int-quantized", "int"}}

// modelConfig is the shape's, for sequences of up to longest tokens.
func (s shape) modelConfig(longest int) (weights.Config, error) {
	architecture, family := "LlamaForCausalLM", "llama"
	if s.Qwen2 {
		architecture, family = "Qwen2ForCausalLM", "qwen2"
	}
	quantization := ""
	if q, ok := quantizations[s.weightType()]; ok {
		quantization = fmt.Sprintf(`,"quantization_config":{"quant_method":"compressed-tensors","format":%q,"ignore":["lm_head"],"config_groups":{"group_0":{
"targets":["Linear"],"weights":{"num_bits":8,"type":%q,"strategy":"channel","symmetric":true,"dynamic":false},
"input_activations":{"num_bits":8,"type":%[2]q,"strategy":"token","symmetric":true,"dynamic":true}}}}`, q[0], q[1])
	}
	return weights.ParseConfig(fmt.Appendf(nil, `{"architectures":[%q],"model_type":%q,"vocab_size":%d,"hidden_size":%d,"intermediate_size":%d,
"num_hidden_layers":%d,"num_attention_heads":%d,"num_key_value_heads":%d,"head_dim":%d,"max_position_embeddings":%d,"hidden_act":"silu",
"rms_norm_eps":1e-5,"rope_theta":500000%s}`, architecture, family, s.Vocab, s.Hidden, s.Inter, s.Layers, s.Heads, s.KVHeads, s.Dim, longest, quantization))
}

func (s shape) attentionHeads() kernels.Heads {
	return kernels.Heads{Q: s.Heads, KV: s.KVHeads, Dim: s.Dim}
}

// matrix is one of a layer's: y [rows, out] = x [rows, in] W^T.
type matrix struct {
	name    string
	out, in int
	adds    bool // to the residual stream, which is float32
}

// layerMatrices are the products of one layer, as the model stacks them.
func (s shape) layerMatrices() []matrix {
	h := s.attentionHeads()
	return []matrix{
		{"Q, K, V", h.QKVCols(), s.Hidden, false},
		{"output", s.Hidden, h.Q * h.Dim, true},
		{"gate, up", 2 * s.Inter, s.Hidden, false},
		{"down", s.Hidden, s.Inter, true},
	}
}

// linearFLOP and attentionFLOP are the operations of a prompt of n tokens, every layer in full and
// without the LM head: two for each parameter of the linear layers and token, ...
func (s shape) linearFLOP(n int) float64 {
	parameters := 0
	for _, m := range s.layerMatrices() {
		parameters += m.out * m.in
	}
	return 2 * float64(s.Layers) * float64(parameters) * float64(n)
}

// ... and four for each pair of a query and a key it sees, head and dimension.
func (s shape) attentionFLOP(n int) float64 {
	return float64(s.Layers) * attentionFLOP(s.attentionHeads(), 0, n)
}

// attentionFLOP is the operations of causal attention of rows tokens after prefix others.
func attentionFLOP(h kernels.Heads, prefix, rows int) float64 {
	pairs := float64(rows) * (float64(prefix) + float64(rows+1)/2)
	return 4 * pairs * float64(h.Q*h.Dim)
}
