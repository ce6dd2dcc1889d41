package quantize

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// Scheme is what becomes int8, by llm-compressor's name for it.
type Scheme string

// The schemes.
const (
	W8A8  Scheme = "W8A8"  // weights, and activations as they come, each token by itself
	W8A16 Scheme = "W8A16" // weights alone
)

// Schemes are all of them.
var Schemes = []Scheme{W8A8, W8A16}

// Check refuses names of no scheme.
func (s Scheme) Check() error {
	if !slices.Contains(Schemes, s) {
		return fmt.Errorf("unknown scheme %q: want one of %v", string(s), Schemes)
	}
	return nil
}

// isPacked says that four codes are a word, as is usual where activations are left alone.
func (s Scheme) isPacked() bool { return s == W8A16 }

// quantizationConfig is quantization_config as llm-compressor writes it. Heads, which are linear layers too (of reward models, score.0 and score.2), stay
// as they are, but for an LM head that is asked for: it is a target by name, since vLLM has no class Linear for it.
func (o *Options) quantizationConfig() any {
	type args struct {
		Bits      int    `json:"num_bits"`
		Type      string `json:"type"`
		Symmetric bool   `json:"symmetric"`
		Strategy  string `json:"strategy"`
		Dynamic   bool   `json:"dynamic"`
	}
	format, activations := "int-quantized", &args{8, "int", true, "token", true}
	if o.Scheme.isPacked() {
		format, activations = "pack-quantized", nil
	}
	targets, ignore := []string{"Linear"}, []string{lmHead, "re:score.*", "classifier"}
	if o.LMHead {
		targets, ignore = append(targets, lmHead), ignore[1:]
	}
	return map[string]any{
		"quant_method":        "compressed-tensors",
		"format":              format,
		"quantization_status": "compressed",
		"config_groups": map[string]any{"group_0": map[string]any{
			"targets": targets, "weights": args{8, "int", true, "channel", false}, "input_activations": activations,
		}},
		"ignore": ignore,
	}
}

// newConfig is config.json with the scheme, and whether the embedding was the LM head before.
func (o *Options) newConfig(from string) (text []byte, tied bool, err error) {
	path := filepath.Join(from, configFile)
	raw, err := regular.ReadFile(path, maxConfig)
	if err != nil {
		return nil, false, err
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	if config == nil {
		return nil, false, fmt.Errorf("%s is null, want an object", path)
	}
	if old, ok := config["quantization_config"]; ok && string(old) != "null" {
		return nil, false, fmt.Errorf("%s has a quantization_config: the checkpoint is quantised already; name the original", path)
	}
	if o.LMHead {
		if tied, err = ownHead(config); err != nil {
			return nil, false, fmt.Errorf("%s: %w", path, err)
		}
	}
	if config["quantization_config"], err = json.Marshal(o.quantizationConfig()); err != nil {
		return nil, false, err
	}
	text, err = json.MarshalIndent(config, "", "  ")
	return text, tied, err
}
