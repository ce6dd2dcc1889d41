package peft

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/internal/jsonerror"
)

// MaxRank bounds a rank, as vLLM's --max-lora-rank does.
const MaxRank = 512

// config is what adapter_config.json says that decides what is computed.
type config struct {
	Type         string             `json:"peft_type"`
	Rank         int                `json:"r"`
	Alpha        float64            `json:"lora_alpha"`
	RankStable   bool               `json:"use_rslora"`
	Targets      json.RawMessage    `json:"target_modules"` // a list of ends of names, or one pattern
	RankPattern  map[string]int     `json:"rank_pattern"`
	AlphaPattern map[string]float64 `json:"alpha_pattern"`
	Bias         string             `json:"bias"`
	Init         json.RawMessage    `json:"init_lora_weights"`
	Layers       json.RawMessage    `json:"layers_to_transform"`
	Exclude      json.RawMessage    `json:"exclude_modules"`

	ranks  patterns[int]     // RankPattern
	alphas patterns[float64] // AlphaPattern
}

// silent are keys that change nothing of what is computed.
var silent = []string{
	"peft_type", "r", "lora_alpha", "use_rslora", "target_modules", "rank_pattern", "alpha_pattern", "bias", "init_lora_weights", "layers_to_transform", "exclude_modules",
	"auto_mapping", "base_model_name_or_path", "eva_config", "inference_mode", "layers_pattern", "loftq_config", "lora_dropout", "megatron_core", "peft_version", "qalora_group_size",
	"revision", "task_type", "runtime_config",
}

// starts are values of init_lora_weights that leave the base's weights as they are.
var starts = []string{"", "null", "true", "false", `"gaussian"`, `"eva"`, `"orthogonal"`}

func readConfig(raw []byte) (c config, err error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return c, errors.New(jsonerror.Explain(err, &keys))
	}
	for _, key := range sortedKeys(keys) {
		if value := string(keys[key]); !slices.Contains(silent, key) && !slices.Contains([]string{"null", "false", "[]", "{}", `""`, "0"}, strings.Join(strings.Fields(value), "")) {
			return c, fmt.Errorf("%s is %.80s, which is not computed here: want an adapter without, or merge it into the weights (in peft, merge_and_unload)", key, value)
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, errors.New(jsonerror.Explain(err, &c))
	}
	switch {
	case c.Type != "LORA":
		return c, fmt.Errorf("peft_type is %.40q: want LORA", c.Type)
	case c.Bias != "" && c.Bias != "none":
		return c, fmt.Errorf("bias is %.40q: want none", c.Bias)
	case !slices.Contains(starts, string(c.Init)):
		return c, fmt.Errorf("init_lora_weights is %.40s, which changes the base's weights: want an adapter converted to LoRA (in peft, path_initial_model_for_weight_conversion)", c.Init)
	}
	if _, err := c.listTargets(); err != nil {
		return c, err
	}
	if err := checkRank("r", c.Rank); err != nil {
		return c, err
	}
	for _, key := range sortedKeys(c.RankPattern) {
		if err := checkRank(fmt.Sprintf("rank_pattern of %.80q", key), c.RankPattern[key]); err != nil {
			return c, err
		}
	}
	if c.ranks, err = compilePatterns(c.RankPattern); err != nil {
		return c, fmt.Errorf("rank_pattern: %w", err)
	}
	if c.alphas, err = compilePatterns(c.AlphaPattern); err != nil {
		return c, fmt.Errorf("alpha_pattern: %w", err)
	}
	return c, nil
}

func checkRank(what string, rank int) error {
	if rank < 1 || rank > MaxRank {
		return fmt.Errorf("%s is %d: want 1 to %d", what, rank, MaxRank)
	}
	return nil
}

// module is the rank and the scale of a module's pair.
func (c *config) module(name string) (rank int, scale float32, err error) {
	if rank, err = c.ranks.findValue(name, c.Rank); err != nil {
		return 0, 0, fmt.Errorf("rank_pattern: %w", err)
	}
	alpha, err := c.alphas.findValue(name, c.Alpha)
	if err != nil {
		return 0, 0, fmt.Errorf("alpha_pattern: %w", err)
	}
	by := float64(rank)
	if c.RankStable {
		by = math.Sqrt(by)
	}
	return rank, float32(alpha / by), nil
}

// listTargets are the ends of names of the modules that have pairs, in some layers at least; nil where that is said by a pattern, or not at all.
func (c *config) listTargets() (list []string, err error) {
	var pattern string
	switch {
	case len(c.Targets) == 0, json.Unmarshal(c.Targets, &pattern) == nil: // null is no pattern either
		return nil, nil
	case json.Unmarshal(c.Targets, &list) != nil:
		return nil, fmt.Errorf("target_modules is %.40s: want a list of names, or one pattern", c.Targets)
	}
	return list, nil
}

// inEveryLayer says that what target_modules lists has pairs in all layers.
func (c *config) inEveryLayer() bool {
	given := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" && string(raw) != "[]" }
	return !given(c.Layers) && !given(c.Exclude)
}
