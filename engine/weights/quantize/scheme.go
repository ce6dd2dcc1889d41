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
		return fmt.Errorf("scheme %q is unknown; want one of %v", string(s), Schemes)
	}
	return nil
}

// packed says that four codes are a word, as is usual where activations are left alone.
func (s Scheme) packed() bool { return s == W8A16 }

// quantizationConfig is quantization_config as llm-compressor writes it. Heads, which are linear layers too (of reward models, score.0 and score.2), stay
// as they are.
func (s Scheme) quantizationConfig() any {
	type args struct {
		Bits      int    `json:"num_bits"`
		Type      string `json:"type"`
		Symmetric bool   `json:"symmetric"`
		Strategy  string `json:"strategy"`
		Dynamic   bool   `json:"dynamic"`
	}
	format, activations := "int-quantized", &args{8, "int", true, "token", true}
	if s.packed() {
		format, activations = "pack-quantized", nil
	}
	return map[string]any{
		"quant_method":        "compressed-tensors",
		"format":              format,
		"quantization_status": "compressed",
		"config_groups": map[string]any{"group_0": map[string]any{
			"targets": []string{"Linear"}, "weights": args{8, "int", true, "channel", false}, "input_activations": activations,
		}},
		"ignore": []string{"lm_head", "re:score.*", "classifier"},
	}
}

// newConfig is config.json with the scheme.
func (s Scheme) newConfig(from string) ([]byte, error) {
	path := filepath.Join(from, configFile)
	raw, err := regular.ReadFile(path, maxConfig)
	if err != nil {
		return nil, err
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if old, ok := config["quantization_config"]; ok && string(old) != "null" {
		return nil, fmt.Errorf("%s has a quantization_config: the checkpoint is quantised already; name the one that it was made of", path)
	}
	if config["quantization_config"], err = json.Marshal(s.quantizationConfig()); err != nil {
		return nil, err
	}
	return json.MarshalIndent(config, "", "  ")
}
