package encoder

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// modernBERT is ModernBERT (Warner et al. 2024): rotary positions, gated MLPs, normalisation before the blocks, and layers
// that attend to neighbours alone between some that attend to all.
func modernBERT(c *weights.Config, s *spec) (err error) {
	s.gated, s.eps, s.normBias, s.bias = true, float32(valueOr(c.NormEps, 1e-5)), c.NormBias, c.AttentionBias
	if c.MLPBias {
		return fmt.Errorf("mlp_bias is true, which no backend computes")
	}
	if s.act, err = activationOf("hidden_activation", c.HiddenActivation); err != nil {
		return err
	}
	if err = s.alternateLayers(c); err != nil {
		return err
	}
	if isClassifier(c) {
		s.head = headSpec{labels: c.Labels(), norm: true, bias: c.ClassifierBias}
		if c.ClassifierActivation != "" && c.ClassifierActivation != "gelu" {
			return fmt.Errorf("classifier_activation is %q, want gelu", c.ClassifierActivation)
		}
	}
	s.names = names{
		prefixes: trunkPrefixes(c, "model."),
		word:     "embeddings.tok_embeddings", norm: "embeddings.norm", layer: "layers.%d.",
		qkv: []string{"attn.Wqkv"}, out: "attn.Wo", attnNorm: "attn_norm",
		up: []string{"mlp.Wi"}, down: "mlp.Wo", mlpNorm: "mlp_norm", final: "final_norm",
		dense: "head.dense", headNorm: "head.norm", labels: "classifier",
		unused: []string{"head.", "decoder."},
	}
	return nil
}

// alternateLayers gives each layer its window and its rotary angles.
func (s *spec) alternateLayers(c *weights.Config) error {
	every, window := valueOr(c.GlobalAttnEveryNLayers, 3), valueOr(c.LocalAttention, 128)
	if every < 1 || window < 2 || c.LayerTypes != nil && len(c.LayerTypes) != s.layers {
		return fmt.Errorf("invalid layers: global_attn_every_n_layers is %d, want at least 1; local_attention is %d, want at least 2; %d layer_types, want %d or none", every, window, len(c.LayerTypes), s.layers)
	}
	global, local := valueOr(c.GlobalRopeTheta, 160000), valueOr(c.LocalRopeTheta, 10000)
	if r := c.RopeParameters; r != nil {
		var err error
		if global, err = ropeTheta(r.Full, global); err == nil {
			local, err = ropeTheta(r.Sliding, local)
		}
		if err != nil {
			return err
		}
	}
	if c.RopeScaling != nil || !(global > 0) || !(local > 0) {
		return fmt.Errorf("rotary angles of theta %g and %g: rope_scaling is not supported, and both are to be positive", global, local)
	}
	s.freqs = [][]float32{ropeFrequencies(global, s.heads.Dim), ropeFrequencies(local, s.heads.Dim)}
	for i := range s.layers {
		sliding := i%every != 0
		if c.LayerTypes != nil {
			if sliding = c.LayerTypes[i] == "sliding_attention"; !sliding && c.LayerTypes[i] != "full_attention" {
				return fmt.Errorf("layer_types[%d] is %q, want full_attention or sliding_attention", i, c.LayerTypes[i])
			}
		}
		if s.rope[i] = 0; sliding {
			s.rope[i], s.windows[i] = 1, window/2+1
		}
	}
	return nil
}

func ropeTheta(r *weights.Rope, def float64) (float64, error) {
	if r == nil {
		return def, nil
	}
	if r.Type != "" && r.Type != "default" {
		return 0, fmt.Errorf("rope type %q is not supported, want default", r.Type)
	}
	return valueOr(r.Theta, def), nil
}
