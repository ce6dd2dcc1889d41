package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// qwen3 is Qwen3's dense models (Yang et al. 2025): queries and keys are normalised per head before
// the rotation, and the head dimension is independent of the hidden size.
func qwen3(c *weights.Config, s *Spec) error {
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	s.QKNorm = true
	if c.HeadDim == nil {
		s.Heads.Dim = 128 // transformers' default
	}
	return layeredWindows(c, s)
}
