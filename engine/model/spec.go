package model

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// spec is all that the graph knows of an architecture.
type spec struct {
	layers, hidden, intermediate, vocab int

	heads   kernels.Heads
	windows []int // of each layer: as kernels.AttentionSpec.Window
	qkvBias bool
	outBias bool // bias of the attention's output projection
	qkNorm  bool // per-head norm of queries and keys
	invFreq []float32
	eps     float32
	tied    bool // the embedding is the LM head
	maxLen  int  // max_position_embeddings

	trunk       string   // what names of tensors begin with, but for heads
	vectorsOnly bool     // there is no LM head
	head        []linear // the classification head; nil for none

	schemes map[string]weights.Scheme // of linear layers and of an LM head in codes, by name; nil where none is quantised
}

// families maps the beginnings of names in config.json's architectures to what sets them apart from the common
// part, each in a file of its own.
var families = map[string]func(*weights.Config, *spec) error{
	"Llama":   llama,
	"Mistral": mistral,
	"Qwen2":   qwen2,
	"Qwen3":   qwen3,
}

// supported says which names in config.json's architectures are.
func supported() string {
	var names []string
	for family := range families {
		names = append(names, family+"ForCausalLM")
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + ", each also as Model and ForSequenceClassification, Qwen2ForRewardModel, or an encoder: Bert, Roberta, XLMRoberta and ModernBert"
}

// CheckConfig says whether this engine can run the model that a configuration describes, or what stands against it.
func CheckConfig(c weights.Config) error {
	_, err := newSpec(&c)
	return err
}

// newSpec reads a configuration, and refuses what the graph would compute wrongly.
func newSpec(c *weights.Config) (spec, error) { return specIn(c, usualTrunk) }

// specIn is newSpec of a checkpoint whose tensors have names that begin so.
func specIn(c *weights.Config, trunk string) (spec, error) {
	var family, purpose string
	if len(c.Architectures) == 1 {
		family, purpose = purposeOf(c.Architectures[0])
	}
	if family == "" {
		return spec{}, fmt.Errorf("config.json: unsupported architecture %v, want one of %s", c.Architectures, supported())
	}
	var s spec
	err := c.CheckSizes()
	if err == nil {
		s, err = commonSpec(c)
	}
	if err == nil {
		s.trunk = trunk
		err = families[family](c, &s)
	}
	if err == nil {
		err = purposes[purpose](c, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err == nil && c.QuantizationConfig != nil {
		err = s.quantize(c.QuantizationConfig)
	}
	if err == nil {
		s.invFreq, err = ropeFrequencies(c, s.heads.Dim)
	}
	if err != nil {
		return spec{}, fmt.Errorf("config.json (%s): %w", c.Architectures[0], err)
	}
	return s, nil
}

func commonSpec(c *weights.Config) (spec, error) {
	s := spec{
		layers:       c.NumHiddenLayers,
		hidden:       c.HiddenSize,
		intermediate: c.IntermediateSize,
		vocab:        c.VocabSize,
		heads:        kernels.Heads{Q: c.NumAttentionHeads, KV: c.NumAttentionHeads, Dim: c.HiddenSize / c.NumAttentionHeads},
		windows:      make([]int, c.NumHiddenLayers),
		eps:          1e-6,
		tied:         c.TieWordEmbeddings,
		maxLen:       c.MaxPositionEmbeddings,
	}
	if c.NumKeyValueHeads != nil {
		s.heads.KV = *c.NumKeyValueHeads
	}
	if c.HeadDim != nil {
		s.heads.Dim = *c.HeadDim
	}
	if c.RMSNormEps != nil {
		s.eps = float32(*c.RMSNormEps)
	}
	switch {
	case c.HiddenAct != "" && c.HiddenAct != "silu" && c.HiddenAct != "swish":
		return s, fmt.Errorf("hidden_act is %q, want silu", c.HiddenAct)
	case c.MLPBias:
		return s, fmt.Errorf("mlp_bias is true, which no backend computes")
	}
	return s, nil
}

func (s *spec) check() error {
	h := s.heads
	switch {
	case h.Q%h.KV != 0:
		return fmt.Errorf("%d attention heads cannot share %d key-value heads evenly", h.Q, h.KV)
	case !(s.eps >= 0 && s.eps < 1):
		return fmt.Errorf("rms_norm_eps is %g, want a number from 0 to less than 1", s.eps)
	case h.Dim <= 0 || h.Dim%2 != 0:
		return fmt.Errorf("head dimension %d is not a positive even number", h.Dim)
	}
	for _, w := range s.windows {
		if w < 0 {
			return fmt.Errorf("sliding_window is %d, want a positive number or null", w)
		}
	}
	return nil
}

// digest identifies the configuration beside the weights' own fingerprint.
func (s *spec) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%v", *s))
	return fmt.Sprintf("%x", sum[:8])
}

// layeredWindows gives the sliding window to the layers that layer_types names or, in its absence,
// to those from max_window_layers on, as Qwen2's and Qwen3's configurations do.
func layeredWindows(c *weights.Config, s *spec) error {
	if c.LayerTypes != nil && len(c.LayerTypes) != s.layers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(c.LayerTypes), s.layers)
	}
	window := 0
	if c.UseSlidingWindow {
		window = slidingWindow(c)
	}
	from := 28 // transformers' default
	if c.MaxWindowLayers != nil {
		from = *c.MaxWindowLayers
	}
	for i := range s.windows {
		sliding := c.LayerTypes == nil && i >= from
		if c.LayerTypes != nil {
			switch c.LayerTypes[i] {
			case "sliding_attention":
				sliding = true
			case "full_attention":
			default:
				return fmt.Errorf("layer_types[%d] is %q, want full_attention or sliding_attention", i, c.LayerTypes[i])
			}
		}
		if sliding {
			s.windows[i] = window
		}
	}
	return nil
}

// slidingWindow is 0 for null; transformers takes an absent key for 4,096.
func slidingWindow(c *weights.Config) int {
	switch {
	case !c.SlidingWindow.Set:
		return 4096
	case c.SlidingWindow.Null:
		return 0
	}
	return c.SlidingWindow.N
}
