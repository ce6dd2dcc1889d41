package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights/gguf"
	"github.com/prefillonly/prefillonly/engine/weights/gguf/gguftest"
	"github.com/prefillonly/prefillonly/kernels"
)

// floats are numbered elements: i is worth i.
func floats(n int) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	return b
}

// q8 are blocks of Q8_0 of scale 1, of which the elements of row i are all i.
func q8(rows, cols int) []byte {
	var b []byte
	for i := range rows {
		for range cols / 32 {
			b = append(b, 0, 0x3c)
			for range 32 {
				b = append(b, byte(i))
			}
		}
	}
	return b
}

func f32Tensor(name string, shape ...int) gguftest.Tensor {
	return gguftest.Tensor{Name: name, Type: uint32(gguf.F32), Shape: shape, Data: floats(elementCount(shape))}
}

func q8Tensor(name string, rows, cols int) gguftest.Tensor {
	return gguftest.Tensor{Name: name, Type: uint32(gguf.Q8_0), Shape: []int{rows, cols}, Data: q8(rows, cols)}
}

// smallKeys are a model's of one layer, 32 wide, with two heads of queries and one of keys, 16 long.
func smallKeys(arch string, more ...gguftest.Key) []gguftest.Key {
	keys := []gguftest.Key{{Name: "general.architecture", Value: arch}}
	for name, n := range map[string]uint32{"context_length": 64, "embedding_length": 32, "feed_forward_length": 64, "block_count": 1, "attention.head_count": 2, "attention.head_count_kv": 1, "rope.dimension_count": 16} {
		keys = append(keys, gguftest.Key{Name: arch + "." + name, Value: n})
	}
	return append(keys, more...)
}

func smallTensors() []gguftest.Tensor {
	return []gguftest.Tensor{
		q8Tensor("token_embd.weight", 40, 32), f32Tensor("output_norm.weight", 32), f32Tensor("blk.0.attn_norm.weight", 32),
		q8Tensor("blk.0.attn_q.weight", 32, 32), f32Tensor("blk.0.attn_k.weight", 16, 32),
	}
}

func elements(t *testing.T, x kernels.HostTensor) []float32 {
	t.Helper()
	raw := make([]byte, len(x.Data))
	if err := x.ReadPart(raw, x.Data); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, x.Rows*x.Cols)
	kernels.Expand(values, x.Type, raw)
	return values
}

// TestGGUFTensors: blocks become bfloat16, rows in pairs are put half a head apart, of blocks and of float32, and memory goes with Release.
func TestGGUFTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	gguftest.Write(t, path, smallKeys("llama"), smallTensors())
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		shape []int
		typ   kernels.DType
		row   func(i int) int // of the file
	}{
		"model.embed_tokens.weight":              {[]int{40, 32}, kernels.BF16, func(i int) int { return i }},
		"model.layers.0.self_attn.q_proj.weight": {[]int{32, 32}, kernels.BF16, func(i int) int { return i/16*16 + i%8*2 + i/8%2 }},
		"model.layers.0.self_attn.k_proj.weight": {[]int{16, 32}, kernels.F32, func(i int) int { return i%8*2 + i/8 }},
	} {
		x, err := c.Tensor(name, want.shape...)
		if err != nil || x.Type != want.typ {
			t.Fatalf("%s: %v, %v", name, x.Type, err)
		}
		for i, v := range elements(t, x) {
			right := float32(want.row(i / 32))
			if want.typ == kernels.F32 {
				right = float32(32*want.row(i/32) + i%32)
			}
			if v != right {
				t.Fatalf("%s: element %d is %v, want %v", name, i, v, right)
			}
		}
		c.Release(x)
	}
	if len(c.owned) != 0 {
		t.Errorf("%d tensors are left in memory", len(c.owned))
	}
	if _, err := c.Tensor("model.embed_tokens.weight", 40, 32); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil || len(c.owned) != 0 {
		t.Errorf("%v, %d tensors are left in memory", err, len(c.owned))
	}
}

