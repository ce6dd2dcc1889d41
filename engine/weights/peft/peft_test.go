package peft

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// layers are the linear layers of a model of one block.
var layers = map[string][2]int{"model.layers.0.self_attn.q_proj": {6, 4}, "model.layers.0.mlp.down_proj": {4, 8}}

const q = "base_model.model.model.layers.0.self_attn.q_proj"

// store writes an adapter with these keys of its configuration beside the usual ones, and these tensors, by rows and columns.
func store(t *testing.T, keys map[string]any, tensors map[string][2]int, values map[string]float32) string {
	t.Helper()
	dir, config := t.TempDir(), map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": []string{"q_proj"}, "use_dora": false, "bias": "none"}
	for key, value := range keys {
		config[key] = value
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, configFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	var list []kernels.HostTensor
	for _, name := range sortedKeys(tensors) {
		shape := tensors[name]
		data := make([]byte, 4*shape[0]*shape[1])
		for i := range shape[0] * shape[1] {
			weights.Put(kernels.F32, data, i, 1)
		}
		if v, ok := values[name]; ok {
			weights.Put(kernels.F32, data, 1, v)
		}
		list = append(list, kernels.HostTensor{Name: name, Type: kernels.F32, Rows: shape[0], Cols: shape[1], Data: data})
	}
	if err := weights.WriteFile(filepath.Join(dir, weightsFile), list); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pairOf is the tensors of a pair.
func pairOf(rank, in, out int) map[string][2]int {
	return map[string][2]int{q + ".lora_A.weight": {rank, in}, q + ".lora_B.weight": {out, rank}}
}

// TestScales: B comes times alpha over the rank, or over its root, by the patterns of the module.
func TestScales(t *testing.T) {
	for _, c := range []struct {
		keys map[string]any
		rank int
		want float32
	}{
		{nil, 2, 2},
		{map[string]any{"use_rslora": true, "r": 4}, 4, 2},
		{map[string]any{"rank_pattern": map[string]int{"q_proj": 3}, "alpha_pattern": map[string]float64{`layers\.0\..*`: 12}}, 3, 4},
		{map[string]any{"rank_pattern": map[string]int{"_proj": 3}}, 2, 2}, // the end of a name behind no dot
	} {
		a, err := Open("a", store(t, c.keys, pairOf(c.rank, 4, 6), nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Check(layers); err != nil {
			t.Fatal(err)
		}
		_, b, err := a.Read("model.layers.0.self_attn.q_proj")
		if err != nil || len(b) != 6*c.rank || b[0] != c.want {
			t.Errorf("%v: B is %v, %v; want %v", c.keys, b, err, c.want)
		}
	}
}

// TestHostileAdapters: each is refused with a name and figures.
func TestHostileAdapters(t *testing.T) {
	right := pairOf(2, 4, 6)
	with := func(name string, rows, cols int) map[string][2]int {
		all := pairOf(2, 4, 6)
		all[name] = [2]int{rows, cols}
		return all
	}
	one := func(end string) map[string][2]int { return map[string][2]int{q + end: right[q+end]} }
	for _, c := range []struct {
		keys    map[string]any
		tensors map[string][2]int
		values  map[string]float32
		want    string
	}{
		{map[string]any{"r": 1000000}, right, nil, "r is 1000000: want 1 to 512"},
		{map[string]any{"r": 0}, right, nil, "r is 0: want 1 to 512"},
		{map[string]any{"rank_pattern": map[string]int{"q_proj": 1 << 40}}, right, nil, `rank_pattern of "q_proj" is 1099511627776: want 1 to 512`},
		{map[string]any{"rank_pattern": manyPatterns(maxPatterns + 1)}, right, nil, "rank_pattern: got 1025 keys, want at most 1024"},
		{map[string]any{"rank_pattern": map[string]int{"(": 2}}, right, nil, "rank_pattern: error parsing regexp"},
		{map[string]any{"rank_pattern": map[string]int{"q_proj": 2, "self_attn.q_proj": 3}}, right, nil, "several of its keys match"},
		{map[string]any{"r": "16"}, right, nil, "r must be an integer, not string"},
		{map[string]any{"use_dora": true}, right, nil, "use_dora is true, which is not computed here"},
		{map[string]any{"modules_to_save": []string{"score"}}, right, nil, `modules_to_save is ["score"], which is not computed here`},
		{map[string]any{"bias": "all"}, right, nil, `bias is "all": want none`},
		{map[string]any{"peft_type": "IA3"}, right, nil, `peft_type is "IA3": want LORA`},
		{map[string]any{"init_lora_weights": "pissa"}, right, nil, `init_lora_weights is "pissa", which changes the base's weights`},
		{map[string]any{"some_new_key": 1}, right, nil, "some_new_key is 1, which is not computed here"},
		{nil, pairOf(3, 4, 6), nil, "has lora_A [3 4] and lora_B [6 3]: want rank 2"},
		{nil, pairOf(2, 5, 6), nil, "has lora_A [2 5] and lora_B [6 2], which do not fit weights [6, 4]"},
		{nil, one(".lora_A.weight"), nil, "and no lora_B"},
		{nil, one(".lora_B.weight"), nil, "and no lora_A"},
		{nil, with("base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", 2, 4), nil, "and no lora_B"},
		{nil, with(q+".lora_magnitude_vector", 1, 6), nil, "is neither lora_A nor lora_B"},
		{nil, with("model.layers.0.self_attn.q_proj.lora_A.weight", 2, 4), nil, "there are two of module"},
		{map[string]any{"target_modules": []string{"q_proj", "down_proj"}}, right, nil, `target_modules lists "down_proj", but adapter_model.safetensors has no tensors of "model.layers.0.mlp.down_proj"`},
		{map[string]any{"target_modules": []string{"k_proj"}}, right, nil, `target_modules does not list "model.layers.0.self_attn.q_proj", which adapter_model.safetensors has tensors of`},
		{map[string]any{"target_modules": []string{}}, right, nil, `target_modules does not list "model.layers.0.self_attn.q_proj"`},
		{map[string]any{"target_modules": 7}, right, nil, `target_modules is 7: want a list of names, or one pattern`},
		{nil, map[string][2]int{"base_model.model.lm_head.lora_A.weight": {2, 4}, "base_model.model.lm_head.lora_B.weight": {9, 2}}, nil, `unknown module "lm_head": want a linear layer of the model's blocks`},
		{nil, right, map[string]float32{q + ".lora_A.weight": float32(math.NaN())}, "lora_A.weight\" has NaN at row 0, column 1"},
		{nil, right, map[string]float32{q + ".lora_B.weight": float32(math.Inf(-1))}, "lora_B.weight\" has -Inf at row 0, column 1"},
		{map[string]any{"lora_alpha": 1e300}, right, nil, "has +Inf at row 0, column 0, scaled by +Inf"},
		{nil, nil, nil, "has tensors of 0 modules, want 1 to 4096"},
	} {
		a, err := Open("a", store(t, c.keys, c.tensors, c.values))
		if err == nil {
			err = a.Check(layers)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "adapter a: ") {
			t.Errorf("%v %v: got %v, want %q", c.keys, c.tensors, err, c.want)
		}
	}
}

// manyPatterns are those of no module.
func manyPatterns(n int) map[string]int {
	list := map[string]int{}
	for i := range n {
		list[fmt.Sprintf("(x+)+%d", i)] = 2
	}
	return list
}

// TestManyPatterns: as many patterns as there may be are compiled once, not for each module.
func TestManyPatterns(t *testing.T) {
	tensors := map[string][2]int{}
	for i := range 500 {
		tensors[fmt.Sprintf("base_model.model.model.layers.%d.self_attn.q_proj.lora_A.weight", i)] = [2]int{2, 4}
		tensors[fmt.Sprintf("base_model.model.model.layers.%d.self_attn.q_proj.lora_B.weight", i)] = [2]int{6, 2}
	}
	before := testing.AllocsPerRun(1, func() {
		if _, err := Open("a", store(t, nil, tensors, nil)); err != nil {
			t.Fatal(err)
		}
	})
	after := testing.AllocsPerRun(1, func() {
		if _, err := Open("a", store(t, map[string]any{"rank_pattern": manyPatterns(maxPatterns)}, tensors, nil)); err != nil {
			t.Fatal(err)
		}
	})
	if more := after - before; more > 500*maxPatterns {
		t.Errorf("%d patterns take %v more allocations for 500 modules, want no compiling for each", maxPatterns, more)
	}
}
