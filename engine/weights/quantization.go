package weights

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/kernels"
)

// Quantization is quantization_config of config.json: as far as the compressed-tensors format's
// FP8-dynamic and INT8 schemes have it, weights in FP8 E4M3 or int8 with a scale for each output channel, or
// one for the whole matrix, and activations quantised as they come, each token by itself, or, with int8
// weights, left alone; and what says how weights are stored that are expanded as they are loaded, in groups or blocks.
type Quantization struct {
	Method string                       `json:"quant_method"`
	Format string                       `json:"format"`
	Groups map[string]QuantizationGroup `json:"config_groups"`
	Ignore []string                     `json:"ignore"`

	KVCacheScheme   json.RawMessage `json:"kv_cache_scheme"`
	SparsityConfig  json.RawMessage `json:"sparsity_config"`
	TransformConfig json.RawMessage `json:"transform_config"`

	grouping              groupingKeys // of groupingMethods
	unknown, unknownValue string       // the first key that is none of the method's
}

// Values are those of all keys, as one text; of nil an empty one.
func (q *Quantization) Values() []byte {
	if q == nil {
		return nil
	}
	text, err := json.Marshal([]any{q, q.grouping})
	if err != nil {
		panic(err) // it was read from JSON
	}
	return text
}

// QuantizationGroup is a set of modules that are quantised alike. Targets are names of modules,
// names of their classes, or "re:" and a regular expression that matches at a name's start.
type QuantizationGroup struct {
	Targets     []string          `json:"targets"`
	Format      string            `json:"format"`
	Weights     *QuantizationArgs `json:"weights"`
	Activations *QuantizationArgs `json:"input_activations"`
	Outputs     *QuantizationArgs `json:"output_activations"`
}

// QuantizationArgs says how tensors become numbers of few bits.
type QuantizationArgs struct {
	Bits      int             `json:"num_bits"`
	Type      string          `json:"type"`
	Strategy  string          `json:"strategy"`
	Symmetric *bool           `json:"symmetric"`
	Dynamic   json.RawMessage `json:"dynamic"` // a boolean, or "local"
	GroupSize *int            `json:"group_size"`

	ActOrder       json.RawMessage `json:"actorder"` // null, a boolean or a name
	BlockStructure []int           `json:"block_structure"`
}

// Scheme is how the weights of a linear layer are kept in memory and multiplied; the zero Scheme is that of weights
// that are not quantised, or are expanded as they are loaded.
type Scheme struct {
	Type       kernels.DType // a type of codes
	WeightOnly bool          // of I8: activations are not quantised
}

// Quantized says that the weights are codes.
func (s Scheme) Quantized() bool { return s.Type.Scaled() }

// types are those of weights that a num_bits of 8 and this type stand for.
var types = map[string]kernels.DType{"float": kernels.F8E4M3, "int": kernels.I8}

// formats are those in which each type is stored as it is, or packed in a way that is read.
var formats = map[string][]string{
	"float": {"", "float-quantized", "naive-quantized"},
	"int":   {"", "int-quantized", "pack-quantized", "naive-quantized"},
}

// supportedScheme ends every refusal.
const supportedScheme = "supported are FP8-dynamic and INT8 of compressed-tensors: 8-bit weights, float or int, symmetric, of strategy channel or tensor, with input_activations of the same type, dynamic, of strategy token; or int weights without input_activations; " +
	"pack-quantized in 4 or 8 bits with groups or zero points, without input_activations; FP8 by blocks; GPTQ in 4 or 8 bits; AWQ's gemm in 4"

// Check refuses what would be computed wrongly, and names the key, its value and what is supported.
func (q *Quantization) Check() error {
	refuse := func(key string, value any) error {
		return fmt.Errorf("quantization_config: %s is %v; %s", key, value, supportedScheme)
	}
	if _, ok := groupingMethods[q.Method]; ok {
		return q.checkGrouping()
	}
	switch {
	case q.Method != "compressed-tensors":
		return refuse("quant_method", fmt.Sprintf("%q", q.Method))
	case !isEmptyKey(q.KVCacheScheme):
		return refuse("kv_cache_scheme", string(q.KVCacheScheme))
	case !isEmptyKey(q.TransformConfig):
		return refuse("transform_config", string(q.TransformConfig))
	case !isEmptyKey(q.SparsityConfig) && !isDense(q.SparsityConfig):
		return refuse("sparsity_config", string(q.SparsityConfig))
	case len(q.Groups) == 0:
		return refuse("config_groups", "empty or missing")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		g := q.Groups[name]
		if key, value := g.unsupportedKey(); key != "" {
			return refuse("config_groups."+name+"."+key, value)
		}
		stored := formats[g.Weights.Type]
		if g.isGrouped() {
			stored = groupedFormats[g.Weights.Type]
		}
		if g.Format != "" && !slices.Contains(stored, g.Format) {
			return refuse("config_groups."+name+".format", fmt.Sprintf("%q", g.Format))
		}
		if g.Format == "" && !slices.Contains(stored, q.Format) {
			return refuse("format", fmt.Sprintf("%q", q.Format))
		}
		if err := checkPatterns(g.Targets); err != nil {
			return fmt.Errorf("quantization_config: config_groups.%s.targets: %w", name, err)
		}
	}
	if err := checkPatterns(q.Ignore); err != nil {
		return fmt.Errorf("quantization_config: ignore: %w", err)
	}
	return nil
}

