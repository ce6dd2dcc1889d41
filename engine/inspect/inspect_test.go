package inspect

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/catalog"
	"github.com/prefillonly/prefillonly/kernels"
)

const config = `{"architectures":["Qwen2ForCausalLM"],"vocab_size":200,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":3,
	"num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":128,"tie_word_embeddings":true,"hidden_act":"silu"}`

// write makes a checkpoint of config's shape, of random weights but for what edit changes.
func write(t *testing.T, edit func([]kernels.HostTensor) []kernels.HostTensor) *Checkpoint {
	t.Helper()
	random := weights.Random{Seed: 1, Type: kernels.BF16}
	var list []kernels.HostTensor
	add := func(name string, shape ...int) {
		tensor, err := random.Tensor(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, tensor)
	}
	add("model.embed_tokens.weight", 200, 32)
	for i := range 3 {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm.weight", 32)
		add(p+"post_attention_layernorm.weight", 32)
		for name, rows := range map[string]int{"q": 32, "k": 16, "v": 16} {
			add(p+"self_attn."+name+"_proj.weight", rows, 32)
			add(p+"self_attn."+name+"_proj.bias", rows)
		}
		add(p+"self_attn.o_proj.weight", 32, 32)
		add(p+"mlp.gate_proj.weight", 64, 32)
		add(p+"mlp.up_proj.weight", 64, 32)
		add(p+"mlp.down_proj.weight", 32, 64)
	}
	add("model.norm.weight", 32)
	if edit != nil {
		list = edit(list)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := weights.WriteFile(file, list); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	m, err := OpenCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMixture: a mixture of experts is served, though not on every device, and one of its experts that is missing is named.
func TestMixture(t *testing.T) {
	random, dir := weights.Random{Seed: 1, Type: kernels.BF16}, t.TempDir()
	for _, experts := range []int{3, 2} {
		shapes := map[string][]int{"model.embed_tokens.weight": {200, 32}, "model.norm.weight": {32}, "model.layers.0.block_sparse_moe.gate.weight": {3, 32}}
		for name, shape := range map[string][]int{"input_layernorm": {32}, "post_attention_layernorm": {32}, "self_attn.q_proj": {32, 32}, "self_attn.k_proj": {16, 32}, "self_attn.v_proj": {16, 32}, "self_attn.o_proj": {32, 32}} {
			shapes["model.layers.0."+name+".weight"] = shape
		}
		for e := range experts {
			for name, shape := range map[string][]int{"w1": {64, 32}, "w2": {32, 64}, "w3": {64, 32}} {
				shapes[fmt.Sprintf("model.layers.0.block_sparse_moe.experts.%d.%s.weight", e, name)] = shape
			}
		}
		var list []kernels.HostTensor
		for _, name := range slices.Sorted(maps.Keys(shapes)) {
			tensor, err := random.Tensor(name, shapes[name]...)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, tensor)
		}
		edited := strings.NewReplacer("Qwen2ForCausalLM", "MixtralForCausalLM", `"num_hidden_layers":3`, `"num_hidden_layers":1,"num_local_experts":3`).Replace(config)
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := weights.WriteFile(filepath.Join(dir, "model.safetensors"), list); err != nil {
			t.Fatal(err)
		}
		c, err := OpenCheckpoint(dir)
		if err != nil {
			t.Fatal(err)
		}
		if experts == 3 && c.Refused != "" || experts == 2 && !strings.Contains(c.Refused, "block_sparse_moe.experts.2.w1.weight") {
			t.Errorf("%d of 3 experts: refused %q", experts, c.Refused)
		}
	}
}

func TestOpen(t *testing.T) {
	m := write(t, nil)
	const layer = 2 * (2*32 + 64 + 2*32*32 + 2*16*32 + 3*64*32)
	if m.Architecture != "Qwen2ForCausalLM" || len(m.Tensors) != 38 || m.Files != 1 || m.Bytes != 2*(200*32+32)+3*layer || m.Types["BF16"] != m.Bytes {
		t.Errorf("%s: %d tensors in %d files, %d bytes, %v", m.Architecture, len(m.Tensors), m.Files, m.Bytes, m.Types)
	}
	var names []string
	var bytes, device int64
	tensors := 0
	for _, c := range m.Chunks {
		names = append(names, c.Name)
		bytes, device, tensors = bytes+c.Bytes, device+c.DeviceBytes, tensors+c.Tensors
	}
	if want := []string{"embedding", "layer 0", "layer 1", "layer 2", "head"}; !slices.Equal(names, want) || m.Chunks[1].Bytes != layer || m.Chunks[1].Tensors != 12 {
		t.Errorf("chunks are %+v", m.Chunks)
	}
	// Vectors of 7 norms are float32 on a device, and the head has the rotary angles.
	if bytes != m.Bytes || tensors != 38 || device != m.DeviceBytes || device != m.Bytes+2*7*32+4*8*128 {
		t.Errorf("chunks have %d tensors in %d bytes, %d of %d on a device", tensors, bytes, device, m.DeviceBytes)
	}
	odd := write(t, func(ts []kernels.HostTensor) []kernels.HostTensor { return ts[:len(ts)-1] })
	if len(odd.Tensors) != 37 || odd.Chunks != nil || !strings.Contains(odd.Refused, `missing tensor "model.norm.weight"`) {
		t.Errorf("a checkpoint that lacks a tensor: %d tensors, %d chunks, %s", len(odd.Tensors), len(odd.Chunks), odd.Refused)
	}
}

// flip makes the content of a tensor another one.
func flip(name string) func([]kernels.HostTensor) []kernels.HostTensor {
	return func(ts []kernels.HostTensor) []kernels.HostTensor {
		for _, t := range ts {
			if t.Name == name {
				t.Data[len(t.Data)-1] ^= 1
			}
		}
		return ts
	}
}

func compareWith(t *testing.T, edit func([]kernels.HostTensor) []kernels.HostTensor) (*Comparison, string) {
	t.Helper()
	c, err := Compare(t.Context(), write(t, nil), write(t, edit), catalog.New(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, d := range c.Differences {
		list = append(list, strings.TrimPrefix(d.Name, "model.")+" "+d.In+" "+d.Why)
	}
	return c, strings.Join(list, "; ")
}

// TestGroupedServed: checkpoints in groups and blocks are served, on a device in two bytes a weight; one in three bits is refused by its key.
func TestGroupedServed(t *testing.T) {
	dirs, err := filepath.Glob("../model/testdata/grouped/*")
	if err != nil || len(dirs) < 8 {
		t.Fatalf("%d checkpoints, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		m, err := OpenCheckpoint(dir)
		if err != nil || m.Refused != "" || m.DeviceBytes < 3*m.Bytes/2 {
			t.Errorf("%s: %v, refused: %q, %d bytes of %d on a device", dir, err, m.Refused, m.DeviceBytes, m.Bytes)
		}
	}
	bad := t.TempDir()
	if err := os.CopyFS(bad, os.DirFS("../model/testdata/grouped/llama-awq")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(bad, "config.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(bad, "config.json"), []byte(strings.Replace(string(text), `"bits": 4`, `"bits": 3`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if m, err := OpenCheckpoint(bad); err != nil || !strings.Contains(m.Refused, "quantization_config: bits is 3, want 4") {
		t.Errorf("%v, refused: %q", err, m.Refused)
	}
}

func TestCompare(t *testing.T) {
	equal, differences := compareWith(t, nil)
	if equal.A.Share != 1 || equal.B.SharedTensors != 38 || differences != "" || equal.Device.Load != 0 || equal.Device.Shared != 5 || equal.Device.Together != equal.Device.A {
		t.Errorf("equal checkpoints: %+v, %+v, %s", equal, equal.Device, differences)
	}
	if equal.HashedBytes == 0 {
		t.Error("nothing was hashed")
	}

	one, differences := compareWith(t, flip("model.layers.1.mlp.down_proj.weight"))
	if differences != "layers.1.mlp.down_proj.weight both content" || one.B.SharedTensors != 37 || one.B.SharedBytes != one.B.Bytes-2*32*64 {
		t.Errorf("one tensor: %+v, %s", one, differences)
	}
	if d := one.Device; d.Load != 2*32*64 || d.Together != d.A+d.Load || d.B != d.A || d.Shared != 4 || d.Chunks != 5 || !slices.Equal(d.Differ, []string{"layer 1"}) {
		t.Errorf("one tensor on a device: %+v", d)
	}

	// A bias is packed with its matrix, and that with its neighbours.
	packed, differences := compareWith(t, flip("model.layers.0.self_attn.k_proj.bias"))
	if d := packed.Device; differences != "layers.0.self_attn.k_proj.bias both content" || d.Load != 2*(32+2*16)*(32+1) {
		t.Errorf("a bias: %s, %+v", differences, d)
	}

	other, differences := compareWith(t, func(ts []kernels.HostTensor) []kernels.HostTensor {
		norm := &ts[len(ts)-1]
		*norm = kernels.HostTensor{Name: norm.Name, Type: kernels.F32, Rows: 1, Cols: 32, Data: make([]byte, 128)}
		ts[0].Name = "embedding"
		return ts
	})
	if want := "norm.weight a form; norm.weight b form"; differences != want || other.Device != nil {
		t.Errorf("other forms: %s, %+v", differences, other.Device)
	}
	if other.A.SharedTensors != 37 {
		t.Errorf("%d tensors are shared, whatever their names, want 37", other.A.SharedTensors)
	}

	swapped, differences := compareWith(t, func(ts []kernels.HostTensor) []kernels.HostTensor {
		for i := range ts {
			if rest, ok := strings.CutPrefix(ts[i].Name, "model.layers.0."); ok {
				ts[i].Name = "model.layers.2." + rest
			} else if rest, ok := strings.CutPrefix(ts[i].Name, "model.layers.2."); ok {
				ts[i].Name = "model.layers.0." + rest
			}
		}
		return ts
	})
	// The last layer is packed otherwise, in part.
	if differences != "" || swapped.A.Share != 1 || swapped.Device.Shared != 3 || swapped.Device.Load != 2*2*(32+2*16)*(32+1) {
		t.Errorf("swapped layers: %s, %+v, %+v", differences, swapped.A, swapped.Device)
	}
}

func TestGroup(t *testing.T) {
	tensor := func(name string, shape ...int) Tensor {
		return Tensor{Name: name, Type: "BF16", Shape: shape, Bytes: 10}
	}
	var got []string
	for _, a := range Group([]Tensor{
		tensor("x.0.w", 2, 3), tensor("x.2.w", 2, 3), tensor("embed", 2, 3), tensor("x.1.w", 2, 3), tensor("x.7.w", 2, 3), tensor("x.3.w", 3, 2), tensor("x.99999999999999999999.w", 2, 3),
	}) {
		got = append(got, fmt.Sprintf("%s %v %d %d", a.Names, a.Shape, a.Count, a.Bytes))
	}
	want := []string{"x.0-2,7.w [2 3] 4 40", "embed [2 3] 1 10", "x.3.w [3 2] 1 10", "x.99999999999999999999.w [2 3] 1 10"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
