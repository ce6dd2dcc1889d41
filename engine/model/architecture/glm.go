package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// glm is GLM 4's first models (GLM Team 2024): biases on queries, keys and values, half of a head's dimensions turned, in pairs beside each other, and a fused
// gate and up projection.
func glm(c *weights.Config, s *Spec) error {
	more := struct {
		Bias bool `json:"attention_bias"`
	}{true} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	s.QKVBias, s.FusedGateUp, s.Interleaved = more.Bias, true, true
	s.turnedPart = 0.5
	if c.HeadDim == nil {
		s.Heads.Dim = 128
	}
	if c.RMSNormEps == nil {
		s.Eps = 1.5625e-7
	}
	return nil
}

// glm4 is GLM 4's models of 2025: glm with norms of what sub-layers give, too.
func glm4(c *weights.Config, s *Spec) error {
	s.Norms.AttentionGave, s.Norms.MLPGave = "post_self_attn_layernorm", "post_mlp_layernorm"
	return glm(c, s)
}