// unsupportedKey is the first key whose value is not a supported scheme's, or "".
func (g *QuantizationGroup) unsupportedKey() (key string, value any) {
	switch {
	case g.Weights == nil:
		return "weights", "missing"
	case g.Outputs != nil:
		return "output_activations", "there"
	}
	if d := string(g.Weights.Dynamic); d != "" && d != "false" && d != "null" {
		return "weights.dynamic", d
	}
	if g.isGrouped() {
		return g.unsupportedGrouping()
	}
	if key, value := g.Weights.unsupportedKey("channel", "tensor"); key != "" {
		return "weights." + key, value
	}
	if g.Activations == nil {
		if g.Weights.Type != "int" {
			return "input_activations", "missing"
		}
		return "", nil
	}
	if key, value := g.Activations.unsupportedKey("token"); key != "" {
		return "input_activations." + key, value
	}
	if g.Activations.Type != g.Weights.Type {
		return "input_activations.type", fmt.Sprintf("%q beside weights of %q", g.Activations.Type, g.Weights.Type)
	}
	if d := string(g.Activations.Dynamic); d != "true" {
		return "input_activations.dynamic", orAbsent(d)
	}
	return "", nil
}

func (a *QuantizationArgs) unsupportedKey(strategies ...string) (key string, value any) {
	switch {
	case a.Bits != 8:
		return "num_bits", a.Bits
	case !types[a.Type].Scaled():
		return "type", fmt.Sprintf("%q", a.Type)
	case !slices.Contains(strategies, a.Strategy):
		return "strategy", fmt.Sprintf("%q", a.Strategy)
	case a.Symmetric != nil && !*a.Symmetric:
		return "symmetric", false
	case a.GroupSize != nil && *a.GroupSize > 0:
		return "group_size", *a.GroupSize
	}
	return "", nil
}

func orAbsent(raw string) string {
	if raw == "" {
		return "absent"
	}
	return raw
}

// isEmptyKey is a key that is absent, null or {}.
func isEmptyKey(raw json.RawMessage) bool {
	var keys map[string]json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &keys) == nil && len(keys) == 0
}

// isDense is a sparsity_config that says nothing is left out.
func isDense(raw json.RawMessage) bool {
	var c struct{ Format string }
	return json.Unmarshal(raw, &c) == nil && c.Format == "dense"
}

// checkPatterns compiles the regular expressions among names.
func checkPatterns(names []string) error {
	for _, name := range names {
		if pattern, ok := strings.CutPrefix(name, "re:"); ok {
			if _, err := regexp.Compile(pattern); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
	}
	return nil
}

// Linear is the scheme of the linear layer of this module name (such as "model.layers.0.mlp.up_proj"). Check must have passed.
func (q *Quantization) Linear(module string) Scheme {
	if g := q.groupOf(module); g != nil && !g.isGrouped() {
		return Scheme{Type: types[g.Weights.Type], WeightOnly: g.Activations == nil}
	}
	return Scheme{}
}

// groupOf is the first group by name that has a module as a target; nil where there is none, or the module is ignored.
func (q *Quantization) groupOf(module string) *QuantizationGroup {
	if q == nil || matchesModule(q.Ignore, module) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		if g := q.Groups[name]; matchesModule(g.Targets, module) {
			return &g
		}
	}
	return nil
}

func matchesModule(names []string, module string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if pattern, ok := strings.CutPrefix(name, "re:"); ok {
			at := regexp.MustCompile(pattern).FindStringIndex(module)
			return at != nil && at[0] == 0
		}
		return name == module || name == "Linear"
	})
}
