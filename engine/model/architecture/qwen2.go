package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// qwen2 is Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases on queries, keys and values, and
// an optional sliding window in the upper layers.
func qwen2(c *weights.Config, s *Spec) error {
	s.QKVBias = true
	return layeredWindows(c, s)
}
