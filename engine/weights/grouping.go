package weights

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights/grouped"
)

// groupingKeys are keys of quantization_config by which GPTQ, AWQ and FP8 by blocks say how all linear layers are stored.
type groupingKeys struct {
	Bits      int   `json:"bits"`
	GroupSize *int  `json:"group_size"`
	Symmetric *bool `json:"sym"`

	Ordered bool            `json:"desc_act"` // of GPTQ
	Form    string          `json:"checkpoint_format"`
	Marlin  bool            `json:"is_marlin_format"`
	Dynamic json.RawMessage `json:"dynamic"`
	Word    string          `json:"pack_dtype"`

	ZeroPoint *bool  `json:"zero_point"` // of AWQ
	Version   string `json:"version"`
	Backend   string `json:"backend"`

	BlockSize   []int  `json:"weight_block_size"` // of FP8
	Activations string `json:"activation_scheme"`
	Number      string `json:"fmt"`
}

// groupingMethods are the ways to quantise that say all with such keys, and the other keys of each, which change nothing here: how the codes
// were found, how another program computes with them, and which layers have none, which the tensors tell.
var groupingMethods = map[string]struct {
	check func(k *groupingKeys, format string) (key string, value any)
	known string
}{
	"gptq": {checkGPTQ, "bits group_size sym desc_act checkpoint_format is_marlin_format dynamic pack_dtype format method quant_method lm_head " +
		"true_sequential static_groups damp_percent damp_auto_increment dataset tokenizer model_name_or_path model_file_base_name model_seqlen " +
		"block_name_to_quantize module_name_preceding_first_block modules_in_block_to_quantize batch_size pad_token_id use_cuda_fp16 " +
		"use_exllama disable_exllama exllama_config max_input_length cache_block_outputs backend quantizer meta uri mse v2 act_group_aware hyb_act"},
	"awq": {checkAWQ, "bits group_size zero_point version backend quant_method modules_to_not_convert do_fuse fuse_max_seq_len modules_to_fuse exllama_config"},
	"fp8": {checkFP8, "weight_block_size activation_scheme fmt scale_fmt quant_method modules_to_not_convert ignored_layers dequantize"},
}

// maxGroup is the most inputs or outputs that share a scale.
const maxGroup = 1 << 20

// UnmarshalJSON implements json.Unmarshaler.
func (q *Quantization) UnmarshalJSON(raw []byte) error {
	type plain Quantization
	if err := json.Unmarshal(raw, (*plain)(q)); err != nil {
		return err
	}
	method, ok := groupingMethods[q.Method]
	if !ok {
		return nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return err
	}
	known := strings.Fields(method.known)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) && string(keys[key]) != "null" {
			q.unknown, q.unknownValue = key, string(keys[key])
			break
		}
	}
	return json.Unmarshal(raw, &q.grouping)
}

// checkGrouping refuses keys and values of a method that says all with groupingKeys.
func (q *Quantization) checkGrouping() error {
	if q.unknown != "" {
		return fmt.Errorf("quantization_config: unknown key %s (%.100s) of quant_method %q", q.unknown, q.unknownValue, q.Method)
	}
	if key, value := groupingMethods[q.Method].check(&q.grouping, q.Format); key != "" {
		return fmt.Errorf("quantization_config: %s is %v", key, value)
	}
	return nil
}

func checkGPTQ(k *groupingKeys, format string) (key string, value any) {
	forms := []string{"", "gptq", "gptq_v2"}
	switch {
	case k.Marlin:
		return "is_marlin_format", "true, want false"
	case !slices.Contains(forms, k.Form):
		return "checkpoint_format", fmt.Sprintf("%q, want gptq or gptq_v2", k.Form)
	case !slices.Contains(forms, format):
		return "format", fmt.Sprintf("%q, want gptq or gptq_v2", format)
	case k.Bits != 4 && k.Bits != 8:
		return "bits", fmt.Sprintf("%d, want 4 or 8", k.Bits)
	case k.Word != "" && k.Word != "int32":
		return "pack_dtype", fmt.Sprintf("%q, want int32", k.Word)
	case !isEmptyKey(k.Dynamic):
		return "dynamic", fmt.Sprintf("%.100s, want none", k.Dynamic)
	}
	return k.checkGroupSize()
}

func checkAWQ(k *groupingKeys, _ string) (key string, value any) {
	switch {
	case k.Bits != 4:
		return "bits", fmt.Sprintf("%d, want 4", k.Bits)
	case k.Version != "" && !strings.EqualFold(k.Version, "gemm"):
		return "version", fmt.Sprintf("%q, want gemm", k.Version)
	case k.Backend != "" && k.Backend != "autoawq":
		return "backend", fmt.Sprintf("%q, want autoawq", k.Backend)
	case k.ZeroPoint != nil && !*k.ZeroPoint:
		return "zero_point", "false, want true"
	}
	return k.checkGroupSize()
}

func checkFP8(k *groupingKeys, _ string) (key string, value any) {
	switch {
	case k.Number != "" && k.Number != "e4m3":
		return "fmt", fmt.Sprintf("%q, want e4m3", k.Number)
	case k.Activations != "" && k.Activations != "dynamic":
		return "activation_scheme", fmt.Sprintf("%q, want dynamic", k.Activations)
	case !isBlock(k.BlockSize):
		return "weight_block_size", fmt.Sprintf("%v, want two numbers of 1 to %d", k.BlockSize, maxGroup)
	}
	return "", nil
}