// TestGGUFOffset: Gemma's norms lose the one that the converter has added.
func TestGGUFOffset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	gguftest.Write(t, path, smallKeys("gemma"), smallTensors())
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, err := c.Tensor("model.norm.weight", 32)
	if err != nil {
		t.Fatal(err)
	}
	if v := elements(t, x); v[0] != -1 || v[31] != 30 {
		t.Errorf("%v, want each less one", v)
	}
	x, err = c.Tensor("model.layers.0.self_attn.q_proj.weight", 32, 32)
	if err != nil {
		t.Fatal(err)
	}
	if v := elements(t, x); v[32] != 1 {
		t.Errorf("row 1 is %v, want it where it is", v[32])
	}
}

func TestGGUFConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	factors := append(smallTensors(), gguftest.Tensor{Name: "rope_freqs.weight", Type: 0, Shape: []int{8}, Data: floats(9)[4:]})
	gguftest.Write(t, path, smallKeys("llama", gguftest.Key{Name: "llama.rope.freq_base", Value: float32(5e5)}), factors)
	c, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Architectures, c.VocabSize, c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers, c.NumAttentionHeads, *c.NumKeyValueHeads, *c.HeadDim, c.MaxPositionEmbeddings, *c.RopeTheta, c.TieWordEmbeddings, c.AttentionBias)
	if want := "[LlamaForCausalLM] 40 32 64 1 2 1 16 64 500000 true false"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r := c.RopeScaling; r == nil || r.Type != "longrope" || !reflect.DeepEqual(r.LongFactor, []float64{1, 2, 3, 4, 5, 6, 7, 8}) || *r.AttentionFactor != 1 {
		t.Errorf("rope_scaling %+v", r)
	}
}

// TestGGUFGemmas: windows, caps and frequencies are read, norms have the names of four a layer, and the scores of the largest model are scaled otherwise.
func TestGGUFGemmas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	norms := append(smallTensors(), f32Tensor("blk.0.ffn_norm.weight", 32), f32Tensor("blk.0.post_attention_norm.weight", 32), f32Tensor("blk.0.post_ffw_norm.weight", 32))
	for _, c := range []struct {
		arch   string
		more   []gguftest.Key
		layers uint32
		want   map[string]any
	}{
		{"gemma2", []gguftest.Key{{Name: "gemma2.attn_logit_softcapping", Value: float32(40)}, {Name: "gemma2.final_logit_softcapping", Value: float32(20)}}, 1,
			map[string]any{"attn_logit_softcapping": 40.0, "final_logit_softcapping": 20.0, "query_pre_attn_scalar": 16.0, "sliding_window": 8.0}},
		{"gemma3", []gguftest.Key{{Name: "gemma3.rope.freq_base_swa", Value: float32(5000)}, {Name: "gemma3.attention.sliding_window_pattern", Value: uint32(3)}}, 1,
			map[string]any{"rope_local_base_freq": 5000.0, "sliding_window_pattern": 3.0, "query_pre_attn_scalar": 16.0, "sliding_window": 8.0}},
		{"gemma3", []gguftest.Key{{Name: "gemma3.attention.key_length", Value: uint32(16)}, {Name: "gemma3.attention.head_count", Value: uint32(8)}}, 62,
			map[string]any{"query_pre_attn_scalar": 4.0, "head_dim": 16.0}},
	} {
		keys := []gguftest.Key{{Name: "general.architecture", Value: c.arch}, {Name: c.arch + ".attention.sliding_window", Value: uint32(8)}}
		keys = append(keys, c.more...)
		for _, key := range smallKeys(c.arch)[1:] {
			if key.Name == c.arch+".block_count" {
				key.Value = c.layers
			}
			if !slices.ContainsFunc(keys, func(k gguftest.Key) bool { return k.Name == key.Name }) {
				keys = append(keys, key)
			}
		}
		gguftest.Write(t, path, keys, norms)
		text, err := readGGUFConfig(path)
		var got map[string]any
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		for key, want := range c.want {
			if err != nil || got[key] != want {
				t.Errorf("%s: %v, %s is %v, want %v", c.arch, err, key, got[key], want)
			}
		}
		model, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"} {
			if x, err := model.Tensor("model.layers.0."+name+".weight", 32); err != nil || elements(t, x)[0] != -1 {
				t.Errorf("%s: %s: %v, want it less one", c.arch, name, err)
			}
		}
		model.Close()
	}
}

