package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// qwen2Moe is Qwen1.5-MoE and Qwen2-57B-A14B (Yang et al. 2024): Qwen2 with experts and a shared one, and an optional sliding window in every second
// layer of the lower ones.
func qwen2Moe(c *weights.Config, s *Spec) error {
	more := struct {
		Biased bool `json:"qkv_bias"`
	}{true} // transformers' default
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	s.QKVBias = more.Biased
	window, below := 0, 28 // transformers' default
	if c.UseSlidingWindow {
		window = slidingWindow(c)
	}
	if c.MaxWindowLayers != nil {
		below = *c.MaxWindowLayers
	}
	if err := windowsOf(c, s, window, func(i int) bool { return i%2 == 0 && i < below }); err != nil {
		return err
	}
	return qwenExperts(c, s, 60, 4, true)
}
