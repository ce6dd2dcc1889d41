package weights

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// writeGrouped writes parts beside a config.json with this quantization_config.
func writeGrouped(t *testing.T, quantization string, parts []Part) *Checkpoint {
	t.Helper()
	dir := writeParts(t, parts).dir
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"quantization_config":`+quantization+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func elementsOf(v any) func(io.Writer) error {
	return func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, v) }
}

const (
	gptqConfig = `{"quant_method":"gptq","bits":4,"group_size":4,"desc_act":true,"sym":false}`
	awqConfig  = `{"quant_method":"awq","bits":4,"group_size":4,"version":"GEMM"}`
	fp8Config  = `{"quant_method":"fp8","weight_block_size":[2,3]}`
	ctConfig   = `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
		"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":4,"symmetric":false,"actorder":"group"}}}}`
)

// gptqParts is a matrix [8, 8] of two groups, whose row i has the code i in all columns.
func gptqParts() []Part {
	words := make([]uint32, 8)
	for i := range words {
		words[i] = 0x11111111 * uint32(i)
	}
	return []Part{
		{"m.qweight", "I32", []int{1, 8}, elementsOf(words)},
		{"m.qzeros", "I32", []int{2, 1}, elementsOf([]uint32{0x76543210, 0xffffffff})},
		{"m.scales", "F32", []int{2, 8}, elementsOf(slices.Repeat([]float32{2}, 16))},
		{"m.g_idx", "I32", []int{8}, elementsOf([]int32{1, 0, 0, 0, 0, 1, 1, 1})},
	}
}

// ctParts is a matrix [3, 6] of two groups, of which the second is of two columns.
func ctParts() []Part {
	return []Part{
		{"m.weight_packed", "I32", []int{3, 1}, elementsOf([]uint32{0xff543210, 0x9abcde, 0x888888})},
		{"m.weight_zero_point", "I32", []int{1, 2}, elementsOf([]uint32{0xfff987, 0xfff678})},
		{"m.weight_scale", "BF16", []int{3, 2}, elementsOf([]uint16{0x3f80, 0x4000, 0x3f80, 0x4000, 0x3f80, 0x4000})},
		{"m.weight_shape", "I64", []int{2}, elementsOf([]int64{3, 6})},
		{"m.weight_g_idx", "I32", []int{6}, elementsOf([]int32{-1, -1, -1, -1, -1, -1})},
	}
}

func fp8Parts() []Part {
	return []Part{
		{"m.weight", "F8_E4M3", []int{3, 4}, elementsOf([]byte{0x38, 0x40, 0xb8, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38})}, // 1, 2, -1, 1
		{"m.weight_scale_inv", "F32", []int{2, 2}, elementsOf([]float32{1, 2, 3, 4})},
	}
}

func TestGroupedTensors(t *testing.T) {
	awq := []Part{
		{"m.qweight", "I32", []int{4, 1}, elementsOf(slices.Repeat([]uint32{0x75316420}, 4))}, // each output's own number
		{"m.qzeros", "I32", []int{1, 1}, elementsOf([]uint32{0x11111111})},
		{"m.scales", "F16", []int{1, 8}, elementsOf(slices.Repeat([]uint16{0x3c00}, 8))},
	}
	inOrder := gptqParts()
	inOrder[3].Data = elementsOf([]int32{0, 0, 0, 0, 1, 1, 1, 1})
	kept := map[string]bool{"gptq in order": true, "awq": true}
	for name, c := range map[string]struct {
		config     string
		parts      []Part
		rows, cols int
		want       func(i, j int) float32
	}{
		"gptq in order": {strings.Replace(gptqConfig, `"desc_act":true`, `"desc_act":false`, 1), inOrder, 8, 8, func(i, j int) float32 {
			if j < 4 {
				return -2
			}
			return 2 * float32(i-16)
		}},
		"gptq": {gptqConfig, gptqParts(), 8, 8, func(i, j int) float32 {
			if j >= 1 && j < 5 {
				return -2 // row i of group 0 has the zero point i, stored as one less
			}
			return 2 * float32(i-16)
		}},
		"gptq_v2": {strings.Replace(gptqConfig, `"bits"`, `"checkpoint_format":"gptq_v2","bits"`, 1), gptqParts(), 8, 8, func(i, j int) float32 {
			if j >= 1 && j < 5 {
				return 0
			}
			return 2 * float32(i-15)
		}},
		"awq": {awqConfig, awq, 8, 4, func(i, j int) float32 { return float32(i - 1) }},
		"pack-quantized": {ctConfig, ctParts(), 3, 6, func(i, j int) float32 {
			return [][]float32{{-7, -6, -5, -4, -8, -6}, {6, 5, 4, 3, 6, 4}, {-1, -1, -1, -1, 4, 4}}[i][j]
		}},
		"fp8": {fp8Config, fp8Parts(), 3, 4, func(i, j int) float32 {
			return [][]float32{{1, 2, -1, 2}, {1, 1, 1, 2}, {3, 3, 3, 4}}[i][j]
		}},
	} {
		checkpoint := writeGrouped(t, c.config, c.parts)
		typ, err := checkpoint.Find("m.weight", c.rows, c.cols)
		if err != nil || typ != kernels.BF16 {
			t.Errorf("%s: %v, %v", name, typ, err)
			continue
		}
		checkpoint.Ahead("m.weight")
		x, err := checkpoint.Tensor("m.weight", c.rows, c.cols)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for k, v := range elements(t, x) {
			if want := c.want(k/c.cols, k%c.cols); v != want {
				t.Errorf("%s: element %d %d is %v, want %v", name, k/c.cols, k%c.cols, v, want)
			}
		}
		if g := x.Groups; g == nil == kept[name] {
			t.Errorf("%s: codes are kept: %v", name, g != nil)
		} else if g != nil {
			for k, code := range g.Codes {
				at := k/c.cols*g.Count(c.cols) + k%c.cols/g.Cols
				if v := float32(int(code)-int(g.Zero[at])) * g.Scale[at]; v != c.want(k/c.cols, k%c.cols) {
					t.Errorf("%s: code %d is worth %v, want %v", name, k, v, c.want(k/c.cols, k%c.cols))
				}
			}
		}
		checkpoint.Release(x)
		if left := checkpoint.Untaken(); len(left) > 0 || len(checkpoint.owned) > 0 {
			t.Errorf("%s: untaken are %v, %d in memory", name, left, len(checkpoint.owned))
		}
	}
}

// TestGroupedIDs: a matrix of other scales, of another file, or that is read otherwise has another ID.
func TestGroupedIDs(t *testing.T) {
	a := writeGrouped(t, gptqConfig, gptqParts())
	other := *a
	other.quantization = parseQuantization(t, strings.Replace(gptqConfig, `"bits"`, `"checkpoint_format":"gptq_v2","bits"`, 1))
	first := a.ID("m.weight")
	if again := a.ID("m.weight"); again != first || first == other.ID("m.weight") {
		t.Error("IDs do not say how the matrix is read")
	}
	same := writeGrouped(t, gptqConfig, gptqParts())
	for _, name := range []string{"m.qweight", "m.qzeros", "m.scales"} {
		same.Equate(name, a.Alone(name))
	}
	if a.ID("m.weight") == same.ID("m.weight") {
		t.Error("the ID leaves the groups out")
	}
	same.Equate("m.g_idx", a.Alone("m.g_idx"))
	if a.ID("m.weight") != same.ID("m.weight") {
		t.Error("equal matrices have different IDs")
	}
}

// TestGroupedBiases: biases of zeros that the model has not are taken, others are not.
func TestGroupedBiases(t *testing.T) {
	for last, want := range map[float32]string{0: "[]", 1: "[m.bias]"} {
		parts := append(gptqParts(), Part{"m.bias", "F32", []int{8}, elementsOf([]float32{0, 0, 0, 0, 0, 0, 0, last})})
		c := writeGrouped(t, gptqConfig, parts)
		if _, err := c.Find("m.weight", 8, 8); err != nil {
			t.Fatal(err)
		}
		if got := c.Untaken(); strings.Join(got, " ") != strings.Trim(want, "[]") {
			t.Errorf("untaken are %v, want %s", got, want)
		}
	}
}

func TestGroupedRefusesTensors(t *testing.T) {
	set := func(at int, typ string, shape []int, values any) func([]Part) []Part {
		return func(p []Part) []Part {
			p[at].Type, p[at].Shape, p[at].Data = typ, shape, elementsOf(values)
			return p
		}
	}
	without := func(at int) func([]Part) []Part { return func(p []Part) []Part { return slices.Delete(p, at, at+1) } }
	gptq, ct, fp8 := [2]int{8, 8}, [2]int{3, 6}, [2]int{3, 4}
	for want, c := range map[string]struct {
		config string
		parts  []Part
		shape  [2]int
		edit   func([]Part) []Part
	}{
		`missing tensor "m.qzeros" of a quantised weight, by config.json`:                                {gptqConfig, gptqParts(), gptq, without(1)},
		`missing tensor "m.scales" of a quantised weight, by config.json`:                                {gptqConfig, gptqParts(), gptq, without(2)},
		`missing tensor "m.g_idx" of a quantised weight, by config.json`:                                 {gptqConfig, gptqParts(), gptq, without(3)},
		`tensor "m.qweight" is F32, want I32`:                                                            {gptqConfig, gptqParts(), gptq, set(0, "F32", []int{1, 8}, make([]float32, 8))},
		`tensor "m.qweight" has shape [2 4], want [1 8]`:                                                 {gptqConfig, gptqParts(), gptq, set(0, "I32", []int{2, 4}, make([]int32, 8))},
		`tensor "m.qzeros" has shape [2 2], want [2 1]: [8 8] in 4 bits, in groups of 4, by config.json`: {gptqConfig, gptqParts(), gptq, set(1, "I32", []int{2, 2}, make([]int32, 4))},
		`tensor "m.scales" has shape [1 8], want [2 8]`:                                                  {gptqConfig, gptqParts(), gptq, set(2, "F32", []int{1, 8}, make([]float32, 8))},
		`tensor "m.scales" is F64, want BF16, F16 or F32`:                                                {gptqConfig, gptqParts(), gptq, set(2, "F64", []int{2, 8}, make([]float64, 16))},
		`tensor "m.scales": element 0 is NaN, want a finite number`:                                      {gptqConfig, gptqParts(), gptq, set(2, "F32", []int{2, 8}, slices.Repeat([]float32{float32(math.NaN())}, 16))},
		`tensor "m.g_idx" has shape [9], want [8]`:                                                       {gptqConfig, gptqParts(), gptq, set(3, "I32", []int{9}, make([]int32, 9))},
		`tensor "m.g_idx": element 2 is 2, want a group of 0 to 1`:                                       {gptqConfig, gptqParts(), gptq, set(3, "I32", []int{8}, []int32{0, 1, 2, 0, 0, 0, 0, 0})},
		`tensor "m.g_idx": element 0 is -1, want a group of 0 to 1`:                                      {gptqConfig, gptqParts(), gptq, set(3, "I32", []int{8}, slices.Repeat([]int32{-1}, 8))},
		`tensor "m.qweight" packs [12 8] in 4 bits: want multiples of 8`:                                 {gptqConfig, gptqParts(), [2]int{12, 8}, nil},
		`tensor "m.qweight" packs [12 4] in 4 bits: want multiples of 8`:                                 {awqConfig, gptqParts(), [2]int{12, 4}, nil},
		`missing tensor "m.weight_zero_point"`:                                                           {ctConfig, ctParts(), ct, without(1)},
		`missing tensor "m.weight_shape"`:                                                                {ctConfig, ctParts(), ct, without(3)},
		`missing tensor "m.weight_g_idx"`:                                                                {ctConfig, ctParts(), ct, without(4)},
		`tensor "m.weight_zero_point" is I8, want I32`:                                                   {ctConfig, ctParts(), ct, set(1, "I8", []int{3, 2}, make([]int8, 6))},
		`tensor "m.weight_scale" has shape [3 1], want [3 2]`:                                            {ctConfig, ctParts(), ct, set(2, "BF16", []int{3, 1}, make([]int16, 3))},
		`tensor "m.weight_shape" is [3 7], want [3 6] by config.json`:                                    {ctConfig, ctParts(), ct, set(3, "I64", []int{2}, []int64{3, 7})},
		`tensor "m.weight_g_idx": element 1 is -1, want a group of 0 to 1`:                               {ctConfig, ctParts(), ct, set(4, "I32", []int{6}, []int32{0, -1, -1, -1, -1, -1})},
		`tensor "m.weight_scale_inv" has shape [1 2], want [2 2]: [3 4] in 8 bits, in blocks of 2 x 3`:   {fp8Config, fp8Parts(), fp8, set(1, "F32", []int{1, 2}, make([]float32, 2))},
		`missing tensor "m.weight_scale_inv"`:                                                            {fp8Config, fp8Parts(), fp8, without(1)},
		`tensor "m.weight": element [0 1] is NaN, want a finite number`:                                  {fp8Config, fp8Parts(), fp8, set(0, "F8_E4M3", []int{3, 4}, slices.Repeat([]byte{0x38, 0x7f}, 6))},
		`tensor "m.weight": element [2 3] is +Inf, want a finite number`: {fp8Config, fp8Parts(), fp8, func(p []Part) []Part {
			p[0].Data, p[1].Data = elementsOf(slices.Repeat([]byte{0x7e}, 12)), elementsOf([]float32{1, 2, 3, math.MaxFloat32})
			return p
		}},
	} {
		if c.edit != nil {
			c.parts = c.edit(c.parts)
		}
		checkpoint := writeGrouped(t, c.config, c.parts)
		_, err := checkpoint.Tensor("m.weight", c.shape[0], c.shape[1])
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), checkpoint.dir) {
			t.Errorf("%v, want %q and the path", err, want)
		}
		if len(checkpoint.owned) > 0 {
			t.Errorf("%q: memory is kept", want)
		}
	}
	if _, err := writeGrouped(t, gptqConfig, gptqParts()).Find("m.weight", 64); err == nil || !strings.Contains(err.Error(), "packs shape [64], want a matrix") {
		t.Errorf("a vector: %v", err)
	}
}

// TestGroupingOfAnotherType: a key of another type of JSON is named with its path.
func TestGroupingOfAnotherType(t *testing.T) {
	for config, want := range map[string]string{
		`{"quant_method":"gptq","bits":"4"}`: "quantization_config.bits must be an integer, not string",
		`{"quant_method":7}`:                 "quantization_config.quant_method must be a string, not number",
		`[]`:                                 "quantization_config",
	} {
		if _, err := ParseConfig([]byte(`{"quantization_config":` + config + `}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestGroupingRefusesKeys(t *testing.T) {
	for _, c := range []struct{ config, old, new, want string }{
		{gptqConfig, `"bits":4`, `"bits":3`, "bits is 3, want 4 or 8"},
		{gptqConfig, `"bits":4`, `"bits":2`, "bits is 2, want 4 or 8"},
		{gptqConfig, `"group_size":4`, `"group_size":0`, "group_size is 0, want -1 or 1 to 1048576"},
		{gptqConfig, `"group_size":4`, `"group_size":-2`, "group_size is -2, want -1"},
		{gptqConfig, `"group_size":4,`, ``, "group_size is missing"},
		{gptqConfig, `"sym"`, `"checkpoint_format":"marlin","sym"`, `checkpoint_format is "marlin", want gptq or gptq_v2`},
		{gptqConfig, `"sym"`, `"is_marlin_format":true,"sym"`, "is_marlin_format is true, want false"},
		{gptqConfig, `"sym"`, `"format":"bitblas","sym"`, `format is "bitblas", want gptq or gptq_v2`},
		{gptqConfig, `"sym"`, `"pack_dtype":"int16","sym"`, `pack_dtype is "int16", want int32`},
		{gptqConfig, `"sym"`, `"dynamic":{"-:.*k_proj":{}},"sym"`, `dynamic is {"-:.*k_proj":{}}, want none`},
		{gptqConfig, `"sym"`, `"rotation":"hadamard","sym"`, `unknown key rotation ("hadamard") of quant_method "gptq"`},
		{awqConfig, `"bits":4`, `"bits":8`, "bits is 8, want 4"},
		{awqConfig, `"GEMM"`, `"gemv"`, `version is "gemv", want gemm`},
		{awqConfig, `"GEMM"`, `"exllama"`, `version is "exllama", want gemm`},
		{awqConfig, `"bits"`, `"backend":"llm-awq","bits"`, `backend is "llm-awq", want autoawq`},
		{awqConfig, `"bits"`, `"zero_point":false,"bits"`, "zero_point is false, want true"},
		{awqConfig, `"group_size":4`, `"group_size":0`, "group_size is 0, want -1"},
		{fp8Config, `[2,3]`, `[2]`, "weight_block_size is [2], want two numbers of 1 to 1048576"},
		{fp8Config, `[2,3]`, `[128,0]`, "weight_block_size is [128 0], want two"},
		{fp8Config, `[2,3]`, `null`, "weight_block_size is [], want two"},
		{fp8Config, `"weight`, `"activation_scheme":"static","weight`, `activation_scheme is "static", want dynamic`},
		{fp8Config, `"weight`, `"fmt":"e5m2","weight`, `fmt is "e5m2", want e4m3`},
		{ctConfig, `"group_size":4`, `"group_size":-1`, "config_groups.g.weights.group_size is -1, want 1 to 1048576"},
		{ctConfig, `"group_size":4`, `"group_size":0`, "config_groups.g.weights.group_size is 0, want 1 to 1048576"},
		{ctConfig, `"group_size":4,`, ``, "config_groups.g.weights.group_size is null"},
		{ctConfig, `"num_bits":4`, `"num_bits":2`, "config_groups.g.weights.num_bits is 2, want 4 or 8"},
		{ctConfig, `"strategy":"group"`, `"strategy":"tensor"`, `weights.strategy is "tensor", want group or channel`},
		{ctConfig, `"strategy":"group"`, `"strategy":"channel"`, "weights.group_size is 4 beside strategy channel"},
		{ctConfig, `"actorder":"group"`, `"actorder":"random"`, `weights.actorder is "random"`},
		{ctConfig, `pack-quantized`, `marlin-24`, `format is "marlin-24"`},
		{ctConfig, `pack-quantized`, `int-quantized`, `format is "int-quantized"`},
	} {
		if err := parseQuantization(t, c.config).Check(); err != nil {
			t.Fatalf("%s: %v", c.config, err)
		}
		err := parseQuantization(t, strings.Replace(c.config, c.old, c.new, 1)).Check()
		if err == nil || !strings.Contains(err.Error(), "quantization_config: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want it to hold %q", c.new, err, c.want)
		}
	}
}
