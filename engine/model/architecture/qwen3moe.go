package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// qwen3Moe is Qwen3's mixtures of experts (Yang et al. 2025): Qwen3 with experts in place of MLPs, and an optional sliding window in all layers.
func qwen3Moe(c *weights.Config, s *Spec) error {
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	s.QKNorm = true
	if c.UseSlidingWindow {
		for i := range s.Windows {
			s.Windows[i] = slidingWindow(c)
		}
	}
	return qwenExperts(c, s, 128, 8, false)
}
