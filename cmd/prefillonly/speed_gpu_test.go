//go:build cuda

package main

import (
	"os"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// llama8B is Llama-3.1-8B's shape, with room for 128k tokens and an answer.
const llama8B = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":128256,"hidden_size":4096,"intermediate_size":14336,
"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":131200,"hidden_act":"silu",
"rms_norm_eps":1e-5,"rope_theta":500000}`

// TestSpeedOnGPU writes the report of the first GPU; make bench-cuda runs it.
func TestSpeedOnGPU(t *testing.T) {
	device, err := cuda.Open(0, cuda.Options{})
	if err != nil {
		t.Skipf("not measured: %v", err)
	}
	err = speed(os.Stdout, device, speedCase{
		config: llama8B, prompts: []int{1 << 10, 8 << 10, 32 << 10, 128 << 10}, chunk: cudaChunk,
		cached: 14336, suffix: 150, packed: 16, ceiling: [3]int{8192, 8192, 8192},
	})
	if err != nil {
		t.Fatal(err)
	}
}