// TestGGUFShards: a model in three files is read by its first, and files that do not belong together are refused.
func TestGGUFShards(t *testing.T) {
	dir, all := t.TempDir(), smallTensors()
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i)) }
	shard := func(i uint32) []gguftest.Key {
		return []gguftest.Key{{Name: "split.no", Value: i}, {Name: "split.count", Value: uint32(3)}}
	}
	gguftest.Write(t, name(1), smallKeys("llama", shard(0)...), nil)
	gguftest.Write(t, name(2), shard(1), all[:2])
	gguftest.Write(t, name(3), shard(2), all[2:])
	c, err := Open(name(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Tensor("model.layers.0.input_layernorm.weight", 32); err != nil || len(c.Files()) != 3 {
		t.Errorf("%v, %d files", err, len(c.Files()))
	}
	if config, err := ReadConfig(name(1)); err != nil || config.VocabSize != 40 {
		t.Errorf("%v, %d", err, config.VocabSize)
	}
	if _, err := Open(name(2)); err == nil || !strings.Contains(err.Error(), "is file 2 of a model that is split into 3: want the first") {
		t.Errorf("the second file: %v", err)
	}
	gguftest.Write(t, name(3), shard(1), all[2:])
	if _, err := Open(name(1)); err == nil || !strings.Contains(err.Error(), "is file 2 of 3 by split.no and split.count, want 3 of 3") {
		t.Errorf("the wrong third file: %v", err)
	}
	gguftest.Write(t, name(3), shard(2), all[:2])
	if _, err := Open(name(1)); err == nil || !strings.Contains(err.Error(), "is in both") {
		t.Errorf("a tensor twice: %v", err)
	}
}

// TestGGUFRefused: what keeps a file from being read is named, by its key or tensor.
func TestGGUFRefused(t *testing.T) {
	for name, c := range map[string]struct {
		keys    []gguftest.Key
		tensors []gguftest.Tensor
		want    string
	}{
		"no architecture":      {nil, nil, `missing key "general.architecture"`},
		"another architecture": {smallKeys("mamba"), nil, `unsupported general.architecture "mamba", want one of ernie4_5, gemma`},
		"caps":                 {smallKeys("gemma3", gguftest.Key{Name: "gemma3.attn_logit_softcapping", Value: float32(50)}), smallTensors(), `key "gemma3.attn_logit_softcapping": unsupported`},
		"windows by layer":     {smallKeys("gemma3", gguftest.Key{Name: "gemma3.attention.sliding_window_pattern", Value: []int32{1, 0}}), smallTensors(), `key "gemma3.attention.sliding_window_pattern" is of another type`},
		"experts":              {smallKeys("llama", gguftest.Key{Name: "llama.expert_count", Value: uint32(8)}), smallTensors(), `key "llama.expert_count": unsupported`},
		"heads by layer":       {[]gguftest.Key{{Name: "general.architecture", Value: "llama"}, {Name: "llama.attention.head_count", Value: []int32{1, 2}}}, smallTensors(), `key "llama.attention.head_count" is of another type`},
		"no heads":             {[]gguftest.Key{{Name: "general.architecture", Value: "llama"}, {Name: "llama.attention.head_count", Value: uint32(0)}}, smallTensors(), "llama.attention has 0 heads"},
		"a tensor too many":    {smallKeys("llama"), append(smallTensors(), f32Tensor("blk.0.ssm_a", 4)), `tensor "blk.0.ssm_a" has no place`},
		"rows of no heads":     {smallKeys("llama"), []gguftest.Tensor{f32Tensor("token_embd.weight", 40, 32), f32Tensor("blk.0.attn_q.weight", 34, 32)}, `tensor "blk.0.attn_q.weight" has 34 rows`},
		"no embedding":         {smallKeys("llama"), []gguftest.Tensor{f32Tensor("output_norm.weight", 32)}, `missing tensor "token_embd.weight"`},
		"factors of 0":         {smallKeys("llama"), append(smallTensors(), f32Tensor("rope_freqs.weight", 8)), `tensor "rope_freqs.weight": element 0 is 0, want a positive number`},
		"positions scaled":     {smallKeys("llama", gguftest.Key{Name: "llama.rope.scaling.type", Value: "magic"}), smallTensors(), `key "llama.rope.scaling.type" is "magic"`},
	} {
		path := filepath.Join(t.TempDir(), "x.gguf")
		gguftest.Write(t, path, c.keys, c.tensors)
		_, err := ReadConfig(path)
		if err == nil {
			_, err = Open(path)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", name, err, c.want)
		}
	}
}
