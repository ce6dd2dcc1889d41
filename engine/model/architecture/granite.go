package architecture

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// granite is Granite 3's dense models (IBM 2024): Llama with factors of the embedding, of what each layer adds, of attention and
// of the logits.
func granite(c *weights.Config, s *Spec) error {
	f := struct {
		Embedding float64 `json:"embedding_multiplier"`
		Residual  float64 `json:"residual_multiplier"`
		Attention float64 `json:"attention_multiplier"`
		Logits    float64 `json:"logits_scaling"`
	}{1, 1, 1, 1} // transformers' defaults
	if err := c.ReadKeys(&f); err != nil {
		return err
	}
	if !(min(f.Embedding, f.Residual, f.Attention, f.Logits) >= 1e-5 && max(f.Embedding, f.Residual, f.Attention, f.Logits) <= 1e5) {
		return fmt.Errorf("embedding_multiplier %g, residual_multiplier %g, attention_multiplier %g and logits_scaling %g: want numbers from 1e-05 to 1e+05",
			f.Embedding, f.Residual, f.Attention, f.Logits)
	}
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	// The residual stream is computed divided by residual_multiplier, so that layers add what they give. Norms give the same
	// of it when their epsilon is divided by the square.
	s.EmbedScale = float32(f.Embedding / f.Residual)
	s.Eps = float32(float64(s.Eps) / (f.Residual * f.Residual))
	s.AttnScale, s.LogitScale = float32(f.Attention), float32(1/f.Logits)
	return nil
}
