package architecture

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// olmo2 is OLMo 2 (OLMo Team 2024): Llama with norms of what sub-layers give in place of what they are given, and norms of queries and
// keys over all heads together.
func olmo2(c *weights.Config, s *Spec) error {
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	s.QKNorm, s.WholeQKNorm = true, true
	s.Norms = Norms{AttentionGave: "post_attention_layernorm", MLPGave: "post_feedforward_layernorm"}
	if c.RMSNormEps == nil {
		s.Eps = 1e-5 // transformers' default
	}
	return nil
}

// olmo3 is OLMo 3 (OLMo Team 2025): OLMo 2 of which three layers of four have a sliding window. Frequencies there are not scaled, as in
// training and in vLLM; transformers 5.5.4 scales them, too (huggingface/transformers pull request 45945).
func olmo3(c *weights.Config, s *Spec) error {
	if err := olmo2(c, s); err != nil {
		return err
	}
	if !c.SlidingWindow.Set || c.SlidingWindow.Null {
		return errors.New("sliding_window is missing, want the window of layers that have one")
	}
	s.sliding = &slidingRope{unscaled: true}
	return windowsInTurns(c, s, 4, c.SlidingWindow.N)
}
