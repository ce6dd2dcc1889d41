package weights

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// fp8Dynamic is a quantization_config as llm-compressor writes it.
const fp8Dynamic = `{"config_groups":{"group_0":{
"input_activations":{"actorder":null,"block_structure":null,"dynamic":true,"group_size":null,"num_bits":8,"observer":null,"observer_kwargs":{},"strategy":"token","symmetric":true,"type":"float"},
"output_activations":null,"targets":["Linear"],
"weights":{"actorder":null,"block_structure":null,"dynamic":false,"group_size":null,"num_bits":8,"observer":"minmax","observer_kwargs":{},"strategy":"channel","symmetric":true,"type":"float"}}},
"format":"float-quantized","global_compression_ratio":1.46,"ignore":["lm_head"],"kv_cache_scheme":null,"quant_method":"compressed-tensors","quantization_status":"compressed"}`

func parseQuantization(t *testing.T, text string) *Quantization {
	t.Helper()
	var q Quantization
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		t.Fatal(err)
	}
	return &q
}

func TestQuantizationAccepts(t *testing.T) {
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(fp8Dynamic) }
	for name, text := range map[string]string{
		"as written":      fp8Dynamic,
		"whole matrices":  replace(`"channel"`, `"tensor"`),
		"newer":           replace(`"ignore"`, `"sparsity_config":{},"transform_config":{},"version":"0.11.0","ignore"`, `"targets"`, `"format":"float-quantized","targets"`),
		"dense":           replace(`"ignore"`, `"sparsity_config":{"format":"dense"},"ignore"`),
		"older":           replace("float-quantized", "naive-quantized"),
		"nothing ignored": replace(`["lm_head"]`, "[]"),
	} {
		if err := parseQuantization(t, text).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuantizationRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"quant_method":"compressed-tensors"`, `"quant_method":"hqq"`, `quant_method is "hqq"`},
		{`"quant_method":"compressed-tensors"`, `"quant_method":"bitsandbytes","bits":"4"`, `quant_method is "bitsandbytes"`},
		{"float-quantized", "pack-quantized", `format is "pack-quantized"`},
		{`"targets"`, `"format":"int-quantized","targets"`, `config_groups.group_0.format is "int-quantized"`},
		{`"strategy":"channel"`, `"strategy":"block"`, `config_groups.group_0.weights.block_structure is []`},
		{`"strategy":"token"`, `"strategy":"tensor"`, `config_groups.group_0.input_activations.strategy is "tensor"`},
		{`"dynamic":true`, `"dynamic":false`, `config_groups.group_0.input_activations.dynamic is false`},
		{`"dynamic":true,`, ``, `config_groups.group_0.input_activations.dynamic is absent`},
		{`"dynamic":true`, `"dynamic":"local"`, `input_activations.dynamic is "local"`},
		{`"dynamic":false`, `"dynamic":true`, `config_groups.group_0.weights.dynamic is true`},
		{`"num_bits":8`, `"num_bits":4`, `weights.num_bits is 4`},
		{`"type":"float"`, `"type":"mx"`, `weights.type is "mx"`},
		{`"symmetric":true`, `"symmetric":false`, `weights.symmetric is false`},
		{`"group_size":null`, `"group_size":128`, `weights.group_size is 128`},
		{`"output_activations":null`, `"output_activations":{}`, `output_activations is there`},
		{`"input_activations"`, `"inputs"`, `group_0.input_activations is missing`},
		{`"weights"`, `"weight"`, `group_0.weights is missing`},
		{`"kv_cache_scheme":null`, `"kv_cache_scheme":{"num_bits":8}`, `kv_cache_scheme is {"num_bits":8}`},
		{`"ignore"`, `"sparsity_config":{"format":"sparse-24-bitmask"},"ignore"`, `sparsity_config is {"format":"sparse-24-bitmask"}`},
		{`"ignore"`, `"transform_config":{"config_groups":{}},"ignore"`, `transform_config is`},
		{`"config_groups"`, `"groups"`, `config_groups is empty or missing`},
		{`"lm_head"`, `"re:("`, `ignore: "re:(": error parsing regexp`},
		{`"Linear"`, `"re:(?!x)"`, `config_groups.group_0.targets: "re:(?!x)": error parsing regexp`},
	} {
		err := parseQuantization(t, strings.ReplaceAll(fp8Dynamic, c.old, c.new)).Check()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want it to hold %q", c.new, err, c.want)
		}
		if err != nil && !strings.Contains(c.want, "regexp") && !strings.Contains(err.Error(), supportedScheme) {
			t.Errorf("%s: error %v does not say what is supported", c.new, err)
		}
	}
}

func TestQuantizationLinear(t *testing.T) {
	const up, down, head = "model.layers.0.mlp.up_proj", "model.layers.10.mlp.down_proj", "lm_head"
	for _, c := range []struct {
		old, new       string
		up, down, head bool
	}{
		{"", "", true, true, false},
		{`["lm_head"]`, `[]`, true, true, true},
		{`["lm_head"]`, `["lm_head", "re:.*down_proj$"]`, true, false, false},
		{`["lm_head"]`, `["re:layers", "re:model.layers.0\\."]`, false, true, true},
		{`["Linear"]`, `["re:.*up_proj", "model.layers.10.mlp.down_proj"]`, true, true, false},
		{`["Linear"]`, `["Embedding"]`, false, false, false},
	} {
		q := parseQuantization(t, strings.ReplaceAll(fp8Dynamic, c.old, c.new))
		if got := [3]bool{q.Linear(up).Quantized(), q.Linear(down).Quantized(), q.Linear(head).Quantized()}; got != [3]bool{c.up, c.down, c.head} {
			t.Errorf("%s: %v", c.new, got)
		}
	}
	if (*Quantization)(nil).Linear(up).Quantized() {
		t.Error("no quantization_config quantises")
	}
}

// int8Dynamic is fp8Dynamic with codes in int8, as llm-compressor's W8A8 is.
var int8Dynamic = strings.NewReplacer(`"type":"float"`, `"type":"int"`, "float-quantized", "int-quantized").Replace(fp8Dynamic)

// weightsAlone is int8Dynamic without activations, with packed codes, as llm-compressor's W8A16 is.
func weightsAlone(t *testing.T) string {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal([]byte(int8Dynamic), &config); err != nil {
		t.Fatal(err)
	}
	config["format"] = "pack-quantized"
	config["config_groups"].(map[string]any)["group_0"].(map[string]any)["input_activations"] = nil
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestQuantizationSchemes(t *testing.T) {
	for text, want := range map[string]Scheme{
		fp8Dynamic:      {Type: kernels.F8E4M3},
		int8Dynamic:     {Type: kernels.I8},
		weightsAlone(t): {Type: kernels.I8, WeightOnly: true},
	} {
		q := parseQuantization(t, text)
		if err := q.Check(); err != nil {
			t.Errorf("%+v: %v", want, err)
		} else if got := q.Linear("model.layers.0.mlp.up_proj"); got != want {
			t.Errorf("scheme %+v, want %+v", got, want)
		}
	}
}

func TestQuantizationRefusesINT8(t *testing.T) {
	for _, c := range []struct{ text, old, new, want string }{
		{int8Dynamic, `"int-quantized"`, `"float-quantized"`, `format is "float-quantized"`},
		{weightsAlone(t), `"num_bits":8`, `"num_bits":3`, `weights.num_bits is 3, want 4 or 8`},
		{int8Dynamic, `"num_bits":8`, `"num_bits":4`, `weights.num_bits is 4`},
		{weightsAlone(t), `"strategy":"channel"`, `"strategy":"group"`, `weights.group_size is null, want 1 to 1048576`},
		{weightsAlone(t), `"group_size":null`, `"group_size":128`, `weights.group_size is 128`},
		{int8Dynamic, `"strategy":"channel"`, `"strategy":"group"`, `weights.strategy is "group"`},
		{int8Dynamic, `"strategy":"token","symmetric":true,"type":"int"`, `"strategy":"token","symmetric":true,"type":"float"`, `input_activations.type is "float" beside weights of "int"`},
		{int8Dynamic, `"symmetric":true`, `"symmetric":false`, `weights.symmetric is false`},
		{fp8Dynamic, `"float-quantized"`, `"int-quantized"`, `format is "int-quantized"`},
	} {
		err := parseQuantization(t, strings.ReplaceAll(c.text, c.old, c.new)).Check()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), supportedScheme) {
			t.Errorf("%s: error %v, want it to hold %q", c.new, err, c.want)
		}
	}
}