func isBlock(size []int) bool {
	return len(size) == 2 && min(size[0], size[1]) >= 1 && max(size[0], size[1]) <= maxGroup
}

// checkGroupSize refuses what is neither a number of inputs nor -1, which stands for all.
func (k *groupingKeys) checkGroupSize() (key string, value any) {
	switch {
	case k.GroupSize == nil:
		return "group_size", "missing"
	case *k.GroupSize != -1 && (*k.GroupSize < 1 || *k.GroupSize > maxGroup):
		return "group_size", fmt.Sprintf("%d, want -1 or 1 to %d", *k.GroupSize, maxGroup)
	}
	return "", nil
}

// isGrouped says whether a group of modules is stored in groups or blocks, or in less than 8 bits, or with zero points, and expanded as it is loaded.
func (g *QuantizationGroup) isGrouped() bool {
	w := g.Weights
	if w.Type == "float" {
		return w.Strategy == "block"
	}
	return w.Type == "int" && g.Activations == nil && (w.Bits != 8 || w.Strategy == "group" || w.Symmetric != nil && !*w.Symmetric)
}

// unsupportedGrouping is unsupportedKey of modules that are grouped.
func (g *QuantizationGroup) unsupportedGrouping() (key string, value any) {
	w := g.Weights
	if w.Type == "float" {
		switch {
		case w.Bits != 8:
			return "weights.num_bits", w.Bits
		case w.Symmetric != nil && !*w.Symmetric:
			return "weights.symmetric", false
		case !isBlock(w.BlockStructure):
			return "weights.block_structure", fmt.Sprintf("%v, want two numbers of 1 to %d", w.BlockStructure, maxGroup)
		case g.Activations != nil && (g.Activations.Type != "float" || string(g.Activations.Dynamic) != "true"):
			return "input_activations", "not float and dynamic"
		}
		return "", nil
	}
	switch size := w.GroupSize; {
	case w.Bits != 4 && w.Bits != 8:
		return "weights.num_bits", fmt.Sprintf("%d, want 4 or 8", w.Bits)
	case w.Strategy == "group" && (size == nil || *size < 1 || *size > maxGroup):
		return "weights.group_size", fmt.Sprintf("%s, want 1 to %d", orNull(size), maxGroup)
	case w.Strategy == "channel" && size != nil && *size > 0:
		return "weights.group_size", fmt.Sprintf("%d beside strategy channel", *size)
	case w.Strategy != "group" && w.Strategy != "channel":
		return "weights.strategy", fmt.Sprintf("%q, want group or channel", w.Strategy)
	case !slices.Contains([]string{"", "null", "false", "true", `"group"`, `"dynamic"`, `"weight"`, `"static"`}, string(w.ActOrder)):
		return "weights.actorder", string(w.ActOrder)
	}
	return "", nil
}

func orNull(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// groupedFormats are formats in which modules that are grouped may be stored, by the type of their codes.
var groupedFormats = map[string][]string{"float": {"", "float-quantized", "naive-quantized"}, "int": {"pack-quantized"}}

// layout is how modules of a group that is grouped are stored.
func (g *QuantizationGroup) layout() grouped.Layout {
	w := g.Weights
	if w.Type == "float" {
		return grouped.Layout{Packing: grouped.FP8, Bits: 8, Rows: w.BlockStructure[0], Cols: w.BlockStructure[1], Scales: ".weight_scale"}
	}
	l := grouped.Layout{Packing: grouped.Packed, Bits: w.Bits, Rows: 1, Zeros: w.Symmetric != nil && !*w.Symmetric, Scales: ".weight_scale"}
	if w.Strategy == "group" {
		l.Cols = *w.GroupSize
	}
	l.Ordered = slices.Contains([]string{"true", `"group"`, `"dynamic"`}, string(w.ActOrder))
	return l
}

// KeptGroup is how many inputs of a module share a scale, if its codes of four bits are kept by backends that can. Check must have passed.
func (q *Quantization) KeptGroup(module string, inputs int) (group int, ok bool) {
	l, ok := q.layoutOf(module)
	if !ok {
		return 0, false
	}
	return l.Kept(inputs)
}

// layoutOf is how a module is stored, if in groups or blocks, where it is quantised at all. Check must have passed.
func (q *Quantization) layoutOf(module string) (l grouped.Layout, ok bool) {
	if q == nil {
		return l, false
	}
	k := &q.grouping
	switch q.Method {
	case "gptq":
		l = grouped.Layout{Packing: grouped.GPTQ, Bits: k.Bits, Rows: 1, Cols: max(0, *k.GroupSize), Zeros: true, Ordered: k.Ordered, Scales: ".scales"}
		if k.Form != "gptq_v2" && q.Format != "gptq_v2" {
			l.Higher = 1
		}
	case "awq":
		l = grouped.Layout{Packing: grouped.AWQ, Bits: k.Bits, Rows: 1, Cols: max(0, *k.GroupSize), Zeros: true, Scales: ".scales"}
	case "fp8":
		l = grouped.Layout{Packing: grouped.FP8, Bits: 8, Rows: k.BlockSize[0], Cols: k.BlockSize[1], Scales: ".weight_scale_inv"}
	default:
		g := q.groupOf(module)
		if g == nil || !g.isGrouped() {
			return l, false
		}
		l = g.layout()
	}
	return l, true
}
